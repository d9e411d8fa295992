"""Nesterov's sequence, extrapolation on SO(3), the clip, momentum that starts anew, and the restart
level, as one process's operations do them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from daba.backends.cpu.operations import CpuOperations
from daba.backends.operations import Row
from daba.core.options import Options
from daba.core.types import State
from daba.problem.problem import Floats
from daba.solver.make import cpu_solver
from helpers import (
    operations_of,
    random_problem,
    random_rotations,
    rng,
    scattered,
    shard_of,
    state_of,
)

pytestmark = pytest.mark.usefixtures("compiled")

seeds = st.integers(0, 10**6)
SHARD = shard_of(random_problem(1), 2)


def nearest_rotation(M: Floats) -> Floats:
    U, _, Vt = np.linalg.svd(M)
    flip = np.eye(3)
    flip[2, 2] = np.linalg.det(U @ Vt)
    return np.asarray(U @ flip @ Vt)


def at(
    x: State, last: State, s: float = 1.0, clip: float = np.inf, reset: bool = False
) -> CpuOperations:
    """Operations that stand at x and have come from `last`."""
    options = Options(
        method="daba", devices=2, refine="none", momentum_clip=clip, momentum_reset=reset
    )
    solver = cpu_solver(SHARD, options)
    ops = operations_of(solver)
    ops.set_estimate(x)
    ops.set_momentum(last, np.full(len(x.cameras), s))
    ops.table[Row.S_POINTS] = s
    return ops


def extrapolated(ops: CpuOperations) -> State:
    ops.begin()
    ops.extrapolate()
    return ops.bar


def momentum(s: float) -> float:
    return (s - 1) / ((1 + np.sqrt(4 * s**2 + 1)) / 2)


def test_the_sequence_is_nesterovs() -> None:
    x = SHARD.state()
    ops = at(x, x)
    expected = [1.6180339887498949, 2.1935270853310539, 2.7497913401204452]
    for k in range(200):
        before = ops.table[Row.S_POINTS, 0]
        extrapolated(ops)
        s = ops.table[Row.S_POINTS, 0]
        assert s**2 - s == pytest.approx(before**2, rel=1e-12)
        if k < len(expected):
            assert s == pytest.approx(expected[k], rel=1e-13)
        assert (ops.camera_s == s).all()
    assert 0.97 < momentum(s) < 1.0


def moved_to(ops: CpuOperations, new: State) -> None:
    """End an iteration at x⁺."""
    ops.new = new
    ops.finish()


def test_momentum_starts_anew_only_for_the_camera_that_overshot() -> None:
    """x̄ lies ahead of every camera; all but one step on from there, that one turns back."""
    x, last = SHARD.state(), SHARD.state()
    last.cameras[:, 9:12] -= 1.0
    ops = at(x, last, s=10.0, reset=True)
    new = extrapolated(ops).copy()
    new.cameras[:, 9:12] += 0.1  # beyond x̄: on the way
    new.cameras[1, 9:12] -= 0.4  # behind x̄, though ahead of x: it went too far
    moved_to(ops, new)
    assert ops.camera_s[1] == 1.0
    assert (np.delete(ops.camera_s, 1) > 10.0).all()


@pytest.mark.parametrize("parameter", [0, 9, 12])
def test_turning_moving_and_zooming_back_all_count(parameter: int) -> None:
    x, last = SHARD.state(), SHARD.state()
    last.cameras[:, parameter] -= 0.01
    ops = at(x, last, s=10.0, reset=True)
    ops.begin()
    ops.bar.cameras[:] = x.cameras
    ops.bar.cameras[:, parameter] += 0.02
    new = x.copy()
    new.cameras[:, parameter] += 0.01
    moved_to(ops, new)
    assert (ops.camera_s == 1.0).all()


def test_the_first_extrapolation_goes_nowhere() -> None:
    x, last = SHARD.state(), state_of(SHARD, scattered(SHARD.problem, 1, 0.5))
    x_bar = extrapolated(at(x, last))
    np.testing.assert_array_equal(x_bar.points, x.points)
    np.testing.assert_array_equal(x_bar.cameras[:, 9:], x.cameras[:, 9:])
    np.testing.assert_allclose(x_bar.cameras, x.cameras, atol=3e-16)


@given(seeds, st.floats(1.0, 1e6), st.floats(0.0, np.pi))
def test_rotations_are_projected_as_by_svd(seed: int, s: float, angle: float) -> None:
    """For turns of any size up to half a circle between the two estimates."""
    random = rng(seed)
    x, last = SHARD.state(), SHARD.state()
    C = len(x.cameras)
    R = random_rotations(random, C)
    axis = random.normal(size=(C, 3))
    axis *= angle / np.linalg.norm(axis, axis=1, keepdims=True)
    x.cameras[:, :9] = R.reshape(-1, 9)
    last.cameras[:, :9] = (Rotation.from_rotvec(axis).as_matrix() @ R).reshape(-1, 9)
    x_bar = extrapolated(at(x, last, s))
    gamma = momentum(s)
    for i in range(C):
        M = R[i] + gamma * (R[i] - last.cameras[i, :9].reshape(3, 3))
        found = x_bar.cameras[i, :9].reshape(3, 3)
        np.testing.assert_allclose(found, nearest_rotation(M), atol=1e-13)
        np.testing.assert_allclose(found @ found.T, np.eye(3), atol=2e-15)
        assert np.linalg.det(found) > 0


@given(seeds, st.floats(1.0, 1e6))
def test_everything_else_is_extrapolated_linearly(seed: int, s: float) -> None:
    x = SHARD.state()
    last = state_of(SHARD, scattered(SHARD.problem, seed, 0.3))
    x_bar = extrapolated(at(x, last, s))
    gamma = momentum(s)
    straight = x.points + gamma * (x.points - last.points)
    np.testing.assert_allclose(x_bar.points, straight, rtol=1e-12, atol=1e-14)
    rest = x.cameras[:, 9:] + gamma * (x.cameras[:, 9:] - last.cameras[:, 9:])
    np.testing.assert_allclose(x_bar.cameras[:, 9:], rest, rtol=1e-12, atol=1e-14)


@given(seeds, st.floats(1.0, 1e6), st.floats(0.0, 0.2), st.floats(1e-4, 10.0))
def test_points_move_no_further_than_the_clip(seed: int, s: float, clip: float, far: float) -> None:
    """At most clip × the distance to the mean centre of the cameras, and in the same direction."""
    problem = SHARD.problem
    x = SHARD.state()
    last = state_of(SHARD, scattered(problem, seed, far))
    x_bar = extrapolated(at(x, last, s, clip))
    move = momentum(s) * (x.points - last.points)
    for n, j in enumerate(SHARD.point_order):
        centroid = problem.centers[problem.camera_index[problem.point_index == j]].mean(axis=0)
        bound = clip * np.linalg.norm(x.points[n] - centroid)
        found = x_bar.points[n] - x.points[n]
        length = np.linalg.norm(move[n])
        assert np.linalg.norm(found) <= bound * (1 + 1e-9) + 1e-14
        expected = move[n] * (min(1.0, bound / length) if length > 0 else 1.0)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-13)


def test_a_point_that_no_camera_sees_can_be_extrapolated() -> None:
    from dataclasses import replace

    problem = random_problem(2)
    keep = problem.point_index != 0
    problem = replace(
        problem,
        camera_index=problem.camera_index[keep],
        point_index=problem.point_index[keep],
        u=problem.u[keep],
        weights=problem.weights[keep],
    )
    ops = operations_of(cpu_solver(shard_of(problem, 2), Options(method="daba", devices=2)))
    assert np.isfinite(extrapolated(ops).points).all()


def test_the_restart_level_follows_the_objective() -> None:
    """F̄^α ← (1 − η) F̄^α + η F^α, and η grows, but not beyond 1."""
    problem = scattered(random_problem(4, cameras=8, points=60), 1, 0.05)
    growing: dict[str, Any] = {"eta": 0.3, "eta_growth": 2.0, "restart_ratio": 250.0}
    solver = cpu_solver(
        shard_of(problem, 3), Options(method="daba", devices=3, refine="none", **growing)
    )
    level = solver.row(Row.F_BAR)
    np.testing.assert_allclose(level, 250.0 * solver.row(Row.F))
    for eta in (0.3, 0.6, 1.0, 1.0):
        solver.iterate()
        level = (1 - eta) * level + eta * solver.row(Row.F)
        np.testing.assert_allclose(solver.row(Row.F_BAR), level, rtol=1e-13)
