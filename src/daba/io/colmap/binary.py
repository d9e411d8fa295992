"""Binary files of a COLMAP model: read as arrays, rewritten with numbers replaced in place.

Little endian, counts in front, no padding:

    cameras   count u64 | id u32, model i32, width u64, height u64, parameters f64…
    images    count u64 | id u32, pose 7 f64, camera u32, name…0, count u64,
                          (x f64, y f64, point i64)…
    points3D  count u64 | id i64, x y z f64, colour 3 u8, error f64, count u64,
                          (image u32, 2D point u32)…
    rigs      count u64 | id u32, count u32, sensor, (sensor, has pose u8, pose 7 f64)…
    frames    count u64 | id u32, rig u32, pose 7 f64, count u32, (sensor, image u64)…

with sensor = (type i32, id u32), type 0 a camera.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, unpack_from

import numpy as np

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
from daba.io.numbers import MisfitError, chunks
from daba.problem.problem import Floats

SUFFIX = ".bin"

_CAMERA = Struct("<IiQQ")
_IMAGE = Struct("<I7dI")
_ROW = np.dtype([("xy", "<f8", 2), ("point", "<i8")])
_POINT = np.dtype(
    [("id", "<i8"), ("xyz", "<f8", 3), ("rgb", "u1", 3), ("error", "<f8"), ("count", "<u8")]
)
_TRACK = np.dtype([("image", "<u4"), ("row", "<u4")])
_SENSOR = Struct("<iI")
_FRAME = Struct("<II7dI")
_NAMES = {number: (name, count) for name, (number, count) in MODELS.items()}


def read_cameras(data: bytes) -> Cameras:
    found: list[Camera] = []
    offsets: list[int] = []
    at = 8
    for _ in range(_count(data)):
        number, kind, width, height = _CAMERA.unpack_from(data, at)
        if kind not in _NAMES:
            raise MisfitError(f"camera {number} has model {kind}, which is unknown")
        name, count = _NAMES[kind]
        at += _CAMERA.size
        offsets.append(at)
        params = np.frombuffer(data, "<f8", count, at)
        found.append(Camera(number, name, width, height, params))
        at += 8 * count
    _at_end(data, at)
    return Cameras(found, np.array(offsets, np.int64))


def read_images(data: bytes) -> Images:
    heads: list[tuple] = []
    names: list[str] = []
    offsets: list[int] = []
    rows_at: list[int] = []
    rows = [np.empty(0, _ROW)]
    at = 8
    for _ in range(_count(data)):
        heads.append(_IMAGE.unpack_from(data, at))
        offsets.append(at + 4)
        at += _IMAGE.size
        end = data.index(b"\0", at)
        names.append(data[at:end].decode("utf-8", "surrogateescape"))
        (count,) = unpack_from("<Q", data, end + 1)
        at = end + 9
        rows_at.append(at)
        rows.append(np.frombuffer(data, _ROW, count, at))
        at += _ROW.itemsize * count
    _at_end(data, at)
    table = np.array(heads, np.float64).reshape(-1, 9)
    every = np.concatenate(rows)
    return Images(
        ids=table[:, 0].astype(np.int64),
        poses=np.ascontiguousarray(table[:, 1:8]),
        camera_ids=table[:, 8].astype(np.int64),
        names=names,
        xy=np.ascontiguousarray(every["xy"]),
        points=np.ascontiguousarray(every["point"]),
        ptr=np.cumsum([len(part) for part in rows]),
        at=np.array(offsets, np.int64),
        rows_at=np.array(rows_at, np.int64),
    )


def read_points(data: bytes) -> Points:
    offsets: list[int] = []
    at, length_at, track = 8, _POINT.itemsize - 8, _TRACK.itemsize
    length = Struct("<Q").unpack_from
    for _ in range(_count(data)):
        offsets.append(at)
        at += _POINT.itemsize + track * length(data, at + length_at)[0]
    _at_end(data, at)
    where = np.array(offsets, np.int64)
    heads = _take_rows(np.frombuffer(data, np.uint8), where, _POINT)
    return Points(
        ids=heads["id"].copy(),
        xyz=heads["xyz"].copy(),
        colours=heads["rgb"].copy(),
        errors=heads["error"].copy(),
        tracks=heads["count"].astype(np.int64),
        at=where,
    )


def read_rigs(data: bytes) -> list[Rig]:
    rigs: dict[int, Rig] = {}
    for rig, first, camera, at in _sensors(data):
        one = rigs.setdefault(rig, Rig(rig, None, {}))
        if camera is None:
            continue
        if first:
            rigs[rig] = one._replace(reference=camera)
        else:
            one.others[camera] = None if at is None else np.frombuffer(data, "<f8", 7, at)
    return list(rigs.values())


def write_rigs(data: bytes, sensors: dict[tuple[int, int], Floats]) -> bytes:
    out = bytearray(data)
    for rig, _, camera, at in _sensors(data):
        if camera is not None and at is not None and (rig, camera) in sensors:
            out[at : at + 56] = np.asarray(sensors[rig, camera], "<f8").tobytes()
    return bytes(out)


def _sensors(data: bytes) -> Iterator[tuple[int, bool, int | None, int | None]]:
    """Of every sensor its rig, whether it is the first of that, its camera id, None if it is no
    camera, and where its pose is, if it has one."""
    at = 8
    for _ in range(_count(data)):
        rig, count = unpack_from("<II", data, at)
        at += 8
        for k in range(count):
            kind, sensor = _SENSOR.unpack_from(data, at)
            at += _SENSOR.size
            pose = None
            if k > 0:
                (has_pose,) = unpack_from("<B", data, at)
                at += 1
                if has_pose:
                    pose = at
                    at += 56
            yield rig, k == 0, sensor if kind == 0 else None, pose
    _at_end(data, at)


def read_frames(data: bytes) -> Frames:
    heads: list[tuple] = []
    images: list[list[tuple[int, int]]] = []
    offsets: list[int] = []
    at = 8
    for _ in range(_count(data)):
        *head, count = _FRAME.unpack_from(data, at)
        heads.append(tuple(head))
        offsets.append(at + 8)
        at += _FRAME.size
        found = [unpack_from("<iIQ", data, at + 16 * k) for k in range(count)]
        images.append([(sensor, image) for kind, sensor, image in found if kind == 0])
        at += 16 * count
    _at_end(data, at)
    table = np.array(heads, np.float64).reshape(-1, 9)
    return Frames(
        table[:, 0].astype(np.int64),
        table[:, 1].astype(np.int64),
        np.ascontiguousarray(table[:, 2:]),
        images,
        np.array(offsets, np.int64),
    )


def write_cameras(data: bytes, cameras: Cameras, edits: Edits) -> bytes:
    out = bytearray(data)
    for camera, at in zip(cameras.all, cameras.at.tolist(), strict=True):
        if camera.id in edits.params:
            params = np.asarray(edits.params[camera.id], "<f8").tobytes()
            out[at : at + len(params)] = params
    return bytes(out)


def write_images(data: bytes, images: Images, edits: Edits) -> bytes:
    out = np.frombuffer(data, np.uint8).copy()
    _put_rows(out, images.at, edits.poses)
    dropped = np.flatnonzero(edits.dropped)
    image = np.searchsorted(images.ptr, dropped, side="right") - 1
    at = images.rows_at[image] + _ROW.itemsize * (dropped - images.ptr[image]) + 16
    _put_rows(out, at, np.full((len(at), 1), NO_POINT, np.int64))
    return out.tobytes()


def write_points(data: bytes, points: Points, images: Images, edits: Edits) -> bytes:
    out = np.frombuffer(data, np.uint8).copy()
    _put_rows(out, points.at + 8, edits.xyz)
    _put_rows(out, points.at + 35, edits.errors[:, None])
    if not edits.dropped.any():
        return out.tobytes()
    point = np.repeat(np.arange(len(points.ids)), points.tracks)
    first = np.cumsum(points.tracks) - points.tracks
    size, step = _POINT.itemsize, _TRACK.itemsize
    at = points.at[point] + size + step * (np.arange(len(point)) - first[point])
    track = _take_rows(out, at, _TRACK)
    order = np.argsort(images.ids)
    image = order[np.searchsorted(images.ids, track["image"], sorter=order)]
    gone = edits.dropped[images.ptr[image] + track["row"]] | edits.removed[point]
    counts = points.tracks - np.bincount(point[gone], minlength=len(points.ids))
    _put_rows(out, points.at + size - 8, counts[:, None])
    keep = np.ones(len(out), bool)
    for offsets, length in ((at[gone], step), (points.at[edits.removed], size)):
        _put_rows(keep, offsets, np.zeros((len(offsets), length), bool))
    _put_rows(out, np.zeros(1, np.int64), np.array([[np.count_nonzero(~edits.removed)]], np.int64))
    return out[keep].tobytes()


def write_frames(data: bytes, frames: Frames, poses: Floats) -> bytes:
    out = np.frombuffer(data, np.uint8).copy()
    _put_rows(out, frames.at, poses)
    return out.tobytes()


def _count(data: bytes) -> int:
    (count,) = unpack_from("<Q", data, 0)
    return int(count)


def _at_end(data: bytes, at: int) -> None:
    if at != len(data):
        raise MisfitError("it is damaged or cut short")


def _take_rows(data: np.ndarray, at: Longs, kind: np.dtype) -> np.ndarray:
    """What is at each of these offsets."""
    rows = np.empty((len(at), kind.itemsize), np.uint8)
    for c in chunks(len(at)):
        rows[c] = data[at[c, None] + np.arange(kind.itemsize)]
    return rows.view(kind)[:, 0]


def _put_rows(out: np.ndarray, at: Longs, rows: np.ndarray) -> None:
    """Write each row of numbers at its offset."""
    for c in chunks(len(at)):
        flat = np.ascontiguousarray(rows[c]).view(out.dtype).reshape(len(at[c]), -1)
        out[at[c, None] + np.arange(flat.shape[1])] = flat
