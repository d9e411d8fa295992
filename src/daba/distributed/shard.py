"""What one process holds: the cameras, points and observations of its devices, laid out so that
each device's variables are contiguous, with the ghosts it sees of other processes behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.types import Devices, Observations, State, Tasks
from daba.partition.ordering import Error, Extent, Piece, Records, lay_out, pointers
from daba.partition.partition import Partition, stable_order
from daba.problem.problem import Ints, Problem

if TYPE_CHECKING:
    from daba.problem.constraints import Constraints

TASK_OBSERVATIONS = 1024
"""Fewer observations than this are not worth a task of their own."""
MOST_TASKS = 64
FEWEST_TASKS = 4
"""Tasks of all devices together, and of one device however many there are."""


@dataclass(frozen=True)
class Shard:
    """Devices, their observations, their ghosts, and the way back to the problem's own order."""

    extent: Extent
    """The ranges of all devices, here and elsewhere."""
    first: int
    """The first device here; the others follow it."""
    camera_order: Ints
    """The problem's camera at each index of the shard."""
    point_order: Ints
    ghost_cameras: Ints
    """Indices, in device order, of cameras seen here and owned by another process, ascending."""
    ghost_points: Ints
    devices: Devices
    intra: Observations
    inter: Observations
    start: State
    """Where the solve begins; the ghosts are not known yet."""
    constraints: Constraints | None = None
    """The constraints of the variables owned here."""
    origin: Problem | None = None
    """The whole problem, where this process holds all of it."""

    @property
    def num_devices(self) -> int:
        return len(self.devices.camera_ptr) - 1

    @property
    def num_cameras(self) -> int:
        """Cameras owned here."""
        return len(self.camera_order)

    @property
    def num_points(self) -> int:
        return len(self.point_order)

    @property
    def problem(self) -> Problem:
        assert self.origin is not None, "this process holds a part of the problem"
        return self.origin

    def without_observations(self) -> Shard:
        """Only who owns what: for a solver that holds the observations in another order."""
        intra, inter = (
            Observations(*(np.empty((0, *a.shape[1:]), a.dtype) for a in obs))
            for obs in (self.intra, self.inter)
        )
        return replace(self, intra=intra, inter=inter)

    def state(self) -> State:
        """The estimate at the start."""
        return self.start.copy()

    def own(self, x: State) -> State:
        """x without ghosts."""
        return State(x.cameras[: self.num_cameras], x.points[: self.num_points])

    def by_device(self, x: State) -> dict[int, State]:
        """What each device here owns of x."""
        c, l = self.devices.camera_ptr, self.devices.point_ptr
        return {
            self.first + a: State(x.cameras[c[a] : c[a + 1]], x.points[l[a] : l[a + 1]])
            for a in range(self.num_devices)
        }

    def to_problem(self, x: State) -> Problem:
        """The problem with estimate x, in its own order."""
        cameras = np.empty_like(x.cameras)
        points = np.empty_like(x.points)
        cameras[self.camera_order] = x.cameras
        points[self.point_order] = x.points
        return self.problem.with_estimate(cameras, points)


def make_shard(problem: Problem, partition: Partition, error: Error = "ray") -> Shard:
    """The shard of a process that holds every device; of the pixel error, u are pixels, weights 1,
    and d 0."""
    layout = lay_out(problem, partition, error)
    pieces = [layout.piece(device) for device in range(partition.devices)]
    return join(pieces, 0, layout.extent, problem)


def join(pieces: list[Piece], first: int, extent: Extent, origin: Problem | None = None) -> Shard:
    """The shard of a process that holds consecutive devices, given their pieces."""
    last = first + len(pieces)
    camera_ptr = extent.camera_ptr[first : last + 1] - extent.camera_ptr[first]
    point_ptr = extent.point_ptr[first : last + 1] - extent.point_ptr[first]
    cameras = _Local(extent.camera_ptr[first], extent.camera_ptr[last])
    points = _Local(extent.point_ptr[first], extent.point_ptr[last])
    intra = Records.concatenate(p.intra for p in pieces)
    inter = Records.concatenate(p.inter for p in pieces)
    outer = Records.concatenate(p.outer for p in pieces)
    # an observation between two devices of this process is in both their pieces: take it once
    inter = Records.concatenate([inter, outer.take(~points.owns(outer.point))])
    ghost_cameras = cameras.ghosts(inter.camera)
    ghost_points = points.ghosts(inter.point)
    by_camera = np.zeros(cameras.count, np.int64)
    by_point = np.zeros(points.count, np.int64)
    for records in (intra, inter):
        by_camera += cameras.count_owned(records.camera)
        by_point += points.count_owned(records.point)
    most = max(FEWEST_TASKS, MOST_TASKS // extent.devices)
    start = State(
        np.concatenate(
            [
                *(p.cameras for p in pieces),
                np.zeros((len(ghost_cameras), pieces[0].cameras.shape[1])),
            ]
        ),
        np.concatenate([*(p.points for p in pieces), np.zeros((len(ghost_points), 3))]),
    )
    return Shard(
        extent=extent,
        first=first,
        camera_order=np.concatenate([p.camera_id for p in pieces]),
        point_order=np.concatenate([p.point_id for p in pieces]),
        ghost_cameras=ghost_cameras,
        ghost_points=ghost_points,
        devices=Devices(
            camera_ptr,
            point_ptr,
            make_tasks(camera_ptr, by_camera, most),
            make_tasks(point_ptr, by_point, most),
        ),
        intra=_observations(intra, cameras, points),
        inter=_observations(inter, cameras, points, ghost_cameras, ghost_points),
        start=start,
        constraints=_constraints(pieces, camera_ptr, point_ptr),
        origin=origin,
    )


def _constraints(
    pieces: list[Piece], camera_ptr: np.ndarray, point_ptr: np.ndarray
) -> Constraints | None:
    if all(piece.constraints is None for piece in pieces):
        return None
    from daba.problem.constraints import concatenate

    return concatenate([piece.constraints for piece in pieces], camera_ptr, point_ptr)


class _Local:
    """What a process calls indices of device order: its own from 0 on, then its ghosts."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop, self.count = int(start), int(stop), int(stop - start)

    def owns(self, indices: Ints) -> np.ndarray:
        return (indices >= self.start) & (indices < self.stop)

    def ghosts(self, indices: Ints) -> Ints:
        return np.unique(indices[~self.owns(indices)])

    def count_owned(self, indices: Ints) -> np.ndarray:
        own = indices[self.owns(indices)] - self.start
        return np.bincount(own, minlength=self.count)

    def number(self, indices: Ints, ghosts: Ints) -> Ints:
        if len(ghosts) == 0:
            return indices - np.int32(self.start) if self.start else indices
        ghost = self.count + np.searchsorted(ghosts, indices)
        return np.where(self.owns(indices), indices - self.start, ghost).astype(np.int32)


def make_tasks(device_ptr: np.ndarray, work: np.ndarray, most: int = MOST_TASKS) -> Tasks:
    """Cut each device's items into runs of about equal work, at most `most`; they depend on the
    device alone, not on threads nor on what else the process holds."""
    done = np.concatenate([[0], np.cumsum(work)])
    cuts, owners = [np.zeros(1, np.int64)], []
    for device, (lo, hi) in enumerate(zip(device_ptr[:-1], device_ptr[1:], strict=True)):
        share = int(done[hi] - done[lo])
        grain = max(TASK_OBSERVATIONS, share // most)
        count = int(min(max(1, round(share / grain)), max(1, hi - lo)))
        goals = share * np.arange(1, count) / count
        inner = lo + np.clip(np.searchsorted(done[lo : hi + 1] - done[lo], goals), 0, hi - lo)
        cuts.append(np.concatenate([inner, [hi]]).astype(np.int64))
        owners.append(np.full(count, device, np.int32))
    owner = np.concatenate(owners)
    return Tasks(np.concatenate(cuts), owner, pointers(owner, len(device_ptr) - 1))


def _observations(
    records: Records,
    cameras: _Local,
    points: _Local,
    ghost_cameras: Ints = np.empty(0, np.int32),  # noqa: B008
    ghost_points: Ints = np.empty(0, np.int32),  # noqa: B008
) -> Observations:
    """Observations in the process's own numbers; those of its own points come first."""
    owned = points.owns(records.point)
    point_ptr = pointers(records.point[owned] - np.int32(points.start), points.count)
    seen = np.flatnonzero(cameras.owns(records.camera))
    own_camera = records.camera[seen] - np.int32(cameras.start)
    return Observations(
        camera=_our_own(cameras.number(records.camera, ghost_cameras)),
        point=_our_own(points.number(records.point, ghost_points)),
        u=_our_own(records.u),
        weight=_our_own(records.weight),
        point_ptr=point_ptr,
        camera_ptr=pointers(own_camera, cameras.count),
        camera_obs=_by_camera(
            own_camera, cameras.count, records.point[seen], seen, len(ghost_points) > 0
        ),
    )


def _our_own(array: np.ndarray) -> Any:
    """The array in memory, copied if it is mapped from a file. Numba would compile every kernel
    once more for arrays that cannot be written."""
    return np.require(array, requirements=["C", "W"])


def _by_camera(camera: Ints, cameras: int, point: Ints, seen: np.ndarray, unsorted: bool) -> Ints:
    """Observations camera after camera, each in device order, whoever owns the points."""
    first = np.argsort(point, kind="stable") if unsorted else slice(None)
    order = stable_order(camera[first], cameras)
    return seen[first][order].astype(np.int32)
