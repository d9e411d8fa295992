"""How many threads the CPU kernels use, how they wait for each other, and those that we run kernels
on ourselves.

Such a kernel is a compiled function that lets go of Python's lock and works on the tasks that it
claims. Tasks are cut by the problem alone and each writes its own results, so that neither the
number of threads nor who claims what changes a bit.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.distributed.comm.base import usable_cores

Kernel = Callable[..., None]
SPIN = "10000"
"""A thread that waits spins for some ten microseconds and then sleeps. OpenMP's own default is to
spin for as long as it takes, and on a busy machine that made a solve thirty times slower."""

SYMBOLS = "daba.backends.cpu.symbols"
"""Module that is loaded with the first kernel that is run without Numba."""
MOST = "NUMBA_NUM_THREADS"
"""Environment variable that says how many threads there may be."""
CLAIMS = 8
"""Times that each thread claims tasks of a kernel, if all are equally quick."""
TURNS = 100_000
"""Looks at a counter, a tenth of a millisecond or two, before a thread that waits sleeps."""
NAP = 5e-5
"""Seconds that it sleeps before it looks again."""
APART = 8
"""Numbers in a line of the cache: no two counters share one."""
WITH_BLAS = ("scipy.linalg", "torch", "mkl")
"""Packages that bring a BLAS of their own."""


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which BLAS runs on one thread: kernels call it from many, and its own threads
    would change the order of sums with their number."""
    loaded = tuple(name for name in WITH_BLAS if name in sys.modules)
    ours = sys.modules.get(SYMBOLS)
    found = ours is not None and ours.blas_is_found()
    alone = not loaded and not found and _no_other_thread()
    with nullcontext() if alone else _libraries((*loaded, found)).limit(limits=1, user_api="blas"):
        try:
            yield
        finally:
            if (ours := sys.modules.get(SYMBOLS)) is not None:
                ours.start_blas_threads()


def _no_other_thread() -> bool:
    """Whether this process has one thread: OpenBLAS starts its own when it is loaded, and what has
    none need not be found, which takes 5 ms."""
    import numpy as np

    known: Any = np.show_config(mode="dicts")
    if "openblas" not in known.get("Build Dependencies", {}).get("blas", {}).get("name", ""):
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


@cache
def _libraries(loaded: tuple[Any, ...]) -> Any:
    """What has threads of its own in this process; found once, which takes 5 ms, for each set of
    packages that bring such."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def set_threads(threads: int | None, of_numba: bool = True) -> int:
    """Use that many threads from now on (all of them if None); returns how many. Numba is imported
    for it, unless no kernel is going to need it."""
    global _count, _process
    if _process not in (None, os.getpid()):
        raise DabaError(
            "this process was forked from one that had solved already, and OpenMP's threads do not "
            "come along: start it by multiprocessing.get_context('spawn'), or solve in no other "
            "process before the fork"
        )
    _process = os.getpid()
    if "numba" not in sys.modules:
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault("GOMP_SPINCOUNT", SPIN)
        if threads is not None and threads > most_threads():
            os.environ[MOST] = str(threads)
    if of_numba:
        import numba  # noqa: F401
    layers = _layers()
    most = min(layer.most_threads() for layer in layers)
    _count = most if threads is None else threads
    if _count > most:
        raise DabaError(
            f"{_count} threads asked for, but Numba was started with {most}; set the environment "
            f"variable {MOST}={_count} before Python starts"
        )
    follow()
    return _count


def most_threads() -> int:
    """That a process may have, unless it asks for more before the first of them starts."""
    told = os.environ.get(MOST, "").strip()
    if not told:
        return len(usable_cores())
    if not told.isdecimal() or int(told) < 1:
        raise DabaError(f"the environment variable {MOST} is '{told}', and must be a number from 1")
    return int(told)


_count = 0
"""Threads in use."""
_process: int | None = None
"""Process whose threads they are. In a fork of it kernels would return with nothing done, and the
signal by which Numba means to end the process would only end the solve."""


def follow() -> None:
    """Tell who runs parallel loops how many threads there are: once more to those that were loaded
    after that was set."""
    for layer in _layers() if _count else ():
        layer.set_num_threads(_count)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """A context in which parallel loops of kernels run on so many threads."""
    layers = _layers()
    for layer in layers:
        layer.set_num_threads(count)
    try:
        yield
    finally:
        follow()


def _layers() -> list[Any]:
    """Who runs parallel loops: Numba if it is there, and its functions as we load them, if they are
    or if it is not."""
    with_numba = "numba" in sys.modules
    if with_numba and SYMBOLS not in sys.modules:
        return [_Numba]
    from daba.backends.cpu import symbols

    if not symbols.usable():
        return [_Numba]
    return [symbols, _Numba] if with_numba else [symbols]


class _Numba:
    """What `symbols` has, of Numba itself."""

    @staticmethod
    def most_threads() -> int:
        import numba

        return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]

    @staticmethod
    def set_num_threads(count: int) -> None:
        import numba

        numba.set_num_threads(count)


class Pool:
    """Threads besides the one that calls; they sleep until there is work."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._workers = [_Worker() for _ in range(threads - 1)]

    def run(self, kernel: Any, tasks: int, *args: Any) -> None:
        """A `concurrent` kernel on all tasks. Threads claim some at a time, so that nobody waits
        for one that is slow to wake, but for what it has claimed."""
        runs = min(self.threads, tasks)
        if runs == 0:
            return
        size = tasks if runs == 1 else max(1, tasks // (runs * CLAIMS))
        job, helpers = _Job(kernel, tasks, size, args), self._workers[: runs - 1]
        for worker in helpers:
            worker.offer(job)
        try:
            job.run(TURNS)
            while job.done[0] < tasks and job.failure is None:
                time.sleep(NAP)
            if job.failure is not None:
                raise job.failure
        except BaseException:
            job.claimed[0] = tasks  # nobody begins any more
            while any(worker.job is job for worker in helpers):
                time.sleep(NAP)
            raise

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []


class _Job:
    """All tasks of a kernel, and how many are claimed and done."""

    def __init__(self, kernel: Any, tasks: int, size: int, args: tuple[Any, ...]) -> None:
        counters = np.zeros(2 * APART, np.int64)
        self.claimed, self.done = counters[:1], counters[APART:]
        self.tasks = tasks
        self.args = self.claimed, self.done, tasks, size, 0, *args
        self.kernel: Kernel = kernel
        if (checked := getattr(kernel, "checked", None)) is not None:
            self.kernel = checked(*self.args)
        self.failure: BaseException | None = None

    def run(self, turns: int = 0) -> None:
        claimed, done, tasks, size, _, *args = self.args
        self.kernel(claimed, done, tasks, size, turns, *args)


class _Worker:
    """One thread, which takes up the latest job that it is offered."""

    def __init__(self) -> None:
        self.go, self.told, self.ended = threading.Lock(), False, False
        self.go.acquire()
        self.offered: _Job | None = None
        self.job: _Job | None = None
        """What it is at."""
        _thread.start_new_thread(self._loop, (_core(),))

    def offer(self, job: _Job | None) -> None:
        self.offered = job
        if not self.told:
            self.told = True
            self.go.release()

    def end(self) -> None:
        self.ended = True
        self.offer(None)

    def _loop(self, busy: int) -> None:
        _leave(busy)
        while not self.ended:
            self.go.acquire()
            self.told = False
            self.job, self.offered = self.offered, None
            if self.job is not None and self.job.claimed[0] < self.job.tasks:
                try:
                    self.job.run()
                except BaseException as failure:
                    self.job.failure = failure
            self.job = None


def _core() -> int:
    """The core that this thread runs on; none's number where that cannot be told."""
    try:
        return int(ctypes.pythonapi.sched_getcpu())
    except (AttributeError, OSError):
        return -1


def _leave(core: int) -> None:
    """Go on on another core, and be free to go anywhere from then on. Some kernels of Linux start a
    thread on the core of whoever started it, and let both share it for milliseconds."""
    mine = usable_cores()
    if core in mine and len(mine) > 1:
        with suppress(OSError):
            os.sched_setaffinity(0, mine - {core})
            os.sched_setaffinity(0, mine)
