"""Cameras and points to devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daba.core.errors import DabaError
from daba.partition.camera_graph import (
    camera_graph,
    has_metis,
    settle_cameras,
    split_cameras,
    split_points,
)
from daba.problem.problem import Ints, Problem


@dataclass(frozen=True)
class Partition:
    """Which device owns each camera and each point."""

    camera_device: Ints
    """Device of each camera, (C,)."""
    point_device: Ints
    """Device of each point, (P,)."""
    devices: int
    """How many there are."""


def make_partition(problem: Problem, devices: int, seed: int = 0) -> Partition:
    """Split by METIS on the camera graph: edges weighted by common points, cameras by their
    observations; each point goes to the device that sees it most, and each camera, if that device
    has room, to the one that owns most of its points. The same seed gives the same partition. Where
    METIS is not installed, cameras are bisected by what they look at instead. The images of a frame
    stay together: it is split like a camera that sees what all of them see."""
    P, frame = problem.num_points, frames_of(problem)
    C = num_frames(problem)
    camera_index = problem.camera_index if frame is None else frame[problem.camera_index]
    ends = camera_index, problem.point_index
    check_devices(devices, C, "camera" if frame is None else "frame")
    load = np.bincount(camera_index, minlength=C)
    if devices > 1 and not has_metis():
        from daba.partition.bisection import bisect_cameras, centroids_seen

        cameras = bisect_cameras(centroids_seen(problem.points, *ends, C), load, devices)
    else:
        graph = camera_graph(*ends, C, P) if devices > 1 else None
        cameras = split_cameras(graph, load, devices, seed)
    cameras = settle_cameras(cameras, load, devices, lambda: [(*ends, range(P))])
    points = split_points(*ends, cameras, devices, range(P))
    return Partition(cameras if frame is None else cameras[frame], points, devices)


def frames_of(problem: Problem) -> Ints | None:
    """Frame of each image, where frames have several."""
    return None if problem.given_optics is None else problem.given_optics.frame


def num_frames(problem: Problem) -> int:
    """The most devices that a problem can have: each needs a frame, or an image without rigs."""
    frame = frames_of(problem)
    return problem.num_cameras if frame is None else int(frame.max()) + 1


def check_devices(devices: int, cameras: int, what: str = "camera") -> None:
    if devices < 1:
        raise DabaError(f"the number of devices must be at least 1, not {devices}")
    if devices > cameras:
        raise DabaError(
            f"{devices} devices but only {cameras} {what}s: every device needs at least one "
            f"{what}, so use --devices {cameras} or fewer"
        )


def partition_from_arrays(
    problem: Problem, camera_device: np.ndarray, point_device: np.ndarray | None = None
) -> Partition:
    """A partition given by the user; points follow their cameras if not given."""
    cameras = np.ascontiguousarray(camera_device, dtype=np.int32)
    if cameras.shape != (problem.num_cameras,) or cameras.min() < 0:
        raise DabaError(
            f"camera_device must hold one device number for each of {problem.num_cameras} cameras"
        )
    devices = int(cameras.max()) + 1
    if len(np.unique(cameras)) < devices:
        raise DabaError(f"camera_device must use every device from 0 to {devices - 1}")
    if (frame := frames_of(problem)) is not None:
        first = np.unique(frame, return_index=True)[1]
        bad = np.flatnonzero(cameras != cameras[first][frame])
        if len(bad):
            raise DabaError(
                f"images {first[frame[bad[0]]]} and {bad[0]} are of one frame of a rig, so they "
                "must be on one device"
            )
    if point_device is None:
        P = range(problem.num_points)
        points = split_points(problem.camera_index, problem.point_index, cameras, devices, P)
        return Partition(cameras, points, devices)
    points = np.ascontiguousarray(point_device, dtype=np.int32)
    inside = points.shape == (problem.num_points,) and points.min() >= 0 and points.max() < devices
    if not inside:
        raise DabaError(
            f"point_device must hold a device number below {devices} for each of "
            f"{problem.num_points} points"
        )
    return Partition(cameras, points, devices)
