"""The native single file, `.npz`: every array of a problem bit for bit, and its info.

An ordinary NumPy archive, without pickles: `np.load(path)["cameras"]` works anywhere.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from daba.core.errors import DabaError
from daba.io.files import PathLike, open_input, open_output
from daba.io.info import own_errors, split_info
from daba.io.source import CHUNK, Source
from daba.partition.ordering import Records
from daba.problem.constraints import ARRAYS, Constraints, from_arrays
from daba.problem.problem import Problem

FORMAT = "daba problem"
VERSION = 2
"""2 has constraints; a problem without them is written as version 1, which older ones read."""

_ARRAYS = {
    "cameras": np.float64,
    "points": np.float64,
    "camera_index": np.int32,
    "point_index": np.int32,
    "u": np.float64,
    "weights": np.float64,
    "focal": np.float64,
}
_OBSERVATIONS = ("camera_index", "point_index", "u", "weights")
_INFO_ARRAY = "info."  # arrays in `info`, such as colours, are entries of their own
_CONSTRAINT = "constraint."


def save(problem: Problem, path: PathLike) -> None:
    """Write a problem so that nothing is lost."""
    plain, arrays = split_info(problem.info)
    entries: dict[str, np.ndarray] = {what: getattr(problem, what) for what in _ARRAYS}
    entries |= {_INFO_ARRAY + key: value for key, value in arrays.items()}
    p = problem
    constraints = Constraints(p.shared, p.free_cameras, p.free_points, p.priors)
    entries |= {_CONSTRAINT + key: value for key, value in constraints.to_arrays().items()}
    content: dict[str, Any] = {"format": FORMAT, "version": 1, "name": p.name, "info": plain}
    if constraints.to_arrays():
        content |= {"version": VERSION, "prior_losses": constraints.losses()}
    head = json.dumps(content)
    entries["head"] = np.frombuffer(head.encode("utf-8"), np.uint8)
    with open_output(path) as out:
        np.savez(out, **entries)  # type: ignore[arg-type]


def load(path: PathLike) -> Problem:
    """Read a problem written by `save`, or say why the file is not one."""
    name = Path(path).name
    with _opened(path) as archive:
        head = _head(archive)
        entries = {key: archive[key] for key in archive.files if key != "head"}
        _check_types({what: array.dtype for what, array in entries.items()})
    arrays: dict[str, Any] = {what: np.ascontiguousarray(entries[what]) for what in _ARRAYS}
    try:
        constraints = _constraints(head, entries)
        info = _info(head, entries)
        own = own_errors(info)
        return Problem(
            **arrays, name=head["name"], info=info, own_errors=own, **vars(constraints)
        ).validated()
    except DabaError as error:
        raise DabaError(f"{name}: {error}") from error


def open_source(path: PathLike, scratch: Path) -> Source:
    """Read a file without holding its observations; nothing is put into `scratch`."""
    with _opened(path) as archive:
        head = _head(archive)
        if head["version"] > 1:  # constraints need the whole problem
            return Source.of(load(path))
        entries = {
            key: archive[key] for key in archive.files if key not in ("head", *_OBSERVATIONS)
        }
        columns = {key: _column(archive, key) for key in _OBSERVATIONS if key in archive.files}
        _check_types(
            {what: array.dtype for what, array in entries.items()}
            | {what: column.dtype for what, column in columns.items()}
        )
        K = columns["camera_index"].shape[0] if columns["camera_index"].shape else 0
        for what, column in columns.items():
            shape = (K, 2) if what == "u" else (K,)
            if column.shape != shape:
                raise DabaError(f"{what} must have shape {shape}, not {column.shape}")
    if any(column.fortran for column in columns.values()):
        return Source.of(load(path))  # in the file, columns follow each other and not rows

    def read() -> Iterator[Records]:
        with _opened(path) as archive:
            opened = [_column(archive, what) for what in _OBSERVATIONS]
            for start in range(0, K, CHUNK):
                yield Records(*(column.read(min(CHUNK, K - start)) for column in opened))

    return Source(
        cameras=np.ascontiguousarray(entries["cameras"]),
        points=np.ascontiguousarray(entries["points"]),
        focal=np.ascontiguousarray(entries["focal"]),
        observations=K,
        read=read,
        name=head["name"],
        info=_info(head, entries),
        file=Path(path).name,
    )


class _Column:
    """An entry of the archive that is read piece by piece."""

    def __init__(self, stream: IO[bytes]) -> None:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            header = np.lib.format.read_array_header_2_0
        self.shape, self.fortran, self.dtype = header(stream)
        self.fortran = self.fortran and len(self.shape) > 1
        self._stream, self._left = stream, self.shape[0] if self.shape else 0

    def read(self, rows: int) -> np.ndarray:
        shape = (rows, *self.shape[1:])
        size = math.prod(shape) * self.dtype.itemsize
        data = self._stream.read(size)
        self._left -= rows
        if not self._left:
            self._stream.read(1)  # the checksum is compared at the very end
        if len(data) < size:
            raise EOFError("the data end too early")
        return np.frombuffer(data, self.dtype).reshape(shape)


def _column(archive: Any, what: str) -> _Column:
    return _Column(archive.zip.open(f"{what}.npy"))


@contextmanager
def _opened(path: PathLike) -> Iterator[Any]:
    """The archive, while it is read: what is wrong with it becomes a `DabaError`."""
    name = Path(path).name
    with open_input(path) as stream:
        if stream.read(4) != b"PK\x03\x04":
            raise DabaError(f"{name}: not an .npz file")
        stream.seek(0, io.SEEK_SET)
        try:
            with np.load(stream, allow_pickle=False) as archive:
                yield archive
        except DabaError as error:
            raise DabaError(f"{name}: {error}") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError) as error:
            raise DabaError(f"{name}: the file is damaged or cut short ({error})") from error


def _check_types(found: dict[str, np.dtype]) -> None:
    for what, dtype in _ARRAYS.items():
        if what not in found:
            raise DabaError(f"the array '{what}' is missing")
        if found[what] != dtype:
            raise DabaError(f"'{what}' is {found[what]}, not {np.dtype(dtype)}")


def _info(head: dict[str, Any], entries: dict[str, np.ndarray]) -> dict[str, Any]:
    arrays = {
        key.removeprefix(_INFO_ARRAY): value
        for key, value in entries.items()
        if key.startswith(_INFO_ARRAY)
    }
    return head["info"] | arrays


def _constraints(head: dict[str, Any], entries: dict[str, np.ndarray]) -> Constraints:
    arrays = {
        name: np.ascontiguousarray(entries[_CONSTRAINT + name])
        for name in ARRAYS
        if _CONSTRAINT + name in entries
    }
    try:
        return from_arrays(arrays, head.get("prior_losses", {})) or Constraints()
    except (KeyError, TypeError, ValueError):
        raise DabaError("the file is damaged: its priors are incomplete") from None


def _head(archive: Any) -> dict[str, Any]:
    if "head" not in archive.files:
        raise DabaError("an .npz file, but not one that daba wrote")
    try:
        head = json.loads(bytes(archive["head"].astype(np.uint8)))
        form, version = head["format"], head["version"]
    except (ValueError, KeyError, TypeError):
        raise DabaError("an .npz file, but not one that daba wrote") from None
    if form != FORMAT or not isinstance(version, int):
        raise DabaError(f"holds a {form!r}, not a {FORMAT!r}")
    if version > VERSION:
        raise DabaError(
            f"written in version {version} of the format by a newer daba; this one reads up to "
            f"version {VERSION}, so update it"
        )
    if not isinstance(head.get("name"), str) or not isinstance(head.get("info"), dict):
        raise DabaError("the file is damaged: name or info is missing")
    return dict(head)
