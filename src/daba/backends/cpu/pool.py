"""Threads that run kernels side by side.

A kernel is a compiled function that lets go of Python's lock and works on the tasks lo : hi it is
given. Tasks are cut by the problem alone and each writes its own results, so that no number of
threads changes a bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

Kernel = Callable[..., None]


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
