"""A tiny problem, made with NumPy alone."""

from __future__ import annotations

import numpy as np

from daba.problem.problem import Problem


def tiny_problem(cameras: int = 4, points: int = 12, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    l = rng.normal(size=(points, 3)) + [0.0, 0.0, 8.0]
    camera, point = (i.ravel() for i in np.mgrid[:cameras, :points])
    centers = rng.normal(size=(cameras, 3))
    ray = l[point] - centers[camera]
    return Problem.from_arrays(
        rotations=np.tile(np.eye(3), (cameras, 1, 1)),
        centers=centers,
        points=l + 0.01 * rng.normal(size=l.shape),
        camera_index=camera,
        point_index=point,
        pixels=500 * ray[:, :2] / ray[:, 2:] + rng.normal(size=(len(ray), 2)),
        focal=500.0,
    )
