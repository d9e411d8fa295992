"""Points that a solve has left behind a camera that sees them, brought in front.

The method's error knows no behind: it sees a line through the camera's centre, not a ray, and a
point whose rays do not quite meet may pass through infinity and come back on the other side. Other
tools call the pixel error of such a point infinite. Here it is put where its rays come nearest to
each other, or else somewhere along their mean direction, wherever the objective is least among the
positions in front of all its cameras.

What is found does not depend on the order of observations, so that the parts of a store give the
same bits as the whole problem: terms are added in the order of their size, and the usual distance
between a camera and a point comes from counts.
"""

from __future__ import annotations

import numpy as np

from daba.core import formulas
from daba.problem.pixel_errors import ahead, points_behind
from daba.problem.problem import Floats, Ints, Problem

DEPTHS = np.logspace(-2, 4, 61)
"""Distances that are tried, in units of the usual distance between a camera and a point."""
OCTAVES = 64
"""Distances are counted from 2^−OCTAVES to 2^OCTAVES, …"""
FINEST = 64
"""… so many to an octave: 1 % apart."""


def bring_to_front(
    problem: Problem, distances: np.ndarray | None = None
) -> tuple[Problem, np.ndarray]:
    """The problem with such points moved, and which they are; fixed points, and those that nothing
    brings in front of all their cameras, stay.

    distances   `count_distances` of all parts of a problem of which this is one
    """
    wrong = np.zeros(problem.num_points, bool)
    wrong[problem.point_index[points_behind(problem)]] = True
    if problem.free_points is not None:
        wrong &= problem.free_points
    which = np.flatnonzero(wrong)
    if not len(which):
        return problem, which
    k = np.flatnonzero(wrong[problem.point_index])
    number = np.zeros(problem.num_points, np.int32)
    number[which] = np.arange(len(which))
    at = number[problem.point_index[k]]
    size = _usual_distance(count_distances(problem) if distances is None else distances)
    points = problem.points.copy()
    points[which] += size
    apart = problem.changed(points=points)  # no rays are made of points on a camera's centre
    rays, centers = _rays(apart, k), problem.centers[problem.camera_index[k]]
    best, least = np.empty((len(which), 3)), np.full(len(which), np.inf)
    centroid, direction = _sums(at, centers, len(which)), _sums(at, rays, len(which))
    centroid /= np.bincount(at, minlength=len(which))[:, None]
    direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-12)
    candidates = [centroid + size * depth * direction for depth in DEPTHS]
    for candidate in [_meeting(at, rays, centers, centroid), *candidates]:
        F = _objective(apart, k, at, candidate)
        better = F < least
        best[better], least[better] = candidate[better], F[better]
    found = np.isfinite(least)
    points = problem.points.copy()
    points[which[found]] = best[found]
    return problem.changed(points=points), which[found]


def count_distances(problem: Problem) -> np.ndarray:
    """How often cameras and points that they see are so far from each other."""
    δ = problem.points[problem.point_index] - problem.centers[problem.camera_index]
    with np.errstate(divide="ignore"):
        octave = np.log2(np.linalg.norm(δ, axis=1))
    last = 2 * FINEST * OCTAVES - 1
    at = np.clip(np.floor(FINEST * (octave + OCTAVES)), 0, last).astype(np.int64)
    return np.bincount(at, minlength=last + 1)


def _usual_distance(counts: np.ndarray) -> float:
    """The median distance between a camera and a point that it sees."""
    total = np.cumsum(counts)
    middle = int(np.searchsorted(total, (total[-1] + 1) // 2))
    return float(2.0 ** ((middle + 0.5) / FINEST - OCTAVES))


def _rays(problem: Problem, k: np.ndarray) -> Floats:
    """Unit vectors in the world."""
    c = problem.cameras[problem.camera_index[k]].T
    q = np.column_stack(formulas.rotated_ray(c, *problem.u[k].T)[:3])
    return np.asarray(q / np.linalg.norm(q, axis=1, keepdims=True))


def _meeting(at: Ints, rays: Floats, centers: Floats, centroid: Floats) -> Floats:
    """The points nearest to their rays."""
    across = np.eye(3) - rays[:, :, None] * rays[:, None, :]
    A = _sums(at, across.reshape(-1, 9), len(centroid)).reshape(-1, 3, 3)
    b = _sums(at, np.einsum("kij,kj->ki", across, centers - centroid[at]), len(centroid))
    flat = 1e-12 * np.trace(A, axis1=1, axis2=2)[:, None, None] + 1e-300
    return np.asarray(centroid + np.linalg.solve(A + flat * np.eye(3), b[:, :, None])[:, :, 0])


def _objective(problem: Problem, k: np.ndarray, at: Ints, points: Floats) -> Floats:
    """Sum of squared errors of each point; infinite if a camera would have it behind."""
    c = problem.cameras[problem.camera_index[k]]
    u, weights = problem.u[k], problem.weights[k]
    x = np.einsum("kji,kj->ki", c[:, :9].reshape(-1, 3, 3), points[at] - c[:, 9:12])
    e = np.column_stack(formulas.error(c.T, points[at].T, *u.T)[:3])
    square = weights**2 * np.einsum("kx,kx->k", e, e)
    square = np.where(ahead(x, u, c[:, 12:]) > 0, square, np.inf)
    return _sums(at, square[:, None], len(points))[:, 0]


def _sums(at: Ints, rows: Floats, count: int) -> Floats:
    """Sums by point; the smallest terms first, whatever their order was."""
    columns = []
    for column in rows.T:
        order = np.lexsort((column, at))
        columns.append(np.bincount(at[order], column[order], count))
    return np.column_stack(columns)
