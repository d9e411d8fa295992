"""A problem in the order of its devices: what a store keeps, and what shards are cut from.

Device order: cameras and points are numbered device after device, so that what a device owns is one
range of indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from daba.core.types import distinct, frozen, starts
from daba.partition.partition import Partition, camera_graph, frames_of, stable_order
from daba.problem.problem import Floats, Ints, Problem

if TYPE_CHECKING:
    from daba.problem.constraints import Constraints


Error = Literal["ray", "pixel"]
"""What is minimised, which says how observations are handed on: as rays u with weights ω, or as
pixels with ones."""


class NumpyArrays:
    """What is done with all observations of a problem when they are laid out. Where they are to
    live on a GPU, `backends/gpu/setting_up.py` does it there: to their arrays, and to what they are
    indexed and sorted by; all that is small stays on the host."""

    def put(self, array: Any) -> Any:
        """Where the observations are going to live."""
        return array

    def start(self, array: Any) -> Any:
        """Begin to put it there, while others are read; `put` takes what is returned."""
        return array

    def host(self, array: Any) -> Any:
        """The reverse."""
        return array

    def take(self, array: Any, index: Any) -> Any:
        return array.take(index, axis=0)  # of rows of two numbers ten times as fast as [index]

    def concatenate(self, parts: Sequence[Any]) -> Any:
        return np.concatenate(parts)

    def keep(self, array: Any) -> Any:
        """In memory, copied if it is mapped from a file. Numba would compile every kernel once more
        for arrays that cannot be written."""
        return np.require(array, requirements=["C", "W"])

    def int32(self, array: Any) -> Any:
        return array.astype(np.int32)

    def int64(self, array: Any) -> Any:
        return array.astype(np.int64)

    def copy(self, array: Any) -> Any:
        return array.copy()

    def repeat(self, array: Any, counts: Any) -> Any:
        """Each so often."""
        return np.repeat(array, counts)

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        return np.where(condition, yes, no)

    def nonzero(self, mask: Any) -> Any:
        return np.flatnonzero(mask)

    def unique(self, keys: Any) -> Any:
        return distinct(keys)

    def unique_inverse(self, keys: Any) -> tuple[Any, Any]:
        """The keys there are, ascending, and which of them each is."""
        found, at = np.unique(keys, return_inverse=True)
        return found, at.reshape(-1)

    def changes(self, ascending: Any) -> Any:
        """Where each value, none below 0, begins."""
        return np.flatnonzero(np.diff(ascending, prepend=-1))

    def search(self, ascending: Any, values: Any) -> Any:
        return np.searchsorted(ascending, values)

    def camera_graph(self, camera: Any, point: Any, cameras: int, points: int) -> Any:
        """That of `partition/partition.py`; on the host."""
        return camera_graph(camera, point, cameras, points)

    def count(self, owner: Any, count: int) -> np.ndarray:
        """How many there are of each owner; on the host."""
        return np.bincount(owner, minlength=count)

    def smallest(self, values: Any, owner: Any, count: int) -> Any:
        """Of each owner's values, 32 bits; the largest number there is where it has none."""
        out = np.full(count, np.iinfo(np.int32).max, dtype=np.int32)
        np.minimum.at(out, owner, values)
        return out

    def order(self, keys: Any, bound: int) -> Any:
        """What sorts keys, all below `bound`, equal ones as they are."""
        return stable_order(keys, bound)

    def order_pairs(self, first: Any, second: Any, count: int) -> Any:
        """What sorts by the first and then by the second, which is below `count`."""
        return np.argsort(first.astype(np.int64) * count + second, kind="stable")

    def sums(self, rows: Any, begins: np.ndarray) -> Floats:
        """Of rows begins[n] : begins[n+1], one after the other; on the host."""
        owner = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
        columns = [np.bincount(owner, column, len(begins) - 1) for column in rows.T]
        return np.stack(columns, axis=1)

    def valid(self, problem: Problem, camera: Any, point: Any, u: Any, weights: Any) -> bool:
        """Whether all observations are known to be such that a solver can handle them."""
        return False


ON_HOST = NumpyArrays()


class Records(NamedTuple):
    """Observations, by the indices of their ends in device order."""

    camera: Ints
    point: Ints
    u: Floats
    """Where the camera sees the point; pixels if it is the pixel error that is minimised."""
    weight: Floats

    def take(self, chosen: Any) -> Records:
        """Some of them."""
        return Records(self.camera[chosen], self.point[chosen], self.u[chosen], self.weight[chosen])

    @staticmethod
    def concatenate(parts: Iterable[Records], arrays: NumpyArrays = ON_HOST) -> Records:
        """One after the other; a single part is not copied."""
        parts = [Records(*map(arrays.put, part)) for part in parts]
        if len(parts) == 1:
            return parts[0]
        return Records(*map(arrays.concatenate, zip(*parts, strict=True)))


@frozen
class DeviceBlock:
    """What one device holds: its variables and every observation that has an end in it."""

    camera_id: Ints
    """Number in the problem of each camera of the device."""
    point_id: Ints
    cameras: Floats
    points: Floats
    intra: Records
    """Both ends here, sorted by point and camera."""
    inter: Records
    """The point is here and the camera elsewhere, sorted by point and camera."""
    outer: Records
    """The camera is here and the point elsewhere, sorted by camera and point."""
    constraints: Constraints | None = None
    """The constraints of its variables."""


@frozen
class DeviceRanges:
    """Where each device begins and ends in device order; known to every process."""

    camera_ptr: np.ndarray
    """Cameras of device α have the indices camera_ptr[α] : camera_ptr[α+1]."""
    point_ptr: np.ndarray
    observations: int

    @property
    def devices(self) -> int:
        return len(self.camera_ptr) - 1

    @property
    def cameras(self) -> int:
        return int(self.camera_ptr[-1])

    @property
    def points(self) -> int:
        return int(self.point_ptr[-1])

    @property
    def largest(self) -> int:
        """Cameras of the largest device."""
        return int(np.diff(self.camera_ptr).max())


@frozen
class Layout:
    """All blocks of a problem."""

    problem: Problem
    cameras: Floats
    """Camera records, in the problem's order."""
    camera_order: Ints
    """The problem's camera at each index of device order."""
    point_order: Ints
    ranges: DeviceRanges
    intra: Records
    inter: Records
    outer: Records
    intra_id: Ints
    """The problem's number of each observation of `intra`."""
    inter_id: Ints
    outer_id: Ints
    constraints: Constraints | None
    arrays: NumpyArrays
    """Of records and numbers."""

    def device_block(self, device: int) -> DeviceBlock:
        e = self.ranges
        cameras = slice(e.camera_ptr[device], e.camera_ptr[device + 1])
        points = slice(e.point_ptr[device], e.point_ptr[device + 1])
        camera_id, point_id = self.camera_order[cameras], self.point_order[points]
        constraints = self.constraints
        return DeviceBlock(
            camera_id=camera_id,
            point_id=point_id,
            cameras=self.cameras[camera_id],
            points=self.problem.points.take(point_id, axis=0),
            intra=self.intra.take(self._range(self.intra.point, points)),
            inter=self.inter.take(self._range(self.inter.point, points)),
            outer=self.outer.take(self._range(self.outer.camera, cameras)),
            constraints=constraints
            and constraints.take(camera_id, point_id, (e.cameras, e.points)),
        )

    def numbers(self, device: int) -> tuple[Ints, Ints, Ints]:
        """The problem's numbers of the block's intra, inter and outer observations."""
        points = slice(*self.ranges.point_ptr[device : device + 2])
        cameras = slice(*self.ranges.camera_ptr[device : device + 2])
        return (
            self.intra_id[self._range(self.intra.point, points)],
            self.inter_id[self._range(self.inter.point, points)],
            self.outer_id[self._range(self.outer.camera, cameras)],
        )

    def work(self) -> list[int]:
        """Observations each device works on."""
        e, arrays = self.ranges, self.arrays
        ends = (
            (self.intra.point, e.point_ptr),
            (self.inter.point, e.point_ptr),
            (self.outer.camera, e.camera_ptr),
        )
        counts = [np.diff(arrays.host(arrays.search(of, arrays.put(ptr)))) for of, ptr in ends]
        return np.sum(counts, axis=0).tolist()

    def _range(self, indices: Ints, own: slice) -> slice:
        ends = self.arrays.put(np.array([own.start, own.stop]))
        lo, hi = self.arrays.host(self.arrays.search(indices, ends))
        return slice(int(lo), int(hi))


class Measured(NamedTuple):
    """What is minimised of a problem, in its order."""

    cameras: Floats
    """Camera records, as solvers take them."""
    u: Floats
    weights: Floats
    constraints: Constraints | None


def measured(problem: Problem, error: Error) -> Measured:
    """Rays or pixels."""
    constraints = problem.constraints
    if error == "ray":
        return Measured(problem.cameras, problem.u, problem.weights, constraints)
    from daba.problem.image_rows import image_rows, of_focal_lengths

    rows = image_rows(problem.optics, problem.poses)
    if problem.priors is not None and len(problem.priors.intrinsics):
        constraints = of_focal_lengths(constraints, problem.intrinsics[:, 0])
    return Measured(rows, problem.pixels, np.ones(problem.num_observations), constraints)


def lay_out(
    problem: Problem,
    partition: Partition,
    error: Error = "ray",
    arrays: NumpyArrays = ON_HOST,
    validate: bool = False,
) -> Layout:
    """Sort cameras and points by device. Points follow each other as their first cameras do,
    so that neighbours in memory are seen by the same cameras; images of a frame follow each
    other. `validate` the problem before."""
    a, C, P = arrays, problem.num_cameras, problem.num_points
    there = validate and a is not ON_HOST and problem.has_rays
    if validate and not there:
        problem.validated()
    ends = a.put(problem.camera_index), a.put(problem.point_index)
    rays = []
    if there:
        rays = [a.put(problem.u), a.put(problem.weights)]
        problem.validated(observations=not a.valid(problem, *ends, *rays))
    cameras, *numbers, constraints = measured(problem, error)
    u, weights = rays if rays and error == "ray" else map(a.put, numbers)
    camera_order = order_cameras(partition, frames_of(problem))
    camera = a.take(a.put(inverse(camera_order)), ends[0])
    first = a.smallest(camera, ends[1], P)
    point_order = order_points(partition, first, a)
    point = a.take(a.put(inverse(point_order)), ends[1])
    devices = a.put(partition.camera_device), a.put(partition.point_device)
    crosses = a.take(devices[0], ends[0]) != a.take(devices[1], ends[1])
    order = a.order_pairs(point, camera, C)
    inter = order[crosses[order]]
    intra = order[~crosses[order]] if len(inter) else order
    outer = inter[a.order(camera[inter], C)]

    def records(chosen: Any) -> Records:
        return Records(*(a.take(array, chosen) for array in (camera, point, u, weights)))

    def numbered(chosen: Any) -> Any:
        if a is not ON_HOST:
            return chosen
        return chosen.astype(number_type(problem.num_observations))

    return Layout(
        problem=problem,
        cameras=cameras,
        camera_order=camera_order,
        point_order=point_order,
        ranges=ranges_of(partition, problem.num_observations),
        intra=records(intra),
        inter=records(inter),
        outer=records(outer),
        intra_id=numbered(intra),
        inter_id=numbered(inter),
        outer_id=numbered(outer),
        arrays=a,
        constraints=constraints,
    )


def order_cameras(partition: Partition, frame: Ints | None = None) -> Ints:
    """The problem's camera at each index of device order; those of a frame follow each other."""
    if frame is not None:
        return np.lexsort((frame, partition.camera_device)).astype(np.int32)
    return np.argsort(partition.camera_device, kind="stable").astype(np.int32)


def first_cameras(camera: Ints, point: Ints, points: int) -> Ints:
    """First camera that sees each point, in device order."""
    first: Ints = ON_HOST.smallest(camera, point, points)
    return first


def order_points(partition: Partition, first: Any, arrays: NumpyArrays = ON_HOST) -> Ints:
    """The problem's point at each index of device order."""
    device = arrays.put(partition.point_device)
    order: Ints = arrays.host(arrays.order_pairs(device, first, 1 << 31)).astype(np.int32)
    return order


def ranges_of(partition: Partition, observations: int) -> DeviceRanges:
    return DeviceRanges(
        pointers(partition.camera_device, partition.devices),
        pointers(partition.point_device, partition.devices),
        observations,
    )


def number_type(observations: int) -> np.dtype:
    """The type that numbers observations; 32 bits do for all but the largest problems."""
    return np.dtype(np.int32 if observations < 2**31 else np.int64)


def inverse(order: Ints) -> Ints:
    """Index of each item, given the item at each index."""
    index = np.empty_like(order)
    index[order] = np.arange(len(order), dtype=np.int32)
    return index


def pointers(owner: Ints, count: int) -> np.ndarray:
    """Where the items of each owner begin, when sorted by owner, (count + 1,)."""
    return starts(np.bincount(owner, minlength=count))
