"""A problem in the order of its devices: what a store keeps, and what shards are cut from.

Device order: cameras and points are numbered device after device, so that what a device owns is one
range of indices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from daba.partition.partition import Partition, frames_of, stable_order
from daba.problem.problem import Floats, Ints, Problem

if TYPE_CHECKING:
    from daba.problem.constraints import Constraints


Error = Literal["ray", "pixel"]
"""What is minimised, which says how observations are handed on: as rays u with weights ω, or as
pixels with ones."""


class Records(NamedTuple):
    """Observations, by the indices of their ends in device order."""

    camera: Ints
    point: Ints
    u: Floats
    """Where the camera sees the point; pixels if it is the pixel error that is minimised."""
    weight: Floats

    def take(self, chosen: slice | np.ndarray) -> Records:
        """Some of them."""
        return Records(self.camera[chosen], self.point[chosen], self.u[chosen], self.weight[chosen])

    @staticmethod
    def concatenate(parts: Iterable[Records]) -> Records:
        """One after the other; a single part is not copied."""
        parts = list(parts)
        return (
            parts[0] if len(parts) == 1 else Records(*map(np.concatenate, zip(*parts, strict=True)))
        )


@dataclass(frozen=True)
class Piece:
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


@dataclass(frozen=True)
class Extent:
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


@dataclass(frozen=True)
class Layout:
    """All pieces of a problem."""

    problem: Problem
    cameras: Floats
    """Camera records, in the problem's order."""
    camera_order: Ints
    """The problem's camera at each index of device order."""
    point_order: Ints
    extent: Extent
    intra: Records
    inter: Records
    outer: Records
    intra_id: Ints
    """The problem's number of each observation of `intra`."""
    inter_id: Ints
    outer_id: Ints
    constraints: Constraints | None

    def piece(self, device: int) -> Piece:
        e = self.extent
        cameras = slice(e.camera_ptr[device], e.camera_ptr[device + 1])
        points = slice(e.point_ptr[device], e.point_ptr[device + 1])
        camera_id, point_id = self.camera_order[cameras], self.point_order[points]
        constraints = self.constraints
        return Piece(
            camera_id=camera_id,
            point_id=point_id,
            cameras=self.cameras[camera_id],
            points=self.problem.points[point_id],
            intra=self.intra.take(_range(self.intra.point, points)),
            inter=self.inter.take(_range(self.inter.point, points)),
            outer=self.outer.take(_range(self.outer.camera, cameras)),
            constraints=constraints
            and constraints.take(camera_id, point_id, (e.cameras, e.points)),
        )

    def numbers(self, device: int) -> tuple[Ints, Ints, Ints]:
        """The problem's numbers of the piece's intra, inter and outer observations."""
        points = slice(*self.extent.point_ptr[device : device + 2])
        cameras = slice(*self.extent.camera_ptr[device : device + 2])
        return (
            self.intra_id[_range(self.intra.point, points)],
            self.inter_id[_range(self.inter.point, points)],
            self.outer_id[_range(self.outer.camera, cameras)],
        )


def lay_out(problem: Problem, partition: Partition, error: Error = "ray") -> Layout:
    """Sort cameras and points by device. Points follow each other as their first cameras do,
    so that neighbours in memory are seen by the same cameras; images of a frame follow each
    other."""
    camera_order = order_cameras(partition, frames_of(problem))
    camera = inverse(camera_order)[problem.camera_index]
    first = first_cameras(camera, problem.point_index, problem.num_points)
    point_order = order_points(partition, first)
    point = inverse(point_order)[problem.point_index]
    crosses = (
        partition.camera_device[problem.camera_index] != partition.point_device[problem.point_index]
    )
    number = number_type(problem.num_observations)
    order = np.argsort(point.astype(np.int64) * problem.num_cameras + camera, kind="stable")
    inter = order[crosses[order]]
    intra = order[~crosses[order]] if len(inter) else order
    outer = inter[stable_order(camera[inter], problem.num_cameras)]

    constraints = problem.constraints
    if error == "pixel":
        from daba.problem.image_rows import image_rows, of_focal_lengths

        cameras = image_rows(problem.optics, problem.poses)
        if problem.priors is not None and len(problem.priors.intrinsics):
            constraints = of_focal_lengths(constraints, problem.intrinsics[:, 0])
        u, weights = problem.pixels, np.ones(problem.num_observations)
    else:
        cameras, u, weights = problem.cameras, problem.u, problem.weights

    def records(chosen: np.ndarray) -> Records:
        return Records(camera[chosen], point[chosen], u[chosen], weights[chosen])

    return Layout(
        problem=problem,
        cameras=cameras,
        camera_order=camera_order,
        point_order=point_order,
        extent=extent_of(partition, problem.num_observations),
        intra=records(intra),
        inter=records(inter),
        outer=records(outer),
        intra_id=intra.astype(number),
        inter_id=inter.astype(number),
        outer_id=outer.astype(number),
        constraints=constraints,
    )


def order_cameras(partition: Partition, frame: Ints | None = None) -> Ints:
    """The problem's camera at each index of device order; those of a frame follow each other."""
    if frame is not None:
        return np.lexsort((frame, partition.camera_device)).astype(np.int32)
    return np.argsort(partition.camera_device, kind="stable").astype(np.int32)


def first_cameras(camera: Ints, point: Ints, points: int) -> Ints:
    """First camera that sees each point, in device order."""
    first = np.full(points, np.iinfo(np.int32).max, dtype=np.int32)
    np.minimum.at(first, point, camera)
    return first


def order_points(partition: Partition, first: Ints) -> Ints:
    """The problem's point at each index of device order."""
    return np.lexsort((first, partition.point_device)).astype(np.int32)


def extent_of(partition: Partition, observations: int) -> Extent:
    return Extent(
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
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)


def _range(indices: Ints, own: slice) -> slice:
    lo, hi = np.searchsorted(indices, [own.start, own.stop])
    return slice(int(lo), int(hi))
