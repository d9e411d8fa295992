"""Compiles kernels, in processes of its own.

What Numba has just compiled it runs in another form than what it loads from its cache: the last
bits of sums differ. So nobody who solves compiles: it loads what a worker has compiled, on a cold
cache as on a warm one.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

from daba.backends.cpu import cache
from daba.distributed.comm.base import usable_cores

WORKER = "from daba.backends.cpu.compiler import work; work()"
_is_worker = False


class Job(NamedTuple):
    """Something that leaves compiled kernels in the cache: a function, as "module:name", and what
    to call it with. A worker runs it, so all of it can be pickled."""

    function: str
    arguments: tuple[Any, ...] = ()

    def run(self) -> None:
        module, name = self.function.split(":")
        getattr(importlib.import_module(module), name)(*self.arguments)

    @property
    def finished(self) -> bool:
        return cache.finished(repr(self)).exists()

    def note(self) -> None:
        """Leave word that it is done."""
        file = cache.finished(repr(self))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def compiles_here() -> bool:
    """Whether this process is a worker."""
    return _is_worker


def compile_jobs(jobs: Sequence[Job], tell: bool = True) -> None:
    """Do those of the jobs that nobody has done yet, side by side; of several processes that ask
    for it at once, one does them and the others wait. Says so on stderr if it is to `tell`."""
    if cache.FOLDER is None or all(job.finished for job in jobs):
        return
    with cache.one_at_a_time(tell):
        left = [job for job in jobs if not job.finished]
        if not left:
            return
        cores = min(len(left), len(usable_cores()))
        if tell:
            where = f"{cores} processes" if cores > 1 else "another process"
            print(
                f"daba: compiling {len(left)} kernels in {where}, once; this takes a while",
                file=sys.stderr,
            )
        if failures := run_in_workers(left, cores):
            print(f"daba: kernels could not be compiled: {failures[0]}", file=sys.stderr)


def run_in_workers(jobs: Sequence[Job], count: int = 1) -> list[str]:
    """Run jobs in so many processes, each taking the next as it gets free; returns what failed."""
    left: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        left.put(job)
    failures: list[str] = []
    workers = [_Worker(left, failures) for _ in range(count)]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        for worker in workers:
            worker.end()
    return failures


class _Worker(threading.Thread):
    """A process that runs one job after the other, and the thread that hands them over."""

    def __init__(self, jobs: queue.SimpleQueue[Job], failures: list[str]) -> None:
        super().__init__(daemon=True)
        self.jobs, self.failures = jobs, failures
        self.process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        with tempfile.TemporaryFile() as errors:
            try:
                self.process = self._begin(errors)
                self._hand_over(self.process)
            except (OSError, EOFError) as error:  # it could not be started, or was killed
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip()
                self.failures.append(said or f"{type(error).__name__}: {error}")
        self.end()

    def _begin(self, errors: Any) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        return subprocess.Popen(
            [sys.executable, "-P", "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": path},
        )

    def _hand_over(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        while True:
            try:
                job = self.jobs.get_nowait()
            except queue.Empty:
                return
            pickle.dump(job, process.stdin)
            process.stdin.flush()
            if failure := pickle.load(process.stdout):
                self.failures.append(failure)
            else:
                job.note()

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


def work() -> None:
    """What a worker does: run the jobs that come in, and answer each with how it failed, or not."""
    global _is_worker
    _is_worker = True
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed must not get between
    while True:
        try:
            job: Job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            job.run()
            failure = ""
        except Exception:
            failure = traceback.format_exc()
        pickle.dump(failure, answers)
        answers.flush()
