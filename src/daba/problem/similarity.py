"""Moving a whole scene to where its priors say it is: the similarity that fits them best.

Images tell a scene only up to a similarity, so a reconstruction is given in a frame of its own, and
GNSS in another. No step of a solver would find the way between the two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daba.problem.problem import Floats, Problem, camera_records

ROUNDS = 50
"""Rounds of reweighting, which makes the fit one of least distances: wild fixes do not matter."""
STRAIGHT = 1e-4
"""Cameras whose spread across their line is less than the root of this share of that along it do
not tell how the scene is turned about the line."""


class Similarity(NamedTuple):
    """x ↦ scale · rotation x + shift."""

    scale: float
    rotation: Floats
    shift: Floats

    def __call__(self, x: Floats) -> Floats:
        return np.ascontiguousarray(self.scale * x @ self.rotation.T + self.shift)


def aligned(problem: Problem) -> Problem:
    """The problem, moved to its priors as a whole; as it was if it has none, or if a pose or point
    is fixed: then it is where it belongs."""
    constraints, priors = problem.constraints, problem.priors
    if constraints is None or priors is None or not len(priors.positions) + len(priors.points):
        return problem
    fixed_points = constraints.free_points is not None
    free = constraints.free_cameras
    if fixed_points or (free is not None and not free[:, :6].all()):
        return problem
    known = (priors.positions, problem.centers), (priors.points, problem.points)
    move = fit_similarity(
        np.concatenate([values[targets.index] for targets, values in known]),
        np.concatenate([targets.target for targets, _ in known]),
    )
    R = np.einsum("ab,cbd->cad", move.rotation, problem.rotations)
    cameras = camera_records(R, move(problem.centers), problem.intrinsics)
    optics = problem.given_optics
    scaled = problem.changed(given_optics=optics and optics.scaled(move.scale))
    return scaled.with_estimate(cameras, move(problem.points))


def fit_similarity(source: Floats, target: Floats) -> Similarity:
    """The similarity with the least sum of distances from source to target."""
    weights = np.ones(len(source))
    move = _weighted(source, target, weights)
    for _ in range(ROUNDS):
        off = np.linalg.norm(move(source) - target, axis=1)
        weights = 1.0 / np.maximum(off, 1e-3 * np.median(off) + 1e-300)
        move = _weighted(source, target, weights / weights.max())
    return move


def _weighted(source: Floats, target: Floats, weights: Floats) -> Similarity:
    """Least squares (Umeyama 1991)."""
    w = weights / weights.sum()
    a, b = w @ source, w @ target
    A, B = source - a, target - b
    spread = float(w @ (A**2).sum(axis=1))
    if not spread > 0:  # all at one position: only a shift can be found
        return Similarity(1.0, np.eye(3), b - a)
    U, S, Vt = np.linalg.svd((w[:, None] * B).T @ A)
    if S[1] <= STRAIGHT * S[0]:
        R = _shortest_turn(Vt[0], U[:, 0])
    else:
        D = np.diag([1.0, 1.0, np.sign(np.linalg.det(U @ Vt))])
        R = U @ D @ Vt
    scale = float(w @ (B * (A @ R.T)).sum(axis=1)) / spread
    if not scale > 0:
        return Similarity(1.0, np.eye(3), b - a)
    return Similarity(scale, R, b - scale * R @ a)


def _shortest_turn(a: Floats, b: Floats) -> Floats:
    """The rotation of least angle that takes one unit vector to another."""
    if a @ b < -1.0 + 1e-9:  # half a turn, about any axis across them
        across = np.cross(a, np.eye(3)[np.argmin(np.abs(a))])
        across /= np.linalg.norm(across)
        return np.asarray(2.0 * np.outer(across, across) - np.eye(3))
    x, y, z = np.cross(a, b)
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + K + K @ K / (1.0 + a @ b))
