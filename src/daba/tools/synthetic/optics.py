"""Simulated cameras: pictures of 1600×1200 pixels, exact in the ray model.

The ray of image point u is `(u, d1 + d2 s + d3 s²)`, s = |u|²; `image_points` inverts it.
"""

from __future__ import annotations

import numpy as np

from daba.core.types import frozen
from daba.problem.problem import Floats

HALF_IMAGE = np.array([800.0, 600.0])
"""Half the width and height of a picture, pixels; the principal point is the middle."""
FOCAL = 850.0
"""Pixels, on average."""


@frozen
class Lenses:
    """True intrinsics, and the focal length the user of the cameras believes in."""

    focal: Floats
    """(C,) believed focal lengths: image points are divided by them."""
    intrinsics: Floats
    """(C, 3) true d, relative to `focal`."""


def optics(rng: np.random.Generator, cameras: int, focal_error: float, distortion: float) -> Lenses:
    """Draw cameras whose believed focal length is wrong by `focal_error` (standard deviation)."""
    true = FOCAL * (1 + 0.03 * rng.standard_normal(cameras).clip(-2.5, 2.5))
    d1 = 1 + focal_error * rng.standard_normal(cameras).clip(-3, 3)
    bend = rng.standard_normal((2, cameras)).clip(-2, 2)
    d2, d3 = distortion * (0.5 * bend[0] - 1.0), 0.1 * distortion * bend[1]
    return Lenses(true / d1, np.column_stack([d1, d2, d3]))


def image_points(y: Floats, d: Floats) -> Floats:
    """The u whose ray is parallel to direction y (both per observation); Newton's method.

    With y scaled to depth 1 and u = τ (y_x, y_y), τ solves d1 + d2 σ τ² + d3 σ² τ⁴ = τ,
    where σ = y_x² + y_y².
    """
    xy = y[:, :2] / y[:, 2:]
    sigma = np.einsum("kx,kx->k", xy, xy)
    a, b = d[:, 1] * sigma, d[:, 2] * sigma**2
    tau = d[:, 0].copy()
    for _ in range(7):
        t2 = tau * tau
        value = d[:, 0] + (a + b * t2) * t2 - tau
        tau -= value / (2 * (a + 2 * b * t2) * tau - 1)
    return np.asarray(tau[:, None] * xy)
