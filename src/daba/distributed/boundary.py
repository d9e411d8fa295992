"""What devices have to tell each other, counted as if each were a process of its own: so that it
does not depend on how many of them share one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daba.core.types import Int32
from daba.distributed.shard import Shard

NUMBER = 8
"""Bytes."""


class Boundary(NamedTuple):
    """Variables of the devices here that other devices see: pairs of a variable and a device that
    must be told of it."""

    cameras: int
    """Or frames."""
    points: int

    def bytes(self, *, cameras: int = 0, points: int = 0) -> int:
        """Of one round in which each device is told so many numbers of each camera and point that
        it sees."""
        return NUMBER * (cameras * self.cameras + points * self.points)


def boundary_of(shard: Shard, frame: Int32 | None = None) -> Boundary:
    """Of the devices of a shard. Images with the same `frame`, counted here, are told of as one."""
    if shard.extent.devices == 1:
        return Boundary(0, 0)
    camera, point = shard.inter.camera, shard.inter.point
    S = np.int64(shard.extent.devices)
    camera_device, point_device = (
        _device(ptr, shard.first, own, ghosts)[index]
        for ptr, own, ghosts, index in (
            (shard.extent.camera_ptr, shard.num_cameras, shard.ghost_cameras, camera),
            (shard.extent.point_ptr, shard.num_points, shard.ghost_points, point),
        )
    )
    told = camera if frame is None else frame[camera]
    mine, ours = camera < shard.num_cameras, point < shard.num_points
    return Boundary(
        len(np.unique(told[mine] * S + point_device[mine])),
        len(np.unique(point[ours] * S + camera_device[ours])),
    )


def _device(ptr: np.ndarray, first: int, own: int, ghosts: np.ndarray) -> np.ndarray:
    """Of each variable of a shard, its own and its ghosts."""
    index = np.concatenate([int(ptr[first]) + np.arange(own), ghosts.astype(np.int64)])
    return np.searchsorted(ptr, index, side="right") - 1
