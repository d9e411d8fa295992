"""NumPy archives (.npz) that others may have written: read entry by entry, with as much memory as
what is asked for needs, and with errors in words.

An entry says three times how large it is: in the archive's table, in its own header and by its
data. The first two are compared before memory is taken.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np

from daba.core.errors import DabaError

MAGIC = b"PK\x03\x04"
_SUFFIX = ".npy"


class Archive:
    """An archive that is open to read. Whatever is wrong with it becomes a `DabaError` that names
    no file."""

    def __init__(self, stream: IO[bytes]) -> None:
        with _in_words():
            self._zip = zipfile.ZipFile(stream)

    @property
    def names(self) -> list[str]:
        """What it holds; entries that are no arrays are nobody's business."""
        found = self._zip.namelist()
        return [name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)]

    def column(self, name: str) -> Column:
        """One array, of which only type and shape are known so far."""
        with _in_words():
            entry = self._zip.getinfo(name + _SUFFIX)
            return Column(name, self._zip.open(entry), entry.file_size)

    def read(self, name: str) -> np.ndarray:
        """One array, whole."""
        column = self.column(name)
        if not column.fortran:
            return column.read(column.shape[0] if column.shape else 1).reshape(column.shape)
        column.shape = column.shape[::-1]
        return np.ascontiguousarray(column.read(column.shape[0]).T)


class Column:
    """An array of the archive that is read piece by piece."""

    def __init__(self, name: str, stream: IO[bytes], size: int) -> None:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            header = np.lib.format.read_array_header_2_0
        self.shape: tuple[int, ...]
        self.shape, fortran, self.dtype = header(stream)
        self.fortran = fortran and len(self.shape) > 1
        if self.dtype.hasobject:
            raise DabaError(f"'{name}' holds Python objects, which are never read")
        if math.prod(self.shape) * self.dtype.itemsize != size - stream.tell():
            raise DabaError(f"the file is damaged: '{name}' is not as large as it says")
        self.name, self._stream = name, stream
        self._left = self.shape[0] if self.shape else 1

    def read(self, rows: int) -> np.ndarray:
        """The next rows."""
        with _in_words():
            try:
                array = np.empty((rows, *self.shape[1:]), self.dtype)
            except MemoryError:
                raise DabaError(
                    f"not enough memory for '{self.name}', {self.dtype} {self.shape}"
                ) from None
            data = array.reshape(-1).view(np.uint8).data if array.size else b""
            done = 0
            while done < len(data):
                if not (count := self._stream.readinto(data[done:])):  # type: ignore[attr-defined]
                    raise EOFError("the data end too early")
                done += count
            self._left -= rows
            if not self._left:
                self._stream.read(1)  # the checksum is compared at the very end
            return array


@contextmanager
def _in_words() -> Iterator[None]:
    """zipfile, its decompressors and NumPy fail in many ways on a damaged file."""
    try:
        yield
    except (DabaError, MemoryError):
        raise
    except KeyError as error:
        raise DabaError(f"the file is damaged or cut short ({error.args[0]})") from error
    except Exception as error:
        raise DabaError(f"the file is damaged or cut short ({error})") from error
