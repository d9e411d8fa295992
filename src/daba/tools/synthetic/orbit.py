"""Cameras in rings around one object; all of them see its middle, so visibility is dense."""

from __future__ import annotations

import math

import numpy as np

from daba.problem.problem import Floats
from daba.tools.synthetic.layout import Scenery, Surface, looking

DISTANCE = 2.4
"""Radius of the rings; the object is about 1 in radius."""
RINGS = np.radians([8.0, 28.0, 50.0])


def layout(rng: np.random.Generator, cameras: int, mean_track: float) -> Scenery:
    ring = np.arange(cameras) * len(RINGS) // cameras
    # Three full turns, but never so few pictures a turn that neighbours see different sides.
    azimuth = np.arange(cameras) * min(2 * np.pi * len(RINGS) / cameras, np.pi / 5)
    elevation = RINGS[ring] + 0.03 * rng.standard_normal(cameras)
    radius = DISTANCE * (1 + 0.04 * rng.standard_normal(cameras).clip(-2.5, 2.5))
    centers = radius[:, None] * np.column_stack(
        [
            np.cos(elevation) * np.cos(azimuth),
            np.cos(elevation) * np.sin(azimuth),
            np.sin(elevation),
        ]
    )
    aim = np.radians(1.5) * rng.standard_normal((2, cameras))
    rotations = looking(azimuth + np.pi + aim[0], -elevation + aim[1])
    zones = np.tile(np.array([0, -1], np.int32), (cameras, 1))
    spacing = min(0.5, 2 * math.pi * DISTANCE * len(RINGS) / cameras)
    return Scenery(rotations, centers, zones, spacing, 2 * DISTANCE, surface, "spread")


def surface(rng: np.random.Generator, n: int) -> Surface:
    """A knobbly ball."""
    v = rng.standard_normal((n, 3))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    h = 1e-4
    r = _radius(v)
    slope = np.stack([(_radius(v + h * axis) - r) / h for axis in np.eye(3)], axis=1)
    tangent = slope - np.einsum("nx,nx->n", slope, v)[:, None] * v
    normals = v - tangent / r[:, None]
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    zones = np.tile(np.array([0, -1], np.int32), (n, 1))
    return Surface(v * r[:, None], normals, zones)


def _radius(v: Floats) -> Floats:
    return np.asarray(0.92 + 0.07 * np.sin(5 * v[:, 0]) * np.cos(4 * v[:, 1] + 3 * v[:, 2]))
