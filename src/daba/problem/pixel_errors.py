"""How far from its pixel each point is seen: reprojection errors of a problem, and which points lie
behind their cameras."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daba.core.types import distinct, frozen, median
from daba.problem.intrinsics import STEREOGRAPHIC, chunks
from daba.problem.optics import reprojection_errors, well_seen
from daba.problem.problem import Floats, Problem

UNSEEN = float(np.sqrt(np.finfo(np.float64).max))
"""COLMAP's error, in pixels, of a point that its camera does not see."""


@frozen
class PixelError:
    """Reprojection error in the forward model, in pixels."""

    rms: float
    """√(mean |r|²)."""
    mean: float
    """Mean of |r| over observations."""
    median: float
    """Median of |r| over observations."""
    half_mean_square: float
    """½ · mean |r|², what Ceres users divide by the number of observations."""
    behind: int
    """Observations whose point lies behind the camera; they are counted in the errors."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def pixel_errors(problem: Problem, model: Floats | None = None) -> Floats:
    """|r| of each observation in pixels, (K,), as a reader of the written file computes it: by the
    camera models of `Problem.optics`. Infinite where a camera does not see the point.

    Args:
        model: (f, k1, k2) of each camera, (C,3), to be used instead
    """
    if model is not None:
        from daba.problem.rays import radial_optics

        one_each = np.arange(problem.num_cameras, dtype=np.int32)
        optics = radial_optics(one_each, np.asarray(model), problem.intrinsics)
        problem = problem.changed(given_optics=optics, shared=None)
    return reprojection_errors(problem)[0]


def pixel_error(problem: Problem, model: Floats | None = None) -> PixelError:
    """The errors of `pixel_errors` in a few numbers."""
    return summarize_errors(pixel_errors(problem, model), len(points_behind(problem)))


def mean_reprojection_error(problem: Problem) -> float:
    """What COLMAP calls the mean reprojection error, in pixels: the mean over points of the mean
    over their observations."""
    return float(point_errors(problem)[distinct(problem.point_index)].mean())


def point_errors(problem: Problem) -> Floats:
    """Mean pixel error of each point's observations, (P,), as COLMAP keeps it; 0 where there are
    none."""
    P, errors = problem.num_points, pixel_errors(problem)
    count = np.bincount(problem.point_index, minlength=P)
    errors = np.where(np.isfinite(errors), errors, UNSEEN)
    return np.bincount(problem.point_index, errors, P) / np.maximum(count, 1)


def summarize_errors(errors: Floats, behind: int) -> PixelError:
    with np.errstate(over="ignore"):
        mean_square = float(np.mean(errors**2))
    return PixelError(
        rms=mean_square**0.5,
        mean=float(errors.mean()),
        median=float(median(errors)),
        half_mean_square=0.5 * mean_square,
        behind=behind,
    )


def points_behind(problem: Problem) -> NDArray[np.intp]:
    """Observations whose point does not lie in front of the camera; of a problem that is given in
    pixels, those whose camera does not see the point."""
    if problem.given_optics is not None and not problem.given_optics.bundler:
        return np.flatnonzero(~well_seen(problem))
    found = []
    for c, cam in chunks(problem.camera_index):
        depth = ahead(camera_frame(problem, c), problem.u[c], problem.intrinsics[cam])
        found.append(c.start + np.flatnonzero(depth <= 0))
    return np.concatenate(found)


def ahead(x: Floats, u: Floats, d: Floats) -> Floats:
    """How far in front of its camera each observed point is, given in the camera's frame: its z.

    A stereographic camera may see what is beside or behind it; there it is how far the point lies
    along its ray.
    """
    wide = (d == STEREOGRAPHIC).all(axis=1)
    if not wide.any():
        return x[:, 2]
    s = np.einsum("kx,kx->k", u, u)
    along = np.einsum("kx,kx->k", u, x[:, :2]) + (d[:, 0] + s * d[:, 1]) * x[:, 2]
    return np.where(wide, along, x[:, 2])


def camera_frame(problem: Problem, c: slice) -> Floats:
    """The points of some observations as their cameras see them, Rᵀ (l − t)."""
    cam = problem.camera_index[c]
    δ = problem.points[problem.point_index[c]] - problem.centers[cam]
    return np.asarray(np.einsum("kji,kj->ki", problem.rotations[cam], δ))
