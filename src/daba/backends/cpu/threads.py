"""How many threads the CPU kernels use, and how they wait for each other."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

from daba.core.errors import DabaError

SPIN = "10000"
"""A thread that waits spins for some ten microseconds and then sleeps. OpenMP's own default is to
spin for as long as it takes, and on a busy machine that made a solve thirty times slower."""

WITH_BLAS = ("scipy.linalg", "torch", "mkl")
"""Packages that bring a BLAS of their own."""


def one_blas_thread() -> Any:
    """A context in which BLAS runs on one thread: kernels call it from many, and its own threads
    would change the order of sums with their number."""
    loaded = tuple(name for name in WITH_BLAS if name in sys.modules)
    return _libraries(loaded).limit(limits=1, user_api="blas")


@cache
def _libraries(loaded: tuple[str, ...]) -> Any:
    """What has threads of its own in this process; found once, which takes 5 ms, for each set of
    packages that bring such."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def set_threads(threads: int | None) -> int:
    """Use that many threads from now on (all of them if None); returns how many."""
    if "numba" not in sys.modules:
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault("GOMP_SPINCOUNT", SPIN)
        if threads is not None:
            available = int(os.environ.get("NUMBA_NUM_THREADS", os.cpu_count() or 1))
            if threads > available:
                os.environ["NUMBA_NUM_THREADS"] = str(threads)
    import numba

    most = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    wanted = most if threads is None else threads
    if wanted > most:
        raise DabaError(
            f"{wanted} threads asked for, but Numba was started with {most}; set the environment "
            f"variable NUMBA_NUM_THREADS={wanted} before Python starts"
        )
    numba.set_num_threads(wanted)
    return wanted
