"""How many threads the CPU kernels use, and how they wait for each other."""

from __future__ import annotations

import os
import sys
from typing import Any

from daba.core.errors import DabaError

SPIN = "10000"
"""A thread that waits spins for some ten microseconds and then sleeps. OpenMP's own default is to
spin for as long as it takes, and on a busy machine that made a solve thirty times slower."""


def one_blas_thread() -> Any:
    """A context in which BLAS runs on one thread: kernels call it from many, and its own threads
    would change the order of sums with their number."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")


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
