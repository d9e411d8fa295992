"""Compiles kernels, in processes of its own, and keeps them: a folder for each version of their
sources, shared by all processes of a user.

What Numba has just compiled it runs in another form than what it loads from its cache: the last
bits of sums differ. So nobody who solves compiles: it loads what a worker has compiled, on a cold
cache as on a warm one.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import os
import pickle
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba

import daba.core
from daba.distributed.comm.base import usable_cores

BOUND = ("decisions", "formulas", "lenses", "pixel", "ray", "camera_models", "lm")
"""Modules of `core` that kernels are made of."""
HERE = Path(__file__).parent
SOURCES = [
    HERE / "lean.py",
    *sorted(HERE.glob("kernels/*.py")),
    *sorted(HERE.glob("lm/*.py")),
    *(Path(daba.core.__path__[0]) / f"{name}.py" for name in BOUND),
]
TREE = "DABA_KERNEL_CACHE"
"""Environment variable by which a process that could write nowhere else tells its children where
its kernels are."""


def digest(sources: Iterable[Path]) -> str:
    """Numba looks only at the file of the function it caches, not at the formulas it calls: so a
    folder is named after the text of all of them, and no stale code is run."""
    text = b"".join(source.read_bytes() for source in sources)
    return hashlib.sha256(text + numba.__version__.encode()).hexdigest()[:16]


def stamp(sources: Iterable[Path]) -> str:
    """Names all that Numba wants to be as it was: where the sources are and since when, Python, and
    the CPU. Another installation of the same version compiles anew."""
    since = [(str(s), s.stat().st_mtime_ns) for s in sources]
    found = (since, sys.version, llvm.get_host_cpu_name())
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def _user_folder() -> Path:
    if base := os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME"):
        return Path(base)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home()))
    return Path.home() / ".cache"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _own_temporary_folder() -> Path | None:
    """A folder of this user among the temporary ones, that nobody else can write into: whoever
    could would choose the code that we run."""
    if not hasattr(os, "getuid"):
        return Path(tempfile.gettempdir()) / "daba"  # Windows has one for each user
    folder = Path(tempfile.gettempdir()) / f"daba-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022
    return folder if private and found.st_uid == os.getuid() else None


def _folder_of_process_tree() -> Path | None:
    """For this process and those that it starts, and for as long as it lives."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="daba-"))
    except OSError:
        return None
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[TREE] = str(folder)
    return folder


def _find_folder() -> Path | None:
    """The first place that can be written to. A process that could keep its kernels nowhere would
    run what it has compiled itself, which rounds otherwise than what is loaded."""
    name = Path("daba") / digest(SOURCES)
    if found := os.environ.get(TREE):
        return Path(found) / name
    with contextlib.suppress(RuntimeError):  # no home
        if _writable(folder := _user_folder() / name):
            return folder
    if (base := _own_temporary_folder()) is not None and _writable(base / name):
        return base / name
    base = _folder_of_process_tree()
    return None if base is None else base / name


FOLDER = _find_folder()
"""Of this version's kernels; None where nothing at all can be written."""
_STAMP = stamp(SOURCES)


@contextlib.contextmanager
def one_at_a_time(tell: bool = False) -> Iterator[None]:
    """A context that one process of this machine is in at a time; the others wait, and say so if
    they are to `tell`. Where files cannot be locked nobody waits, and some work may be done twice.
    """
    assert FOLDER is not None
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as file:
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
_is_worker = False
seconds = 0.0
"""That this process has waited for kernels to be compiled; no solve's clock counts them."""


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
        return _word(self).exists()

    def note(self) -> None:
        """Leave word that it is done."""
        file = _word(self)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def _word(job: Job) -> Path:
    """A file that exists once the job is done, for this installation and CPU."""
    assert FOLDER is not None
    name = hashlib.sha256(repr(job).encode()).hexdigest()[:16]
    return FOLDER / f"finished-{_STAMP}" / name


def compiles_here() -> bool:
    """Whether this process is a worker."""
    return _is_worker


def compile_jobs(jobs: Sequence[Job], tell: bool = True) -> None:
    """Do those of the jobs that nobody has done yet, side by side; of several processes that ask
    for it at once, one does them and the others wait. Says so on stderr if it is to `tell`."""
    global seconds
    if FOLDER is None or all(job.finished for job in jobs):
        return
    began = time.perf_counter()
    _compile(jobs, tell)
    seconds += time.perf_counter() - began


def _compile(jobs: Sequence[Job], tell: bool) -> None:
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
            print(f"daba: compiled in {took:.0f} s; kept in {FOLDER}", file=sys.stderr)
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
    global _is_worker
    _is_worker = True
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
