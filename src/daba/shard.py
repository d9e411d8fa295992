"""What one process holds: the cameras, points and observations of its devices, laid out so that
each device's variables are contiguous and observations are split into intra and inter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daba.kernels.cpu.types import Devices, Observations, Tasks
from daba.partition import Partition
from daba.problem import Floats, Ints, Problem

TASK_OBSERVATIONS = 1024
"""Fewer observations than this are not worth a task of their own."""
MOST_TASKS = 64


class State(NamedTuple):
    """An estimate x: camera records (C, 15) and points (P, 3), in the shard's order."""

    cameras: Floats
    points: Floats

    def copy(self) -> State:
        return State(self.cameras.copy(), self.points.copy())


@dataclass(frozen=True)
class Shard:
    """Devices, their observations, and the way back to the problem's own order."""

    problem: Problem
    camera_order: Ints
    """The problem's camera at each place of the shard."""
    point_order: Ints
    devices: Devices
    intra: Observations
    inter: Observations

    @property
    def num_devices(self) -> int:
        return len(self.devices.camera_ptr) - 1

    def state(self) -> State:
        """The problem's estimate in the shard's order."""
        return State(
            np.ascontiguousarray(self.problem.cameras[self.camera_order]),
            np.ascontiguousarray(self.problem.points[self.point_order]),
        )

    def to_problem(self, x: State) -> Problem:
        """The problem with estimate x, in its own order."""
        cameras = np.empty_like(x.cameras)
        points = np.empty_like(x.points)
        cameras[self.camera_order] = x.cameras
        points[self.point_order] = x.points
        return self.problem.with_estimate(cameras, points)


def make_shard(problem: Problem, partition: Partition) -> Shard:
    """Lay the problem out by device. Points follow each other as their first cameras do, so that
    neighbours in memory are seen by the same cameras."""
    S = partition.devices
    camera_order = np.argsort(partition.camera_device, kind="stable").astype(np.int32)
    camera_place = _inverse(camera_order)
    camera = camera_place[problem.camera_index]
    first = np.full(problem.num_points, problem.num_cameras, dtype=np.int32)
    np.minimum.at(first, problem.point_index, camera)
    point_order = np.lexsort((first, partition.point_device)).astype(np.int32)
    point = _inverse(point_order)[problem.point_index]
    camera_ptr = _pointers(partition.camera_device, S)
    point_ptr = _pointers(partition.point_device, S)
    inter = (
        partition.camera_device[problem.camera_index]
        != (partition.point_device[problem.point_index])
    )
    by_camera = np.bincount(camera, minlength=problem.num_cameras)
    by_point = np.bincount(point, minlength=problem.num_points)
    sizes = problem.num_cameras, problem.num_points
    return Shard(
        problem=problem,
        camera_order=camera_order,
        point_order=point_order,
        devices=Devices(
            camera_ptr,
            point_ptr,
            make_tasks(camera_ptr, by_camera),
            make_tasks(point_ptr, by_point),
        ),
        intra=_observations(problem, camera, point, np.flatnonzero(~inter), sizes),
        inter=_observations(problem, camera, point, np.flatnonzero(inter), sizes),
    )


def make_tasks(device_ptr: np.ndarray, work: np.ndarray) -> Tasks:
    """Cut each device's items into runs of about equal work; depends on the problem alone."""
    done = np.concatenate([[0], np.cumsum(work)])
    total = int(done[-1])
    grain = max(TASK_OBSERVATIONS, total // MOST_TASKS)
    cuts, owners = [np.zeros(1, np.int64)], []
    for device, (lo, hi) in enumerate(zip(device_ptr[:-1], device_ptr[1:], strict=True)):
        share = int(done[hi] - done[lo])
        count = int(min(max(1, round(share / grain)), max(1, hi - lo)))
        goals = done[lo] + share * np.arange(1, count) / count
        inner = np.clip(np.searchsorted(done, goals), lo, hi)
        cuts.append(np.concatenate([inner, [hi]]).astype(np.int64))
        owners.append(np.full(count, device, np.int32))
    owner = np.concatenate(owners)
    return Tasks(np.concatenate(cuts), owner, _pointers(owner, len(device_ptr) - 1))


def _observations(
    problem: Problem, camera: Ints, point: Ints, chosen: np.ndarray, sizes: tuple[int, int]
) -> Observations:
    order = chosen[np.lexsort((camera[chosen], point[chosen]))]
    c, p = camera[order], point[order]
    return Observations(
        camera=c,
        point=p,
        u=np.ascontiguousarray(problem.u[order]),
        weight=np.ascontiguousarray(problem.weights[order]),
        point_ptr=_pointers(p, sizes[1]),
        camera_ptr=_pointers(c, sizes[0]),
        camera_obs=np.argsort(c, kind="stable").astype(np.int32),
    )


def _inverse(order: Ints) -> Ints:
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place


def _pointers(owner: Ints, count: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)
