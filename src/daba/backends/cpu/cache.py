"""Where compiled kernels are kept: a folder for each version of their sources, shared by all
processes of a user; and the jobs that leave kernels there.

Read by every process that solves, so it imports neither Numba nor LLVM: they take a quarter of a
second.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import daba.core

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b  # which loads OpenSSL with it, 3 ms of every start

BOUND = ("decisions", "formulas", "lenses", "pixel", "ray", "camera_models", "lm")
"""Modules of `core` that kernels are made of."""
HERE = Path(__file__).parent
SOURCES = [
    HERE / "lean.py",
    HERE / "compiled.py",
    HERE / "objects.py",
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
    return _hash(text + version_file("numba"))


def _hash(text: bytes) -> str:
    return blake2b(text, digest_size=8).hexdigest()


@cache
def version_file(package: str) -> bytes:
    """What an installed package says of its version, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named '{package}'", name=package)
    return Path(spec.origin).with_name("_version.py").read_bytes()


def stamp(sources: Iterable[Path]) -> str:
    """Names all that Numba wants to be as it was: where the sources are and since when, Python,
    LLVM, and the CPU. Another installation of the same version compiles anew."""
    since = [(str(s), s.stat().st_mtime_ns) for s in sources]
    found = (since, sys.version, version_file("llvmlite"), cpu())
    return _hash(repr(found).encode())


CPUINFO = Path("/proc/cpuinfo")
OF_CPU = (
    "vendor_id", "cpu family", "model", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features",
)  # fmt: skip
"""What Linux tells of a CPU and does not change while it runs."""


def cpu() -> str:
    """The CPU that code is compiled for: what it is and what it can do."""
    with contextlib.suppress(OSError), CPUINFO.open() as file:
        lines = file.read(1 << 14).partition("\n\n")[0].splitlines()  # of the first core
        if found := [line for line in lines if line.startswith(OF_CPU)]:
            return "\n".join(found)
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


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
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _own_temporary_folder() -> Path | None:
    """A folder of this user among the temporary ones, that nobody else can write into: whoever
    could would choose the code that we run."""
    import tempfile

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
    import atexit
    import shutil
    import tempfile

    try:
        folder = Path(tempfile.mkdtemp(prefix="daba-"))
    except OSError:
        return None
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
is_worker = False
"""Whether this process compiles, and never runs, kernels."""


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
        return self._file("finished").exists()

    def note(self) -> None:
        """Leave word that it is done."""
        file = self._file("finished")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def forget(self) -> None:
        """What it has left is of no use."""
        _seen.discard((FOLDER, self))
        for file in (self._file("finished"), self.object):
            file.unlink(missing_ok=True)

    @property
    def object(self) -> Path:
        """Machine code of the kernel that it compiles (`objects.py`)."""
        return self._file("objects")

    def _file(self, folder: str) -> Path:
        """For this installation and CPU."""
        assert FOLDER is not None
        name = _hash(repr(self).encode())
        return FOLDER / f"{folder}-{_STAMP}" / name


seconds = 0.0
"""That this process has waited for kernels to be compiled; no solve's clock counts them."""
_seen: set[tuple[Path | None, Job]] = set()
"""Jobs that this process knows to be done, or to fail, in a folder: to look for their files takes
0.7 ms of every solve."""


def compile_jobs(jobs: Sequence[Job], tell: bool = True) -> None:
    """Do those of the jobs that nobody has done yet, most often none. Says so on stderr if it is to
    `tell`."""
    global seconds
    left = [job for job in jobs if (FOLDER, job) not in _seen]
    if FOLDER is None:
        return
    if not all(job.finished for job in left):
        from daba.backends.cpu import compiler

        began = time.perf_counter()
        compiler.compile_missing(left, tell)
        seconds += time.perf_counter() - began
    _seen.update((FOLDER, job) for job in left)


COMPILE = "daba.backends.cpu.kernels.binding:compile_kernel"


class Name(NamedTuple):
    """By which another process finds a kernel: its module, and its name there; of a kernel that a
    factory has made, the factory's name and arguments, too."""

    module: str
    kernel: str
    factory: str = ""
    arguments: tuple[Any, ...] = ()


def job(kernel: Any, constrained: bool = False) -> Job:
    """To compile a kernel for the types it is annotated with: those that may be None are, or are
    what constraints hand over."""
    return Job(COMPILE, (tuple(kernel.name), constrained))
