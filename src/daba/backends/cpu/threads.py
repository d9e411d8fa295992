"""How many threads the CPU kernels use, how they wait for each other, and those that we run kernels
on ourselves.

Such a kernel is a compiled function that lets go of Python's lock and works on the tasks lo : hi it
is given. Tasks are cut by the problem alone and each writes its own results, so that no number of
threads changes a bit.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from daba.core.errors import DabaError

Kernel = Callable[..., None]
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


@contextmanager
def threads(count: int) -> Iterator[None]:
    """A context in which Numba's loops run on so many threads."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)


class Pool:
    """Threads besides the one that calls; they sleep until there is work."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._workers = [_Worker() for _ in range(threads - 1)]

    def run(self, kernel: Kernel, tasks: int, *args: Any) -> None:
        """kernel(lo, hi, *args) on all tasks, in as many runs as there are threads."""
        runs = min(self.threads, tasks)
        cuts = [tasks * n // runs for n in range(runs + 1)] if runs else [0]
        busy = self._workers[: max(runs - 1, 0)]
        for worker, lo, hi in zip(busy, cuts[1:-1], cuts[2:], strict=True):
            worker.start(kernel, lo, hi, args)
        try:
            if runs:
                kernel(0, cuts[1], *args)
        finally:
            for worker in busy:
                worker.wait()

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []


class _Worker:
    """One thread. Two locks hand work over: cheaper than queues, whose turns a kernel of some
    hundred microseconds would feel."""

    def __init__(self) -> None:
        self.go, self.done = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.done.acquire()
        self.job: tuple[Kernel, int, int, tuple[Any, ...]] | None = None
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def start(self, kernel: Kernel, lo: int, hi: int, args: tuple[Any, ...]) -> None:
        self.job = kernel, lo, hi, args
        self.go.release()

    def wait(self) -> None:
        self.done.acquire()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def end(self) -> None:
        self.job = None
        self.go.release()

    def _loop(self) -> None:
        while True:
            self.go.acquire()
            if self.job is None:
                return
            kernel, lo, hi, args = self.job
            try:
                kernel(lo, hi, *args)
            except BaseException as failure:
                self.failure = failure
            self.done.release()
