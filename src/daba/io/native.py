"""The native single file, `.npz`: every array of a problem bit for bit, and its info.

An ordinary NumPy archive, without pickles: `np.load(path)["cameras"]` works anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.text import parse_json
from daba.io.archives import MAGIC, Archive, Column
from daba.io.files import PathLike, open_input, open_output
from daba.io.info import check_colmap, checked_info, split_info
from daba.io.source import CHUNK, Source
from daba.partition.ordering import Records
from daba.problem.checks import CAMERA_RECORD
from daba.problem.constraints import ARRAYS, Constraints, from_arrays
from daba.problem.optics import TABLES, Optics
from daba.problem.problem import Problem

FORMAT = "daba problem"
VERSION = 3
"""2 has constraints, and 3 cameras as their file describes them; a problem without them is written
as version 1, which older ones read."""

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
_OPTICS = "optics."


def save(problem: Problem, path: PathLike) -> None:
    """Write a problem so that nothing is lost."""
    entries: dict[str, np.ndarray] = {what: getattr(problem, what) for what in _ARRAYS}
    plain, arrays = split_info(problem.info)
    entries |= {_INFO_ARRAY + key: value for key, value in arrays.items()}
    p = problem
    constraints = Constraints(p.shared, p.free_cameras, p.free_points, p.priors)
    entries |= {_CONSTRAINT + key: value for key, value in constraints.to_arrays().items()}
    content: dict[str, Any] = {"format": FORMAT, "version": 1, "name": p.name, "info": plain}
    if constraints.to_arrays():
        content |= {"version": VERSION, "prior_losses": constraints.losses()}
    if (optics := p.given_optics) is not None:
        content |= {"version": VERSION, "bundler": optics.bundler}
        content.setdefault("prior_losses", {})
        entries |= {_OPTICS + name: array for name, array in optics.tables().items()}
        if optics.pixels is not None:
            entries[_OPTICS + "pixels"] = optics.pixels
    head = json.dumps(content)
    entries["head"] = np.frombuffer(head.encode("utf-8"), np.uint8)
    with open_output(path) as out:
        np.savez(out, **entries)  # type: ignore[arg-type]


def load(path: PathLike) -> Problem:
    """Read a problem written by `save`, or say why the file is not one."""
    with _opened(path) as archive:
        head = _head(archive)
        columns = _check_arrays(archive)
        entries = {key: archive.read(key) for key in _wanted(archive)}
        arrays: dict[str, Any] = {what: entries[what] for what in _ARRAYS}
        constraints = _constraints(head, entries)
        info, optics = _info(head, entries, columns), _optics(head, entries)
        check_colmap(info, optics)
        return Problem(
            **arrays, name=head["name"], info=info, given_optics=optics, **vars(constraints)
        ).validated()


def open_source(path: PathLike, scratch: Path) -> Source:
    """Read a file without holding its observations; nothing is put into `scratch`."""
    with _opened(path) as archive:
        head = _head(archive)
        columns = _check_arrays(archive)
        if head["version"] > 1:  # constraints need the whole problem
            return Source.of(load(path))
        if any(archive.column(what).fortran for what in _OBSERVATIONS):
            return Source.of(load(path))  # in the file, columns follow each other and not rows
        entries = {key: archive.read(key) for key in _wanted(archive) if key not in _OBSERVATIONS}
        info = _info(head, entries, columns)
    K = columns["camera_index"].shape[0]

    def read() -> Iterator[Records]:
        with _opened(path) as archive:
            opened = [archive.column(what) for what in _OBSERVATIONS]
            for start in range(0, K, CHUNK):
                yield Records(*(column.read(min(CHUNK, K - start)) for column in opened))

    return Source(
        cameras=entries["cameras"],
        points=entries["points"],
        focal=entries["focal"],
        observations=K,
        read=read,
        name=head["name"],
        info=info,
        file=Path(path).name,
    )


@contextmanager
def _opened(path: PathLike) -> Iterator[Archive]:
    """The archive, while it is read: what is wrong with it becomes a `DabaError` that names it."""
    name = Path(path).name
    with open_input(path, compressed=False) as stream:
        if stream.read(4) != MAGIC:
            raise DabaError(f"{name}: not an .npz file")
        stream.seek(0)
        try:
            yield Archive(stream)
        except DabaError as error:
            raise DabaError(f"{name}: {error}") from None


def _wanted(archive: Archive) -> list[str]:
    """What belongs to a problem; what else is there is not read."""
    constraints = {_CONSTRAINT + name for name in ARRAYS}
    return [
        name
        for name in archive.names
        if name in _ARRAYS or name in constraints or name.startswith((_INFO_ARRAY, _OPTICS))
    ]


def _check_arrays(archive: Archive) -> dict[str, Column]:
    """What is known of every array before it is read: nothing is read of those that do not fit."""
    missing = [what for what in _ARRAYS if what not in archive.names]
    if missing:
        raise DabaError(f"the array '{missing[0]}' is missing")
    columns = {what: archive.column(what) for what in _ARRAYS}
    for what, dtype in _ARRAYS.items():
        if columns[what].dtype != dtype:
            raise DabaError(f"'{what}' is {columns[what].dtype}, not {np.dtype(dtype)}")
    C, P, K = (sum(columns[what].shape[:1]) for what in ("cameras", "points", "camera_index"))
    shapes: dict[str, tuple[int, ...]] = {
        "cameras": (C, CAMERA_RECORD), "points": (P, 3), "focal": (C,), "u": (K, 2),
        "camera_index": (K,), "point_index": (K,), "weights": (K,),
    }  # fmt: skip
    for what, shape in shapes.items():
        if columns[what].shape != shape:
            raise DabaError(f"{what} must have shape {shape}, not {columns[what].shape}")
    return columns


def _info(
    head: dict[str, Any], entries: dict[str, np.ndarray], columns: dict[str, Column]
) -> dict[str, Any]:
    arrays = {
        key.removeprefix(_INFO_ARRAY): value
        for key, value in entries.items()
        if key.startswith(_INFO_ARRAY)
    }
    counts = (columns[what].shape[0] for what in ("cameras", "points", "camera_index"))
    return checked_info(head["info"] | arrays, *counts)


def _constraints(head: dict[str, Any], entries: dict[str, np.ndarray]) -> Constraints:
    arrays = {name: entries[_CONSTRAINT + name] for name in ARRAYS if _CONSTRAINT + name in entries}
    try:
        return from_arrays(arrays, head.get("prior_losses", {})) or Constraints()
    except (KeyError, TypeError, ValueError):
        raise DabaError("the file is damaged: its priors are incomplete") from None


def _optics(head: dict[str, Any], entries: dict[str, np.ndarray]) -> Optics | None:
    names = (*TABLES, "pixels")
    arrays: dict[str, Any] = {
        name: np.ascontiguousarray(entries[_OPTICS + name])
        for name in names
        if _OPTICS + name in entries
    }
    if not arrays:
        return None
    try:
        return Optics(**({"pixels": None} | arrays), bundler=bool(head["bundler"]))
    except (KeyError, TypeError):
        raise DabaError("the file is damaged: its cameras are incomplete") from None


def _head(archive: Archive) -> dict[str, Any]:
    if "head" not in archive.names:
        raise DabaError("an .npz file, but not one that daba wrote")
    try:
        head = parse_json(bytes(archive.read("head").astype(np.uint8)))
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
