"""What a report shows of a solution beside its history, small however large the problem is.

Errors as a histogram, the worst cameras, the share of each device, and a map of cameras and points
seen from above. Of a problem in one process it is made there; of a store every process looks at its
own cameras, with the points of others that they see, and rank 0 puts the parts together.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.types import frozen
from daba.distributed.comm.base import Communicator
from daba.partition.partition import Partition
from daba.problem.images import ImageNames
from daba.problem.pixel_errors import pixel_errors
from daba.problem.problem import Floats, Ints, Problem
from daba.runtime.environment import environment
from daba.tools.orientation import Frame, bounds
from daba.tools.report.lenses import lens_changes

if TYPE_CHECKING:
    from daba.io.store.store import Store
    from daba.runtime.result import Result

EDGES = np.round(np.logspace(-2, 3, 51), 6)
"""Pixel errors at which one bin of the histogram ends and the next begins; there is one more before
them, from zero, and one after them, without end."""
WORST = 12
"""Cameras listed by number."""
MAP_CAMERAS = 1500
MAP_POINTS = 6000
"""Most that a map shows."""


def record(result: Result, comm: Communicator | None = None) -> dict[str, Any] | None:
    """What `history.json` holds, on rank 0; None elsewhere. All processes must call."""
    shown = overview(result, comm or Communicator())
    return None if shown is None else result.to_dict() | {"overview": shown}


def overview(result: Result, comm: Communicator) -> dict[str, Any] | None:
    """Everything but the history, on rank 0."""
    from daba.io.store.store import Store

    source = result.source
    if comm.broadcast(isinstance(source, Store)):
        assert isinstance(source, Store)
        parts = comm.collect(_part_of_store(source, result, comm))
        info = source.info
    elif comm.rank == 0:
        assert isinstance(source, Problem)
        info, partition = source.info, result.partition or _one_device(source)
        numbers = np.arange(source.num_cameras, dtype=np.int32)
        parts = [_Part.of(source, result.problem, partition, numbers, source.num_points)]
    if comm.rank != 0:
        return None
    lenses = [] if isinstance(source, Store) else lens_changes(result.start, result.problem)
    return _merged(parts, info) | {"lenses": lenses, "machine": environment()}


def _one_device(problem: Problem) -> Partition:
    """The partition of a result that does not say who owned what."""
    cameras, points = problem.num_cameras, problem.num_points
    return Partition(np.zeros(cameras, np.int32), np.zeros(points, np.int32), 1)


@frozen
class _Part:
    """What some cameras see, and some of the points."""

    devices: np.ndarray
    """Cameras, points, observations and inter observations of each device, (4, S)."""
    counts: np.ndarray
    """Observations in each bin, at the start and at the solution, (2, bins)."""
    sums: Floats
    """Σ |r| and Σ |r|², at the start and at the solution, (2, 2)."""
    worst: list[dict[str, Any]]
    cameras: Floats
    """R and centre of some cameras, (n, 12)."""
    camera_device: Ints
    points: Floats
    point_device: Ints

    @staticmethod
    def of(
        start: Problem,
        solution: Problem,
        partition: Partition,
        numbers: Ints,
        points: int,
        share: float = 1.0,
    ) -> _Part:
        """The part of a problem, or of the cameras of a process and all that they see.

        numbers   of its cameras in the whole problem
        points    how many come first and are its own; the others are looked at elsewhere
        share     of the map that is its own
        """
        S, problems = partition.devices, (start, solution)
        of_camera, of_point = partition.camera_device, partition.point_device
        at = of_camera[solution.camera_index]
        inter = at != of_point[solution.point_index]
        errors = [pixel_errors(problem) for problem in problems]
        i = _some(start.num_cameras, max(1, int(share * MAP_CAMERAS)))
        j = _some(points, max(1, int(share * MAP_POINTS)))
        with np.errstate(over="ignore"):
            sums = np.array([[r.sum(), r @ r] for r in errors])
        return _Part(
            devices=np.stack([
                np.bincount(of_camera, minlength=S),
                np.bincount(of_point[:points], minlength=S),
                np.bincount(at, minlength=S),
                np.bincount(at[inter], minlength=S),
            ]).astype(np.int64),
            counts=np.stack([_histogram(r) for r in errors]),
            sums=sums,
            worst=_worst(problems, errors, numbers, of_camera),
            cameras=solution.poses[i], camera_device=of_camera[i],
            points=solution.points[j], point_device=of_point[j],
        )  # fmt: skip


def _part_of_store(store: Store, result: Result, comm: Communicator) -> _Part:
    """The cameras of this process's devices, and all points that they see."""
    from daba.distributed.scatter import device_block
    from daba.distributed.shard import State, join
    from daba.problem import image_rows

    mine, options = sorted(result.local), result.options
    shard = join([device_block(store, device, options) for device in mine], mine[0], store.ranges)
    exchange = comm.exchange(shard)
    reached = shard.state()
    for whole, name, own in (
        (reached.cameras, "cameras", shard.num_cameras),
        (reached.points, "points", shard.num_points),
    ):
        whole[:own] = np.concatenate([getattr(result.local[device], name) for device in mine])
    begun = shard.state()
    for x in (begun, reached):
        exchange.update(x, "both")
    seen = [obs.camera < shard.num_cameras for obs in (shard.intra, shard.inter)]
    camera, point, u, weight = (
        np.concatenate([
            getattr(obs, name)[k]
            for obs, k in zip((shard.intra, shard.inter), seen, strict=True)
        ])
        for name in ("camera", "point", "u", "weight")
    )  # fmt: skip
    focal = np.concatenate([store.focal(device) for device in mine])

    def local(x: State) -> Problem:
        own = x.cameras[: shard.num_cameras]
        if options.minimised == "pixel":
            optics, at = image_rows.images_alone(own, u), image_rows.poses(own)
            return Problem.from_optics(optics, at, x.points, camera_index=camera, point_index=point)
        return Problem(own, x.points, camera, point, u, weight, focal)

    first, ranges = mine[0], store.ranges
    own_points = np.arange(ranges.point_ptr[first], ranges.point_ptr[mine[-1] + 1])
    indices = np.concatenate([own_points, shard.ghost_points])
    owners = Partition(
        np.repeat(mine, np.diff(ranges.camera_ptr)[mine]).astype(np.int32),
        (np.searchsorted(ranges.point_ptr, indices, side="right") - 1).astype(np.int32),
        ranges.devices,
    )
    numbers = np.concatenate([store.array(device, "camera_id") for device in mine])
    share = len(camera) / ranges.observations
    return _Part.of(local(begun), local(reached), owners, numbers, shard.num_points, share)


def _some(count: int, most: int) -> np.ndarray:
    """Numbers below `count`, evenly spread, not many more than `most`."""
    return np.arange(0, count, max(1, count // most))


def _histogram(errors: Floats) -> np.ndarray:
    return np.bincount(np.searchsorted(EDGES, errors, side="right"), minlength=len(EDGES) + 1)


def _worst(
    problems: tuple[Problem, Problem], errors: list[Floats], numbers: Ints, device: Ints
) -> list[dict[str, Any]]:
    """Cameras with the largest mean error at the solution, of what is still observed there."""
    C = problems[1].num_cameras
    counts = [np.bincount(problem.camera_index, minlength=C) for problem in problems]
    with np.errstate(invalid="ignore", divide="ignore"):
        before, after = (
            np.bincount(problem.camera_index, r, C) / count
            for problem, r, count in zip(problems, errors, counts, strict=True)
        )
    count = counts[1]
    after = np.where(count > 0, after, -1.0)
    order = np.argsort(-after, kind="stable")[:WORST]
    return [
        {
            "camera": int(numbers[i]),
            "device": int(device[i]),
            "observations": int(count[i]),
            "start": float(before[i]),
            "solution": float(after[i]),
        }
        for i in order
        if count[i]
    ]


def _merged(parts: list[_Part], info: dict[str, Any]) -> dict[str, Any]:
    devices, counts, sums = (
        sum(getattr(part, name) for part in parts) for name in ("devices", "counts", "sums")
    )
    worst = sorted((w for p in parts for w in p.worst), key=lambda w: -w["solution"])[:WORST]
    images = ImageNames.of(info, int(sum(devices[0])))
    if images.names:
        for camera in worst:
            number = camera["camera"]
            camera |= {"image": images.names[number], "id": int(images.ids[number])}
    errors = {
        when: {
            "mean": float(total) / max(int(row.sum()), 1),
            "rms": float((square / max(int(row.sum()), 1)) ** 0.5),
            "counts": row.tolist(),
        }
        for when, (total, square), row in zip(("start", "solution"), sums, counts, strict=True)
    }
    names = ("cameras", "points", "observations", "inter")
    return {
        "devices": dict(zip(names, devices.tolist(), strict=True)),
        "errors": {"edges": EDGES.tolist(), **errors},
        "noun": images.noun,
        "worst_cameras": worst,
        "map": _map(parts, float(info.get("world_sign", 1))),
    }


def _map(parts: list[_Part], sign: float) -> dict[str, Any]:
    """Cameras and points from above: x, y in 65535ths of the map, and device, as base64 of
    little-endian uint16."""
    cameras, points, camera_device, point_device = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("cameras", "points", "camera_device", "point_device")
    )
    centers = sign * cameras[:, 9:12]
    axes = Frame.of(sign * cameras[:, :9].reshape(-1, 3, 3), centers).from_above
    flat = [centers @ axes.T, sign * points @ axes.T]
    low, high = bounds(flat[1], flat[0], outside=3, room=0.06)  # a few far points must not rule
    size = high - low
    packed = [
        _pack((xy - low) / size, device)
        for xy, device in zip(flat, (camera_device, point_device), strict=True)
    ]
    return {"size": size.tolist(), "cameras": packed[0], "points": packed[1]}


def _pack(share: Floats, device: Ints) -> str:
    inside = np.flatnonzero(((share >= 0) & (share <= 1)).all(axis=1))
    rows = np.column_stack([np.rint(65535 * share[inside]), device[inside] % 65536])
    return base64.b64encode(rows.astype("<u2").tobytes()).decode()


def unpack(text: str) -> tuple[Floats, Ints]:
    """Positions in the unit square, and devices, of what `overview` put into a map."""
    rows = np.frombuffer(base64.b64decode(text, validate=True), "<u2").reshape(-1, 3)
    return rows[:, :2] / 65535.0, rows[:, 2].astype(np.int32)
