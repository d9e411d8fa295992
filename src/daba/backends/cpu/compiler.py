"""Compiles kernels, in processes of its own, and keeps them in the cache (`cache.py`).

What Numba has just compiled it runs in another form than what it loads from its cache: the last
bits of sums differ. So nobody who solves compiles: it loads what a worker has compiled, on a cold
cache as on a warm one.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from daba.backends.cpu import cache
from daba.backends.cpu.cache import Job
from daba.distributed.comm.base import usable_cores


@contextlib.contextmanager
def one_at_a_time(tell: bool = False) -> Iterator[None]:
    """A context that one process of this machine is in at a time; the others wait, and say so if
    they are to `tell`. Where files cannot be locked nobody waits, and some work may be done twice.
    """
    assert cache.FOLDER is not None
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    cache.FOLDER.mkdir(parents=True, exist_ok=True)
    with (cache.FOLDER / "lock").open("w") as file:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if tell:
                    print("daba: waiting for a process that compiles kernels", file=sys.stderr)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


WORKER = "from daba.backends.cpu.compiler import work; work()"
LONGEST_ANSWER = 700
"""Characters of a failure: what several processes write into a pipe stays whole up to 4 kB."""


def compile_missing(jobs: Sequence[Job], tell: bool) -> None:
    """Do jobs side by side; of several processes that ask for it at once, one does them and the
    others wait."""
    with one_at_a_time(tell):
        left = [job for job in jobs if not job.finished]
        if not left:
            return
        cores = min(len(left), len(usable_cores()))
        if tell:
            where = f"{cores} processes" if cores > 1 else "another process"
            print(f"daba: compiling {len(left)} kernels in {where}, once", file=sys.stderr)
        began = time.perf_counter()
        failures = run_in_workers(left, cores)
        if tell:
            took = time.perf_counter() - began
            print(f"daba: compiled in {took:.0f} s; kept in {cache.FOLDER}", file=sys.stderr)
        if failures:
            print(f"daba: kernels could not be compiled: {failures[0]}", file=sys.stderr)


def run_in_workers(jobs: Sequence[Job], count: int = 1) -> list[str]:
    """Run jobs in so many processes, each taking the next as it gets free; returns what failed."""
    left = dict(enumerate(jobs))
    failures: list[str] = []
    with tempfile.TemporaryFile() as errors:
        try:
            process = _begin(errors)
        except OSError as error:
            return [f"{type(error).__name__}: {error}"]
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):  # it was killed
                pickle.dump((list(jobs), count), process.stdin)
                process.stdin.flush()
                while left:
                    number, failure = pickle.load(process.stdout)
                    job = left.pop(number)
                    if failure:
                        failures.append(failure)
                    else:
                        job.note()
                process.stdin.close()
                process.wait()
        finally:
            _end(process)
        if left:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
            failures.append(said or "a worker ended before its work was done")
    return failures


def _begin(errors: Any) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has forked."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def work() -> None:
    """What the first worker does: read jobs, load what all need, fork the others, and wait.

    A job takes Numba some hundred thousand small objects that are all in use: looking for garbage
    among them takes an eighth of the time.
    """
    cache.is_worker = True
    gc.disable()
    _make_lean()
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed must not get between
    jobs, count = pickle.load(sys.stdin.buffer)
    for name in {job.function.split(":")[0] for job in jobs}:
        with contextlib.suppress(ImportError):  # its jobs will say so
            importlib.import_module(name)
    turns, entry = os.pipe()
    os.write(entry, b"".join(number.to_bytes(2) for number in range(len(jobs))))
    os.close(entry)
    children: list[int] = []
    while hasattr(os, "fork") and len(children) < count - 1:
        if (child := os.fork()) == 0:
            break
        children.append(child)
    _take_turns(jobs, turns, answers)
    if len(children) == count - 1:
        for child in children:
            os.waitpid(child, 0)


def _make_lean() -> None:
    from daba.backends.cpu.kernels.binding import numba_names
    from daba.backends.cpu.lean import install

    install(numba_names)


def _take_turns(jobs: Sequence[Job], turns: int, answers: int) -> None:
    """Run the next job, whose number is read from `turns`, until there is none, or until nobody
    waits for it any more; answer each with how it failed, or not."""
    while number := os.read(turns, 2):
        if select.select([0], [], [], 0)[0]:  # the pipe to us was closed
            return
        job = jobs[int.from_bytes(number)]
        try:
            job.run()
            failure = ""
        except Exception:
            failure = traceback.format_exc()[-LONGEST_ANSWER:]
        os.write(answers, pickle.dumps((int.from_bytes(number), failure)))
