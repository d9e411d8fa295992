"""Opening files: compressed or not, with errors in words, and written whole or not at all."""

from __future__ import annotations

import bz2
import errno
import gzip
import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, cast

from daba.core.errors import DabaError, DabaWarning

PathLike = str | os.PathLike[str]

_COMPRESSED = {".bz2": b"BZh", ".gz": b"\x1f\x8b"}
"""Suffixes of compressed files and the bytes such files begin with."""


def split_suffix(path: PathLike) -> tuple[str, str]:
    """The suffix that names the format and the one that names the compression, or ''."""
    p = Path(path)
    compression = p.suffix.lower() if p.suffix.lower() in _COMPRESSED else ""
    if compression:
        p = p.with_suffix("")
    return p.suffix.lower(), compression


@contextmanager
def open_input(path: PathLike, compressed: bool = True) -> Iterator[IO[bytes]]:
    """Open a file to read bytes, decompressing by suffix or by its first bytes.

    compressed   whether it may be; what is read as a whole may not, or a small file could fill
                 the memory, and what is binary may begin with any bytes

    Whatever the operating system or a decompressor complains about, while the file is open,
    becomes a `DabaError`.
    """
    if is_pipe(path):  # opening it may wait for ever
        warnings.warn(
            f"{path} is a pipe: waiting for what is written into it", DabaWarning, stacklevel=4
        )
    try:
        with open(path, "rb") as raw:
            if not compressed:
                yield raw
                return
            start = raw.read(3) if raw.seekable() else b""
            if start:
                raw.seek(0)
            compression = split_suffix(path)[1]
            for suffix, magic in _COMPRESSED.items():
                if start.startswith(magic):
                    compression = suffix
            if compression == ".bz2":
                with bz2.open(raw, "rb") as stream:
                    yield cast(IO[bytes], stream)
            elif compression == ".gz":
                with gzip.open(raw, "rb") as stream:
                    yield cast(IO[bytes], stream)
            else:
                yield raw
    except (EOFError, zlib.error) as error:
        raise DabaError(f"{path}: the compressed file is damaged or cut short ({error})") from error
    except OSError as error:
        if error.errno is None:  # bz2 and gzip report damaged data so
            raise DabaError(f"{path}: the compressed file is damaged ({error})") from error
        raise DabaError(f"cannot read {path}: {reason(error)}") from error


def read_whole(path: PathLike) -> bytes:
    """All bytes of a file, as they are."""
    with open_input(path, compressed=False) as stream:
        return stream.read()


def is_pipe(path: PathLike) -> bool:
    """Whether what is read there is read once."""
    return Path(path).is_fifo()


@contextmanager
def open_output(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file to write bytes, compressing by suffix; it appears complete or not at all.

    The bytes go to a temporary file in the same folder, which takes the final name only after
    everything is on the disk; on any failure it is removed and an older file stays as it was.
    """
    target = file_target(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():  # a pipe or a device cannot be replaced
            with open(target, "wb") as raw, _compressor(raw, path) as stream:
                yield stream
            return
        # A name of our own rather than `tempfile`, which would make the file private.
        temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}.tmp")
        try:
            with open(temporary, "xb") as raw:
                with _compressor(raw, path) as stream:
                    yield stream
                raw.flush()
                os.fsync(raw.fileno())
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise DabaError(f"cannot write {path}: {reason(error)}") from error


def file_target(path: PathLike) -> Path:
    """Where a file is to be written, links followed; `DabaError` if none can be."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise DabaError(f"cannot write {path}: it is a folder; give the name of a file in it")
    special = target.exists() and not target.is_file()  # a pipe or a device
    _check_writable(path, target if special else target.parent, target.parent)
    return target


def folder_target(path: PathLike, what: str, in_place: bool = False) -> Path:
    """Where a folder is to be written, links followed; `DabaError` if none can be.

    what       what the folder is to hold, for the message
    in_place   whether it is filled where it is, rather than beside it and renamed
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_dir():
        raise DabaError(f"cannot write {path}: it is a file, and {what} needs a folder")
    _check_writable(path, target if in_place and target.is_dir() else target.parent, target.parent)
    return target


def _check_writable(path: PathLike, written: Path, parent: Path) -> None:
    """A folder that is not there is made when something is written into it."""
    there = next(folder for folder in (parent, *parent.parents) if folder.exists())
    if not there.is_dir():
        raise DabaError(f"cannot write {path}: {there} is a file, not a folder")
    if not os.access(written if written.exists() else there, os.W_OK):
        raise DabaError(f"cannot write {path}: permission denied")


@contextmanager
def writing_folder(path: PathLike) -> Iterator[None]:
    """While a folder is made, filled, renamed or removed: what goes wrong becomes a `DabaError`."""
    try:
        yield
    except OSError as error:
        raise DabaError(f"cannot write {path}: {reason(error)}") from error


@contextmanager
def _compressor(raw: IO[bytes], path: PathLike) -> Iterator[IO[bytes]]:
    compression = split_suffix(path)[1]
    if compression == ".bz2":
        with bz2.open(raw, "wb") as stream:
            yield cast(IO[bytes], stream)
    elif compression == ".gz":
        # No name and no time inside: the same problem gives the same bytes.
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as stream:
            yield cast(IO[bytes], stream)
    else:
        yield raw


def reason(error: OSError) -> str:
    """What went wrong, in words."""
    if error.errno == errno.ENOSPC:
        return "the disk is full; free some space or write elsewhere (nothing was left behind)"
    if error.errno == errno.ENOENT:
        return "there is no such file"
    if error.errno == errno.EISDIR:
        return "it is a folder, not a file"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "permission denied"
    return error.strerror or str(error)


def to_disk(paths: Sequence[Path]) -> None:
    """Wait until files that were written are on the disk; together they take a third of the time
    that they take one after the other."""
    failed: list[OSError] = []

    def sync(path: Path) -> None:
        try:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            failed.append(error)

    threads = [Thread(target=sync, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
