"""The decorators of the CPU kernels, and where compiled code lives."""

import hashlib
import os
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numba

from daba.core import formulas as numpy_formulas

ROOT = Path(__file__).parent
SOURCES = [*sorted(ROOT.glob("*.py")), Path(numpy_formulas.__file__)]


def _cache_folder():
    """A folder of the user's cache named after the sources, so that no stale code is run.

    Numba looks only at the file of the function it caches, not at the formulas it calls.
    """
    digest = hashlib.sha256(b"".join(s.read_bytes() for s in SOURCES) + numba.__version__.encode())
    if base := os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME"):
        root = Path(base)
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA", Path.home()))
    else:
        root = Path.home() / ".cache"
    return root / "daba" / digest.hexdigest()[:16]


def stamp(sources):
    """Names all that Numba wants to be as it was: where the sources are and since when, Python, and
    the CPU. Another installation of the same version compiles anew."""
    since = [(str(s), s.stat().st_mtime_ns) for s in sources]
    found = (since, sys.version, llvm.get_host_cpu_name())
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


CACHE = _cache_folder()
COMPLETE = CACHE / f"complete-{stamp(SOURCES)}"
"""Exists once every kernel has been compiled."""


def _caching():
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
    except OSError:  # no home, or a read-only one: compile in memory
        return False
    return os.access(CACHE, os.W_OK)


_CAN_CACHE = _caching()


def _compiler(**options):
    def decorate(function):
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(CACHE)
        try:
            return numba.njit(
                cache=_CAN_CACHE, error_model="numpy", fastmath={"contract"}, **options
            )(function)
        finally:
            numba.config.CACHE_DIR = before

    return decorate


kernel = _compiler(parallel=True)
"""A function with `numba.prange` loops over tasks, cameras or points."""

serial = _compiler()
"""A function that runs on one thread, or only calls kernels."""

inline = numba.njit(error_model="numpy", fastmath={"contract"})
"""A small function called inside kernels."""
