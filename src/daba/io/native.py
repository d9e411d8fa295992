"""The native single file, `.npz`: every array of a problem bit for bit, and its info.

An ordinary NumPy archive, without pickles: `np.load(path)["cameras"]` works anywhere.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from daba.errors import DabaError
from daba.io.files import PathLike, open_input, open_output
from daba.problem import Problem

FORMAT = "daba problem"
VERSION = 1

_ARRAYS = {
    "cameras": np.float64,
    "points": np.float64,
    "camera_index": np.int32,
    "point_index": np.int32,
    "u": np.float64,
    "weights": np.float64,
    "focal": np.float64,
}
_INFO_ARRAY = "info."  # arrays in `info`, such as colours, are entries of their own


def save(problem: Problem, path: PathLike) -> None:
    """Write a problem so that nothing is lost."""
    plain: dict[str, Any] = {}
    entries: dict[str, np.ndarray] = {what: getattr(problem, what) for what in _ARRAYS}
    for key, value in problem.info.items():
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                raise DabaError(f"problem.info[{key!r}] holds Python objects and cannot be saved")
            entries[_INFO_ARRAY + str(key)] = value
        else:
            plain[str(key)] = value
    try:
        head = json.dumps(
            {"format": FORMAT, "version": VERSION, "name": problem.name, "info": plain},
            default=_plain,
        )
    except (TypeError, ValueError) as error:
        raise DabaError(f"problem.info cannot be saved: {error}") from error
    entries["head"] = np.frombuffer(head.encode("utf-8"), np.uint8)
    with open_output(path) as out:
        np.savez(out, **entries)  # type: ignore[arg-type]


def load(path: PathLike) -> Problem:
    """Read a problem written by `save`, or say why the file is not one."""
    name = Path(path).name
    with open_input(path) as stream:
        if stream.read(4) != b"PK\x03\x04":
            raise DabaError(f"{name}: not an .npz file")
        stream.seek(0, io.SEEK_SET)
        try:
            with np.load(stream, allow_pickle=False) as archive:
                head = _head(archive)
                entries = {key: archive[key] for key in archive.files if key != "head"}
        except DabaError as error:
            raise DabaError(f"{name}: {error}") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError) as error:
            raise DabaError(f"{name}: the file is damaged or cut short ({error})") from error
    for what, dtype in _ARRAYS.items():
        if what not in entries:
            raise DabaError(f"{name}: the array '{what}' is missing")
        if entries[what].dtype != dtype:
            raise DabaError(f"{name}: '{what}' is {entries[what].dtype}, not {np.dtype(dtype)}")
    info = dict(head["info"])
    for key, value in entries.items():
        if key.startswith(_INFO_ARRAY):
            info[key.removeprefix(_INFO_ARRAY)] = value
    arrays = {what: np.ascontiguousarray(entries[what]) for what in _ARRAYS}
    try:
        return Problem(**arrays, name=head["name"], info=info).validated()
    except DabaError as error:
        raise DabaError(f"{name}: {error}") from error


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


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")
