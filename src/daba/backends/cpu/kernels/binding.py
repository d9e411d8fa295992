"""The decorators of the CPU kernels, and `core`'s formulas and decisions bound by them.

A kernel is never compiled by the process that runs it (see `compiler.py`): it is loaded from the
cache, and where it is not there yet, a worker compiles it first.
"""

import copy
import functools
import hashlib
import importlib
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

from daba.backends.cpu import cache
from daba.backends.cpu.cache import COMPILE, Job, Name
from daba.core import decisions as _decisions
from daba.core import formulas as _formulas
from daba.core.errors import DabaError

if numba.config.DISABLE_JIT:
    raise DabaError(
        "the environment variable NUMBA_DISABLE_JIT is set, and a CPU's kernels must be compiled: "
        "unset it"
    )
_kernels: dict = {}
"""All kernels that there are, by name."""
numba_names: set[str] = set()
"""What Numba calls them."""
_factory: list = []
"""Name and arguments of the factory at work."""


def find_kernel(name):
    """As Numba has it."""
    module = importlib.import_module(name.module)
    if name.factory:
        getattr(module, name.factory)(*name.arguments)
    return _kernels[name]


def compile_kernel(name, signature):
    """In a worker: compile for a signature, or for the one that the annotations declare, with what
    may be None given or not."""
    name = Name(*name)
    kernel = find_kernel(name)
    if not isinstance(signature, bool):
        kernel.compile(signature)
        return
    from daba.backends.cpu import symbols
    from daba.backends.cpu.kernels.signatures import signature_of, spelled

    types = signature_of(kernel.py_func, signature)
    kernel._cache.wanted = types
    kernel.compile(types)
    if symbols.usable():
        _keep_code(kernel.overloads[types], Job(COMPILE, (tuple(name), signature)), spelled(types))


def _keep_code(compiled, job, signature):
    """For those who load without Numba."""
    from daba.backends.cpu.compiled import LinkError, save
    from daba.backends.cpu.objects import link

    code, described = compiled.library._get_compiled_object(), compiled.fndesc
    names = described.llvm_cpython_wrapper_name, described.env_name
    try:
        linked = link(code, *names, signature)
    except LinkError:
        linked = None
    save(job.object, linked)


def factory(make):
    """A function that makes kernels for what it is given, such as a block size, once for each. Its
    arguments must be hashable and can be pickled."""

    @functools.cache
    @functools.wraps(make)
    def made(*arguments):
        _factory.append((make.__name__, arguments))
        try:
            return make(*arguments)
        finally:
            _factory.pop()

    return made


class _LoadedOnly(FunctionCache):
    """Loads compiled code, and has it compiled elsewhere where there is none."""

    def __init__(self, function, name):
        super().__init__(function)
        self._kernel = name
        self.wanted = None
        """Types for which a worker compiles whatever is there."""

    def _load(self, sig, target_context):
        """As Numba does, but for what it imports to be ready to compile: half a second."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def load_overload(self, sig, target_context):
        found = None if sig == self.wanted else self._load(sig, target_context)
        if found is not None or cache.is_worker:
            return found
        from daba.backends.cpu import compiler

        with compiler.one_at_a_time():
            found = self._load(sig, target_context)
            if found is None:
                failures = compiler.run_in_workers([Job(COMPILE, (tuple(self._kernel), sig))])
                found = self._load(sig, target_context)
        if found is None:
            _tell_once(f"{self._kernel.kernel}: {failures[0] if failures else 'it was not cached'}")
        return found


@functools.cache
def _tell_once(reason):
    print(
        f"daba: no other process could compile a kernel, so this one does; the last bits of its "
        f"results may differ ({reason})",
        file=sys.stderr,
    )


def _compiler(**options):
    def decorate(function):
        made_by = _factory[-1] if _factory else ()
        name = Name(function.__module__, function.__name__, *made_by)
        if made_by:  # Numba tells cached kernels apart by file, line and name alone
            function.__qualname__ += "-" + hashlib.sha256(repr(made_by).encode()).hexdigest()[:12]
        own: Any = copy.deepcopy(options)  # Numba empties it
        own |= {"error_model": "numpy", "fastmath": {"contract"}, "no_cfunc_wrapper": True}
        dispatcher = numba.njit(**own)(function)
        if cache.FOLDER is not None:
            before = numba.config.CACHE_DIR
            numba.config.CACHE_DIR = str(cache.FOLDER)
            try:
                dispatcher._cache = _LoadedOnly(function, name)
            finally:
                numba.config.CACHE_DIR = before
        dispatcher.name = name
        numba_names.add(function.__qualname__)
        _kernels[name] = dispatcher
        return dispatcher

    return decorate


NOT_BY_ITSELF = (
    "comprehension", "reduction", "inplace_binop", "setitem", "numpy", "stencil", "fusion",
)  # fmt: skip
"""What Numba would make parallel without being told to, here small arrays of one task: each such
loop takes a third of a second to compile."""
kernel = _compiler(parallel=dict.fromkeys(NOT_BY_ITSELF, False))
"""A function with `numba.prange` loops over tasks, cameras or points."""

serial = _compiler()
"""A function that runs on one thread, or only calls kernels."""

without_lock = _compiler(nogil=True)
"""A function that lets go of Python's lock, so that threads can run it side by side."""

_no_wrapper = cache.is_worker
INSIDE: Any = {
    "error_model": "numpy", "no_cpython_wrapper": _no_wrapper, "no_cfunc_wrapper": _no_wrapper,
}  # fmt: skip
"""Options of functions that kernels call. In a worker nobody else does: what would let Python call
them takes as long to compile as they do."""
inline = numba.njit(fastmath={"contract"}, **INSIDE)
"""A small function called inside kernels."""
inlined = numba.njit(fastmath={"contract"}, forceinline=True, **INSIDE)
"""The same, always put into its callers. Left alone LLVM calls projections and hands their
derivatives over in memory: points of trafalgar-21 settle in 10.5 instead of 4.5 ms."""


@inline
def where(condition, yes, no):
    return yes if condition else no


@inline
def maximum(x, y):
    return max(x, y)


@inline
def minimum(x, y):
    return min(x, y)


@inline
def cube(x):
    return x**3


NAMES = {
    "__name__": __name__, "jit": inline, "where": where, "maximum": maximum, "minimum": minimum,
    "cube": cube, "sqrt": math.sqrt, "exp": math.exp, "expm1": math.expm1, "log1p": math.log1p,
    "sin": math.sin, "tan": math.tan, "arctan2": math.atan2,
}  # fmt: skip
"""Numba's meaning of the names that `core`'s formulas are written in."""


def run_file(path, names):
    """Run a file in which these names are bound."""
    exec(compile(Path(path).read_text("utf-8"), str(path), "exec"), names)


def _bound(module):
    """A module of `core` once more, with its names bound to Numba's."""
    names = dict(NAMES)
    run_file(module.__file__, names)
    return SimpleNamespace(**names)


formulas = _bound(_formulas)
decisions = _bound(_decisions)
