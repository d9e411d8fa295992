"""What one process holds: the cameras, points and observations of its devices, laid out so that
each device's variables are contiguous, with the ghosts it sees of other processes behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from daba.core.types import Devices, Int32, Observations, State, Tasks, frozen, starts
from daba.partition.ordering import (
    ON_HOST,
    DeviceBlock,
    DeviceRanges,
    Error,
    NumpyArrays,
    Records,
    lay_out,
    pointers,
)
from daba.partition.partition import Partition
from daba.problem.problem import Ints, Problem

if TYPE_CHECKING:
    from daba.problem.constraints import Constraints

NUMBER = 8
"""Bytes."""
TASK_OBSERVATIONS = 1024
"""Fewer observations than this are not worth a task of their own."""
MOST_TASKS = 64
FEWEST_TASKS = 4
"""Tasks of all devices together, and of one device however many there are."""


@frozen
class Shard:
    """Devices, their observations, their ghosts, and the way back to the problem's own order."""

    ranges: DeviceRanges
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
    arrays: NumpyArrays = ON_HOST
    """Of observations: where they live, and what is done with them."""

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

    def on_host(self) -> Shard:
        """With all observations in the host's memory."""
        if self.arrays is ON_HOST:
            return self
        intra, inter = (
            Observations(*map(self.arrays.host, obs)) for obs in (self.intra, self.inter)
        )
        return replace(self, intra=intra, inter=inter, arrays=ON_HOST)

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
    blocks = [layout.device_block(device) for device in range(partition.devices)]
    return join(blocks, 0, layout.ranges, problem)


def join(
    blocks: list[DeviceBlock],
    first: int,
    ranges: DeviceRanges,
    origin: Problem | None = None,
    arrays: NumpyArrays = ON_HOST,
) -> Shard:
    """The shard of a process that holds consecutive devices, given their blocks."""
    last = first + len(blocks)
    camera_ptr = ranges.camera_ptr[first : last + 1] - ranges.camera_ptr[first]
    point_ptr = ranges.point_ptr[first : last + 1] - ranges.point_ptr[first]
    cameras = _Local(ranges.camera_ptr[first], ranges.camera_ptr[last], arrays)
    points = _Local(ranges.point_ptr[first], ranges.point_ptr[last], arrays)
    inter = Records.concatenate((p.inter for p in blocks), arrays)
    outer = Records.concatenate((p.outer for p in blocks), arrays)
    # an observation between two devices of this process is in both their blocks: take it once
    inter = Records.concatenate([inter, outer.take(~points.owns(outer.point))], arrays)
    ghost_cameras = cameras.ghosts(inter.camera)
    ghost_points = points.ghosts(inter.point)
    intra = Records.concatenate((p.intra for p in blocks), arrays)
    within = _observations(intra, cameras, points)
    between = _observations(inter, cameras, points, ghost_cameras, ghost_points)
    by_camera = np.diff(within.camera_ptr) + np.diff(between.camera_ptr)
    by_point = np.diff(within.point_ptr) + np.diff(between.point_ptr)
    most = max(FEWEST_TASKS, MOST_TASKS // ranges.devices)
    start = State(
        np.concatenate(
            [
                *(p.cameras for p in blocks),
                np.zeros((len(ghost_cameras), blocks[0].cameras.shape[1])),
            ]
        ),
        np.concatenate([*(p.points for p in blocks), np.zeros((len(ghost_points), 3))]),
    )
    return Shard(
        ranges=ranges,
        first=first,
        camera_order=np.concatenate([p.camera_id for p in blocks]),
        point_order=np.concatenate([p.point_id for p in blocks]),
        ghost_cameras=ghost_cameras,
        ghost_points=ghost_points,
        devices=Devices(
            camera_ptr,
            point_ptr,
            make_tasks(camera_ptr, by_camera, most),
            make_tasks(point_ptr, by_point, most),
        ),
        intra=within,
        inter=between,
        start=start,
        constraints=_constraints(blocks, camera_ptr, point_ptr),
        origin=origin,
        arrays=arrays,
    )


def _constraints(
    blocks: list[DeviceBlock], camera_ptr: np.ndarray, point_ptr: np.ndarray
) -> Constraints | None:
    if all(block.constraints is None for block in blocks):
        return None
    from daba.problem.constraints import concatenate

    return concatenate([block.constraints for block in blocks], camera_ptr, point_ptr)


class _Local:
    """What a process calls indices of device order: its own from 0 on, then its ghosts."""

    def __init__(self, start: int, stop: int, arrays: NumpyArrays) -> None:
        self.start, self.stop, self.count = int(start), int(stop), int(stop - start)
        self.arrays = arrays

    def owns(self, indices: Any) -> Any:
        return (indices >= self.start) & (indices < self.stop)

    def ghosts(self, indices: Any) -> Ints:
        ghosts: Ints = self.arrays.host(self.arrays.unique(indices[~self.owns(indices)]))
        return ghosts

    def number(self, indices: Any, ghosts: Ints) -> Any:
        if len(ghosts) == 0:
            return indices - self.start if self.start else indices
        ghost = self.count + self.arrays.search(self.arrays.put(ghosts), indices)
        return self.arrays.int32(self.arrays.where(self.owns(indices), indices - self.start, ghost))

    def pointers(self, own: Any) -> np.ndarray:
        """Where those of each begin, when they are sorted."""
        return starts(self.arrays.count(own, self.count))


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
    arrays = cameras.arrays
    own_camera, seen_point = records.camera - cameras.start, records.point
    own_point, seen = records.point - points.start, None
    if len(ghost_cameras) + len(ghost_points):
        own_point = own_point[points.owns(records.point)]
        seen = arrays.nonzero(cameras.owns(records.camera))
        own_camera, seen_point = own_camera[seen], seen_point[seen]
    order = _by_camera(own_camera, cameras.count, seen_point, len(ghost_points) > 0, arrays)
    return Observations(
        camera=arrays.keep(cameras.number(records.camera, ghost_cameras)),
        point=arrays.keep(points.number(records.point, ghost_points)),
        u=arrays.keep(records.u),
        weight=arrays.keep(records.weight),
        point_ptr=points.pointers(own_point),
        camera_ptr=cameras.pointers(own_camera),
        camera_obs=arrays.int32(order if seen is None else seen[order]),
    )


def _by_camera(camera: Any, cameras: int, point: Any, unsorted: bool, arrays: NumpyArrays) -> Any:
    """Observations camera after camera, each in device order, whoever owns the points."""
    if not unsorted:
        return arrays.order(camera, cameras)
    first = arrays.order(point, 1 << 31)
    return first[arrays.order(camera[first], cameras)]


class Boundary(NamedTuple):
    """Variables of the devices here that other devices see: pairs of a variable and a device that
    must be told of it, whether or not the two share a process."""

    cameras: int
    """Or frames."""
    points: int

    def bytes(self, *, cameras: int = 0, points: int = 0) -> int:
        """Of one round in which each device is told so many numbers of each camera and point that
        it sees."""
        return NUMBER * (cameras * self.cameras + points * self.points)


def boundary_of(shard: Shard, frame: Int32 | None = None) -> Boundary:
    """Of the devices of a shard. Images with the same `frame`, counted here, are told of as one."""
    if shard.ranges.devices == 1:
        return Boundary(0, 0)
    S, arrays, e = shard.ranges.devices, shard.arrays, shard.ranges
    cameras = np.arange(shard.num_cameras) if frame is None else frame[: shard.num_cameras]
    points = np.arange(shard.num_points)
    camera_device = _device(e.camera_ptr, shard.first, shard.num_cameras, shard.ghost_cameras)
    point_device = _device(e.point_ptr, shard.first, shard.num_points, shard.ghost_points)

    def pairs(own: np.ndarray, variable: Any, device: np.ndarray, other: Any) -> int:
        """Own variables, each with a device at the other end of an observation."""
        seen = arrays.nonzero(variable < len(own))
        told = arrays.take(arrays.put(own.astype(np.int64) * S), arrays.take(variable, seen))
        to = arrays.take(arrays.put(device), arrays.take(other, seen))
        return len(arrays.unique(told + to))

    camera, point = shard.inter.camera, shard.inter.point
    return Boundary(
        pairs(cameras, camera, point_device, point), pairs(points, point, camera_device, camera)
    )


def _device(ptr: np.ndarray, first: int, own: int, ghosts: np.ndarray) -> np.ndarray:
    """Of each variable of a shard, its own and its ghosts."""
    index = np.concatenate([int(ptr[first]) + np.arange(own), ghosts.astype(np.int64)])
    return np.searchsorted(ptr, index, side="right") - 1
