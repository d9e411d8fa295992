"""Arrays in files of their own: ordinary .npy, written piece by piece, checked when opened."""

from __future__ import annotations

import io
import math
import mmap
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np

from daba.core.errors import DabaError
from daba.io.files import is_pipe, reason


class Entry(NamedTuple):
    """What the manifest says of a file."""

    dtype: str
    shape: tuple[int, ...]
    crc: int
    """CRC-32 of the whole file."""

    def to_json(self) -> dict[str, object]:
        return {"dtype": self.dtype, "shape": list(self.shape), "crc32": f"{self.crc:08x}"}


class ArrayWriter:
    """A file that is written from front to back; its shape is known from the start."""

    def __init__(self, path: Path, dtype: np.dtype | type, shape: tuple[int, ...]) -> None:
        self.dtype, self.shape, self.crc, self.items = np.dtype(dtype), shape, 0, 0
        self._file = open(path, "xb")  # noqa: SIM115 (closed by `__exit__`)

    def append(self, rows: np.ndarray) -> None:
        if rows.dtype != self.dtype or rows.shape[1:] != self.shape[1:]:
            raise ValueError(f"{rows.dtype} {rows.shape} does not fit {self.dtype} {self.shape}")
        self.items += rows.size
        if rows.size:
            self._write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)

    def finish(self) -> Entry:
        """Everything on the disk."""
        if self.items != math.prod(self.shape):
            raise ValueError(f"{self.items} numbers do not fill the shape {self.shape}")
        self._file.flush()
        os.fsync(self._file.fileno())
        return Entry(str(self.dtype), self.shape, self.crc)

    def _write(self, data: bytes | memoryview) -> None:
        self.crc = zlib.crc32(data, self.crc)
        self._file.write(data)

    def __enter__(self) -> ArrayWriter:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header,
            {
                "descr": np.lib.format.dtype_to_descr(self.dtype),
                "fortran_order": False,
                "shape": self.shape,
            },
        )
        try:
            self._write(header.getvalue())
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def write_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, Entry]:
    """One file for each, `NAME.npy`."""
    entries = {}
    for name, array in arrays.items():
        with ArrayWriter(folder / f"{name}.npy", array.dtype, array.shape) as writer:
            writer.append(array)
            entries[name] = writer.finish()
    return entries


def open_array(path: Path, entry: Entry, check: bool = True) -> np.ndarray:
    """A memory-mapped array, read-only; `check` reads all of it to be sure that it is undamaged."""
    whole = _mapped(path)
    if check:
        _compare(path, entry, zlib.crc32(whole))
    return _numbers(path, entry, whole)


class Reading:
    """A memory-mapped array that is read once, from front to back, and then known to be as it was
    written."""

    def __init__(self, path: Path, entry: Entry) -> None:
        self.path, self.entry = path, entry
        whole = _mapped(path)
        self.array = _numbers(path, entry, whole)
        self._crc = zlib.crc32(memoryview(whole)[: len(whole) - self.array.nbytes])

    def piece(self, rows: slice) -> np.ndarray:
        """The next rows, which are in the cache from now on."""
        found = self.array[rows]
        self._crc = zlib.crc32(found.data, self._crc)
        return found

    def finish(self) -> None:
        """After the last of them."""
        _compare(self.path, self.entry, self._crc)


def _mapped(path: Path) -> mmap.mmap | bytes:
    """All of a file."""
    if is_pipe(path):
        raise DabaError(f"{path} is a pipe, not a file")
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size:  # nothing cannot be mapped
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return b""
    except FileNotFoundError:
        raise DabaError(f"{path} is missing: the store is incomplete") from None
    except OSError as error:
        raise DabaError(f"cannot read {path}: {reason(error)}") from error


def _compare(path: Path, entry: Entry, found: int) -> None:
    if found != entry.crc:
        raise DabaError(
            f"{path} is damaged: its checksum is {found:08x} and should be {entry.crc:08x}"
        )


def _numbers(path: Path, entry: Entry, whole: mmap.mmap | bytes) -> np.ndarray:
    """What is in a file, after its header.

    `np.load` would parse the header as Python, which two threads at a time must not do before
    Python 3.11.8 (SystemError: AST constructor recursion depth mismatch).
    """
    try:
        dtype = np.dtype(entry.dtype)
        start = _numbers_start(whole, dtype, entry.shape)
        # An empty array has no byte to begin at.
        numbers = np.frombuffer(whole, dtype, offset=start) if start < len(whole) else ()
        return np.asarray(numbers, dtype).reshape(entry.shape)
    except (ValueError, TypeError) as error:
        raise DabaError(f"{path} is damaged: {error}") from error


def _numbers_start(whole: mmap.mmap | bytes, dtype: np.dtype, shape: tuple[int, ...]) -> int:
    """Where the numbers begin, after a header of .npy that must say what the manifest does."""
    magic, size = np.lib.format.magic(1, 0), int.from_bytes(whole[8:10], "little")
    descr = np.lib.format.dtype_to_descr(dtype)
    wanted = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    header = whole[10 : 10 + size].rstrip()
    if whole[:8] != magic or header != wanted.encode():
        raise ValueError(f"its header is {header[:200]!r} and should be {wanted}")
    return 10 + size
