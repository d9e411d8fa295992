"""What compiled kernels call, without importing Numba: its C modules, which work without the rest
of it, BLAS, Python and the C library.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from daba.backends.cpu.cache import version_file
from daba.backends.cpu.threads import MOST, most_threads

KNOWN = b'"version": "0.68.'
"""Releases of Numba whose C modules were seen to work alone, as its `_version.py` says it."""
SETTINGS = (MOST, "NUMBA_CACHE_DIR")
"""Environment variables of Numba's that mean the same here."""
BLAS = "scipy.linalg.cython_blas"
"""Module through which Numba finds BLAS, a tenth of a second to import."""
LIBRARY = "libscipy_openblas*"
PREFIX = "scipy_"
"""Of the BLAS that SciPy's wheels bring, its file and its functions."""
FUNCTIONS = ("dgemm", "dgemv", "ddot")
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Environment variables by which it is told how many threads to have, …"""
PATIENCE = ("OPENBLAS_THREAD_TIMEOUT", "16")
"""… and for how many cycles, 2 to this power, those spin when they have nothing to do. Without, it
is a tenth of a second after each solve that others could have used: the next one, begun at once,
takes half as long again."""
NAME = b"BLAS"
"""Of what they are handed over in; any."""


@cache
def usable() -> bool:
    """Not on other systems, or where Numba is told to do things otherwise, or is not as we know it:
    then it does them itself."""
    if not (sys.platform == "linux" and os.uname().machine == "x86_64"):
        return False
    if KNOWN not in version_file("numba"):
        return False
    if any(name.startswith("NUMBA_") and name not in SETTINGS for name in os.environ):
        return False
    try:
        return bool(_of_numba())
    except (ImportError, AttributeError, KeyError):
        return False


@cache
def address_of(name: str) -> int:
    """Of a function or variable that Numba's kernels know by this name."""
    if name in ("numba_xxgemm", "numba_xxgemv", "numba_xxdot"):
        find_blas()
    found = _of_numba().get(name)
    if found is None:
        found = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
    return found


@cache
def _of_numba() -> dict[str, int]:
    helpers = _module("numba._helperlib").c_helpers
    counts = _module("numba.core.runtime._nrt_python").c_helpers
    loops = {n: a for n, a in vars(threading_layer()).items() if isinstance(a, int)}
    return {
        **helpers,  # functions of the C library
        **{f"numba_{name}": address for name, address in helpers.items()},
        **{n if n.startswith("_") else f"NRT_{n}": address for n, address in counts.items()},
        **loops,
        "numba_parallel_for": loops["parallel_for"],
    }


@cache
def threading_layer() -> ModuleType:
    """Numba's, with as many threads as it would have."""
    layer = _module("numba.np.ufunc.omppool")
    ctypes.CFUNCTYPE(None, ctypes.c_int)(layer.launch_threads)(most_threads())
    return layer


def set_num_threads(count: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_int)(threading_layer().set_num_threads)(count)


def _module(name: str) -> Any:
    """A C module of a package that is not imported with it, and that the package, should it be
    imported later, loads as if nobody had."""
    package, *inner = name.split(".")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named '{package}'", name=package)
    before = sys.modules.get(name)
    if before is not None:
        return before
    path = Path(spec.origin).parent.joinpath(*inner)
    for suffix in EXTENSION_SUFFIXES:
        file = path.with_name(path.name + suffix)
        if file.exists():
            loader = ExtensionFileLoader(name, str(file))
            found = spec_from_loader(name, loader)
            assert found is not None
            module = module_from_spec(found)
            loader.exec_module(module)
            sys.modules.pop(name, None)
            return module
    raise ModuleNotFoundError(f"No module named '{name}'", name=name)


@cache
def find_blas() -> None:
    """Have Numba's functions that call BLAS find it: each asks, when first called, a module of
    SciPy's for it, and is shown another that knows these functions only."""
    with _blas_module():
        helpers = _module("numba._helperlib").c_helpers
        gemm, gemv, dot = (
            ctypes.PYFUNCTYPE(ctypes.c_int)(helpers[name]) for name in ("xxgemm", "xxgemv", "xxdot")
        )
        kind, plain, x = ctypes.c_char(b"d"), ctypes.c_char(b"n"), ctypes.byref(ctypes.c_double())
        none, one = ctypes.c_ssize_t(0), ctypes.c_ssize_t(1)  # of rows and columns; from row to row
        gemm(kind, plain, plain, none, none, none, x, x, one, x, one, x, x, one)
        gemv(kind, plain, none, none, x, x, one, x, x, x)
        dot(kind, ctypes.c_char(b"\0"), none, x, x, x)


def blas_is_found() -> bool:
    return find_blas.cache_info().currsize > 0


@contextmanager
def _blas_module() -> Iterator[None]:
    library = None if BLAS in sys.modules else _blas_library()
    if library is None:
        yield
        return
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    shown: Any = ModuleType(BLAS)
    shown.__pyx_capi__ = {
        name: capsule(ctypes.cast(library[f"{PREFIX}{name}_"], ctypes.c_void_p), NAME, None)
        for name in FUNCTIONS
    }
    added = {"scipy", BLAS} - sys.modules.keys()  # of a module's name the first is imported, too
    sys.modules.update(dict.fromkeys(added, shown))
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


def _blas_library() -> Any:
    """SciPy's own, or None: of other builds only SciPy knows where it is. With one thread, for now:
    others, which a solve never uses, would spin when they start."""
    spec = find_spec("scipy")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'scipy'", name="scipy")
    told = any(name in os.environ for name in BLAS_THREADS)
    with _environment(PATIENCE, *(() if told else ((BLAS_THREADS[0], "1"),))):
        for file in Path(spec.origin).parent.with_name("scipy.libs").glob(LIBRARY):
            library = ctypes.CDLL(str(file))
            if all(hasattr(library, f"{PREFIX}{name}_") for name in FUNCTIONS):
                count = library[f"{PREFIX}openblas_get_num_threads"]() if told else most_threads()
                library[f"{PREFIX}openblas_set_num_threads"](1)
                _threads_of_blas.append((library, count))
                return library
    return None


@contextmanager
def _environment(*settings: tuple[str, str]) -> Iterator[None]:
    """A context in which environment variables are set that were not."""
    new = [(name, value) for name, value in settings if name not in os.environ]
    os.environ.update(new)
    try:
        yield
    finally:
        for name, _ in new:
            del os.environ[name]


_threads_of_blas: list[tuple[Any, int]] = []
"""Libraries that were loaded here, and how many threads they would have."""


def start_blas_threads() -> None:
    """For whoever uses BLAS after a solve."""
    while _threads_of_blas:
        library, count = _threads_of_blas.pop()
        library[f"{PREFIX}openblas_set_num_threads"](count)
