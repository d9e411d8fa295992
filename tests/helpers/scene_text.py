"""A small scene as a program's first lines, for tests that run one in a process of its own."""

from __future__ import annotations


def scene(cameras: int, points: int, noise: float = 0.0) -> str:
    """Cameras that all look the same way and see all points; `problem` begins beside the truth."""
    return f"""
import numpy as np
import daba

rng = np.random.default_rng(0)
points = rng.normal(size=({points}, 3)) + [0, 0, 8]
camera, point = (index.ravel() for index in np.mgrid[:{cameras}, :{points}])
centers = rng.normal(size=({cameras}, 3))
ray = points[point] - centers[camera]
problem = daba.Problem.from_arrays(
    np.tile(np.eye(3), ({cameras}, 1, 1)), centers, points + 0.01, camera, point,
    500 * ray[:, :2] / ray[:, 2:] + {noise} * rng.normal(size=(len(ray), 2)), 500.0,
)
"""
