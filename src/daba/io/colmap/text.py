"""Text files of a COLMAP model: read as arrays, rewritten with numbers replaced in their lines.

One line for each camera, 3D point, rig and frame, two for each image; lines with # are comments.
Positions (`at`) are numbers of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from daba.core.types import distinct
from daba.io.colmap.parts import (
    MODELS,
    NO_POINT,
    Camera,
    Cameras,
    Edits,
    Frames,
    Images,
    Longs,
    Points,
    Rig,
)
from daba.io.numbers import MisfitError
from daba.problem.problem import Floats

SUFFIX = ".txt"


def read_cameras(data: bytes) -> Cameras:
    found: list[Camera] = []

    def one(words: list[str]) -> None:
        number, name, width, height = int(words[0]), words[1], int(words[2]), int(words[3])
        if name not in MODELS:
            raise MisfitError(f"camera {number} has the model {name}, which is unknown")
        params = np.array(words[4:], np.float64)
        if len(params) != MODELS[name][1]:
            raise MisfitError(
                f"camera {number} has {len(params)} parameters, but {name} has {MODELS[name][1]}"
            )
        found.append(Camera(number, name, width, height, params))

    lines_at = _each(data, one)
    return Cameras(found, lines_at)


def read_images(data: bytes) -> Images:
    heads: list[list[float]] = []
    names: list[str] = []
    lines_at: list[int] = []
    rows = [np.empty((0, 3))]
    lines = _split(data)

    def head(line: str) -> None:
        words = line.split(maxsplit=9)
        heads.append([float(word) for word in words[:9]])
        names.append(words[9].strip())

    def points(line: str) -> None:
        rows.append(np.array(line.split(), np.float64).reshape(-1, 3))

    at = 0
    while at < len(lines):
        if lines[at].strip() and not lines[at].startswith("#"):
            _understand(at, lines[at], head)
            _understand(at + 1, lines[at + 1] if at + 1 < len(lines) else "", points)
            lines_at.append(at)
            at += 1
        at += 1
    table = np.array(heads, np.float64).reshape(-1, 9)
    every = np.concatenate(rows)
    where = np.array(lines_at, np.int64)
    return Images(
        ids=table[:, 0].astype(np.int64),
        poses=np.ascontiguousarray(table[:, 1:8]),
        camera_ids=table[:, 8].astype(np.int64),
        names=names,
        xy=np.ascontiguousarray(every[:, :2]),
        points=every[:, 2].astype(np.int64),
        ptr=np.cumsum([len(part) for part in rows]),
        at=where,
        rows_at=where + 1,
    )


def read_points(data: bytes) -> Points:
    heads: list[list[float]] = []
    tracks: list[int] = []

    def one(words: list[str]) -> None:
        heads.append([float(word) for word in words[:8]])
        if len(words) % 2 or not all(map(str.isdigit, words[8:])):
            raise ValueError
        tracks.append(len(words) // 2 - 4)

    lines_at = _each(data, one)
    table = np.array(heads, np.float64).reshape(-1, 8)
    return Points(
        ids=table[:, 0].astype(np.int64),
        xyz=np.ascontiguousarray(table[:, 1:4]),
        colours=table[:, 4:7].astype(np.uint8),
        errors=table[:, 7].copy(),
        tracks=np.array(tracks, np.int64),
        at=lines_at,
    )


def read_rigs(data: bytes) -> list[Rig]:
    rigs: list[Rig] = []

    def one(words: list[str]) -> None:
        reference: int | None = None
        others: dict[int, Floats | None] = {}
        for first, camera, at in _sensors(words):
            if camera is not None and first:
                reference = camera
            elif camera is not None:
                others[camera] = None if at is None else np.array(words[at : at + 7], np.float64)
        rigs.append(Rig(int(words[0]), reference, others))

    _each(data, one)
    return rigs


def write_rigs(data: bytes, sensors: dict[tuple[int, int], Floats]) -> bytes:
    lines = _split(data)
    for number, line in enumerate(lines):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        rig, changed = int(words[0]), False
        for _, camera, at in _sensors(words):
            if camera is not None and at is not None and (rig, camera) in sensors:
                words[at : at + 7] = _words(sensors[rig, camera])
                changed = True
        if changed:
            lines[number] = " ".join(words)
    return _join(lines)


def _sensors(words: list[str]) -> Iterator[tuple[bool, int | None, int | None]]:
    """Of every sensor of a rig whether it is the first, its camera id, None if it is no camera, and
    where its pose is, if it has one."""
    at = 2
    for k in range(int(words[1])):
        kind, sensor = words[at], int(words[at + 1])
        at += 2
        pose = None
        if k > 0:
            at += 1
            if words[at - 1] != "0":
                pose = at
                at += 7
                if at > len(words):
                    raise ValueError("a pose is cut short")
        yield k == 0, sensor if kind == "CAMERA" else None, pose


def read_frames(data: bytes) -> Frames:
    heads: list[list[float]] = []
    images: list[list[tuple[int, int]]] = []

    def one(words: list[str]) -> None:
        heads.append([float(word) for word in words[:9]])
        data_ids = words[10 : 10 + 3 * int(words[9])]
        found = zip(data_ids[::3], data_ids[1::3], data_ids[2::3], strict=True)
        images.append(
            [(int(sensor), int(image)) for kind, sensor, image in found if kind == "CAMERA"]
        )

    lines_at = _each(data, one)
    table = np.array(heads, np.float64).reshape(-1, 9)
    return Frames(
        table[:, 0].astype(np.int64),
        table[:, 1].astype(np.int64),
        np.ascontiguousarray(table[:, 2:]),
        images,
        lines_at,
    )


def write_cameras(data: bytes, cameras: Cameras, edits: Edits) -> bytes:
    lines = _split(data)
    for camera, at in zip(cameras.all, cameras.at.tolist(), strict=True):
        if camera.id in edits.params:
            lines[at] = " ".join([*lines[at].split()[:4], *_words(edits.params[camera.id])])
    return _join(lines)


def write_images(data: bytes, images: Images, edits: Edits) -> bytes:
    lines = _split(data)
    for i in np.flatnonzero(_differ(edits.poses, images.poses)).tolist():
        words = lines[images.at[i]].split(maxsplit=8)
        lines[images.at[i]] = " ".join([words[0], *_words(edits.poses[i]), words[8]])
    dropped = np.flatnonzero(edits.dropped)
    image = np.searchsorted(images.ptr, dropped, side="right") - 1
    for i in distinct(image).tolist():
        words = lines[images.rows_at[i]].split()
        for row in (dropped[image == i] - images.ptr[i]).tolist():
            words[3 * row + 2] = str(NO_POINT)
        lines[images.rows_at[i]] = " ".join(words)
    return _join(lines)


def write_points(data: bytes, points: Points, images: Images, edits: Edits) -> bytes:
    lines = _split(data)
    moved = _differ(edits.xyz, points.xyz) | (edits.errors != points.errors)
    shorter = np.zeros(len(points.ids), bool)
    if edits.dropped.any():
        order = np.argsort(points.ids)
        lost = images.points[edits.dropped]
        shorter[order[np.searchsorted(points.ids, lost, sorter=order)]] = True
    first = dict(zip(images.ids.tolist(), images.ptr.tolist(), strict=False))
    for j in np.flatnonzero(moved | shorter).tolist():
        words = lines[points.at[j]].split()
        words[1:4] = _words(edits.xyz[j])
        words[7:8] = _words(edits.errors[j : j + 1])
        if shorter[j]:
            track = [
                (image, row)
                for image, row in zip(words[8::2], words[9::2], strict=True)
                if not edits.dropped[first[int(image)] + int(row)]
            ]
            words[8:] = [word for element in track for word in element]
        lines[points.at[j]] = " ".join(words)
    gone = set(points.at[edits.removed].tolist())
    return _join([line for at, line in enumerate(lines) if at not in gone])


def write_frames(data: bytes, frames: Frames, poses: Floats) -> bytes:
    lines = _split(data)
    for k in np.flatnonzero(_differ(poses, frames.poses)).tolist():
        words = lines[frames.at[k]].split()
        lines[frames.at[k]] = " ".join([*words[:2], *_words(poses[k]), *words[9:]])
    return _join(lines)


def _split(data: bytes) -> list[str]:
    return data.decode("utf-8", "surrogateescape").split("\n")


def _join(lines: list[str]) -> bytes:
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _each(data: bytes, read: Callable[[list[str]], None]) -> Longs:
    """Read every line that says something; returns their numbers."""
    lines = _split(data)
    said = [at for at, line in enumerate(lines) if line.strip() and not line.startswith("#")]
    for at in said:
        _understand(at, lines[at], lambda line: read(line.split()))
    return np.array(said, np.int64)


def _understand(at: int, line: str, read: Callable[[str], None]) -> None:
    """Read a line, or say which one it is that cannot be read."""
    try:
        read(line)
    except MisfitError as error:
        raise MisfitError(f"line {at + 1}: {error}") from None
    except (ValueError, IndexError):
        raise MisfitError(f"line {at + 1} is damaged or cut short") from None


def _words(numbers: Floats) -> list[str]:
    return [f"{number:.17g}" for number in numbers.tolist()]


def _differ(a: Floats, b: Floats) -> np.ndarray:
    """Which rows are not the same, NaN being the same as NaN."""
    return ~((a == b) | (np.isnan(a) & np.isnan(b))).all(axis=1)
