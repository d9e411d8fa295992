"""Where compiled kernels live: a folder for each version of their sources, shared by all processes
of a user."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import llvmlite.binding as llvm
import numba

import daba.core
from daba.core.arithmetic import BOUND

HERE = Path(__file__).parent
SOURCES = [
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


def finished(key: str) -> Path:
    """A file that exists once the job of this name is done, for this installation and CPU."""
    assert FOLDER is not None
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return FOLDER / f"finished-{_STAMP}" / name


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
