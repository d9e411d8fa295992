"""A large scene made quickly: cameras on a grid look down on a landscape, each point is seen by the
cameras around it. NumPy alone, so that it runs on a machine that has little else."""

from __future__ import annotations

import numpy as np

from daba.partition.bisection import bisect_cameras
from daba.partition.partition import Partition, split_points
from daba.problem.problem import Problem

HEIGHT, FOCAL = 6.0, 1000.0


def landscape(cameras: int, points: int, observations: int, seed: int = 0) -> Problem:
    """A problem of exactly these sizes, a little off its optimum."""
    rng = np.random.default_rng(seed)
    side = int(np.ceil(np.sqrt(cameras)))
    where = np.arange(cameras)
    centers = np.stack([where // side, where % side, np.full(cameras, HEIGHT)], axis=1).astype(
        float
    )
    centers[:, :2] += rng.uniform(-0.2, 0.2, (cameras, 2))
    home = np.sort(rng.integers(0, cameras, points))
    l = np.empty((points, 3))
    l[:, 0] = home // side + rng.uniform(-0.5, 0.5, points)
    l[:, 1] = home % side + rng.uniform(-0.5, 0.5, points)
    l[:, 2] = rng.uniform(-1.0, 1.0, points)
    length = _lengths(points, observations, min(cameras, 60), rng)
    point = np.repeat(np.arange(points, dtype=np.int32), length)
    rank = np.arange(observations) - np.repeat(np.cumsum(length) - length, length)
    near = _nearest(side)
    dx, dy = near[rank].T
    row = np.clip(home[point] // side + dx, 0, side - 1)
    column = np.clip(home[point] % side + dy, 0, side - 1)
    camera = (row * side + column) % cameras
    # looking down: x right, y down in the image, z along the view
    down = np.diag([1.0, -1.0, -1.0])
    ray = (l[point] - centers[camera]) @ down
    pixels = FOCAL * ray[:, :2] / ray[:, 2:] + rng.normal(0.0, 0.5, (observations, 2))
    small = rng.normal(0.0, 2e-3, (cameras, 3))
    turned = down[None] + np.cross(small[:, None, :], down.T[None]).transpose(0, 2, 1)
    u, _, vt = np.linalg.svd(turned)
    return Problem.from_arrays(
        rotations=u @ vt,
        centers=centers + rng.normal(0.0, 0.02, (cameras, 3)),
        points=l + rng.normal(0.0, 0.03, (points, 3)),
        camera_index=camera.astype(np.int32),
        point_index=point,
        pixels=pixels,
        focal=FOCAL,
        name=f"landscape-{cameras}",
    )


def in_strips(problem: Problem, devices: int) -> Partition:
    """Cameras cut by where they are."""
    load = np.bincount(problem.camera_index, minlength=problem.num_cameras)
    cameras = bisect_cameras(problem.centers, load, devices)
    ends = problem.camera_index, problem.point_index
    points = split_points(*ends, cameras, devices, range(problem.num_points))
    return Partition(cameras, points, devices)


def _lengths(points: int, observations: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """How often each point is seen: twice at least, a few very often."""
    mean = observations / points - 2.0
    length = 2 + np.minimum(rng.geometric(1.0 / (1.0 + mean), points) - 1, most - 2)
    while (off := observations - int(length.sum())) != 0:
        step = 1 if off > 0 else -1
        room = np.flatnonzero(length < most) if off > 0 else np.flatnonzero(length > 2)
        length[rng.choice(room, min(abs(off), len(room)), replace=False)] += step
    return length


def _nearest(side: int) -> np.ndarray:
    """Steps on the grid, the nearest first."""
    x, y = np.mgrid[-6:7, -6:7].reshape(2, -1)
    order = np.argsort(x * x + y * y, kind="stable")
    return np.stack([x[order], y[order]], axis=1)
