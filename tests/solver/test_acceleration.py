"""Nesterov's sequence, extrapolation on SO(3), the clip, and the restart metrics' recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from daba.distributed.shard import State
from daba.problem.problem import Floats
from daba.solver.acceleration import Nesterov, RestartMetrics
from helpers import random_problem, random_rotations, rng, scattered, shard_of, state_of

pytestmark = pytest.mark.usefixtures("compiled")

seeds = st.integers(0, 10**6)
SHARD = shard_of(random_problem(1), 2)


def nearest_rotation(M: Floats) -> Floats:
    U, _, Vt = np.linalg.svd(M)
    flip = np.eye(3)
    flip[2, 2] = np.linalg.det(U @ Vt)
    return np.asarray(U @ flip @ Vt)


def nesterov(x: State, last: State, s: float, clip: float = np.inf) -> Nesterov:
    found = Nesterov(SHARD, x, clip, reset=False)
    found.last = last
    found.s = s
    found.camera_s[:] = s
    return found


def momentum(s: float) -> float:
    return (s - 1) / ((1 + np.sqrt(4 * s**2 + 1)) / 2)


def test_the_sequence_is_nesterovs() -> None:
    x = SHARD.state()
    found = Nesterov(SHARD, x, np.inf, reset=False)
    assert found.s == 1.0
    assert (found.camera_s == 1.0).all()
    expected = [1.6180339887498949, 2.1935270853310539, 2.7497913401204452]
    for k in range(200):
        before = found.s
        found.extrapolate(x)
        assert found.s**2 - found.s == pytest.approx(before**2, rel=1e-12)
        if k < len(expected):
            assert found.s == pytest.approx(expected[k], rel=1e-13)
        assert (found.camera_s == found.s).all()
    assert 0.97 < momentum(found.s) < 1.0


def test_momentum_starts_anew_only_for_the_camera_that_overshot() -> None:
    """x̄ lies ahead of every camera; all but one step on from there, that one turns back."""
    x, last = SHARD.state(), SHARD.state()
    last.cameras[:, 9:12] -= 1.0
    found = Nesterov(SHARD, x, np.inf, reset=True)
    found.last, found.camera_s[:] = last, 10.0
    found.extrapolate(x)
    new = found.x_bar.copy()
    new.cameras[:, 9:12] += 0.1  # beyond x̄: on the way
    new.cameras[1, 9:12] -= 0.4  # behind x̄, though ahead of x: it went too far
    found.advance(x, new)
    assert found.camera_s[1] == 1.0
    assert (np.delete(found.camera_s, 1) > 10.0).all()


@pytest.mark.parametrize("parameter", [0, 9, 12])
def test_turning_moving_and_zooming_back_all_count(parameter: int) -> None:
    x, last = SHARD.state(), SHARD.state()
    last.cameras[:, parameter] -= 0.01
    found = Nesterov(SHARD, x, np.inf, reset=True)
    found.last, found.camera_s[:] = last, 10.0
    found.x_bar.cameras[:] = x.cameras
    found.x_bar.cameras[:, parameter] += 0.02
    new = x.copy()
    new.cameras[:, parameter] += 0.01
    found.advance(x, new)
    assert (found.camera_s == 1.0).all()


def test_the_first_extrapolation_goes_nowhere() -> None:
    x, last = SHARD.state(), state_of(SHARD, scattered(SHARD.problem, 1, 0.5))
    x_bar = nesterov(x, last, s=1.0).extrapolate(x)
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
    x_bar = nesterov(x, last, s).extrapolate(x)
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
    x_bar = nesterov(x, last, s).extrapolate(x)
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
    x_bar = nesterov(x, last, s, clip).extrapolate(x)
    move = momentum(s) * (x.points - last.points)
    for place, j in enumerate(SHARD.point_order):
        middle = problem.centers[problem.camera_index[problem.point_index == j]].mean(axis=0)
        bound = clip * np.linalg.norm(x.points[place] - middle)
        found = x_bar.points[place] - x.points[place]
        length = np.linalg.norm(move[place])
        assert np.linalg.norm(found) <= bound * (1 + 1e-9) + 1e-14
        expected = move[place] * (min(1.0, bound / length) if length > 0 else 1.0)
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
    shard = shard_of(problem, 2)
    x = shard.state()
    x_bar = Nesterov(shard, x, 0.01, reset=False).extrapolate(x)
    assert np.isfinite(x_bar.points).all()


def test_the_restart_level_follows_the_objective() -> None:
    F = np.array([10.0, 4.0])
    metrics = RestartMetrics(F=F, F_bar=250.0 * F, E=F, eta=0.25, eta_growth=2.0)
    np.testing.assert_allclose(metrics.bound(np.array([9.0, 9.0]), np.array([8.0, 8.0])), F + 1.0)
    level = metrics.F_bar.copy()
    for eta in (0.25, 0.5, 1.0, 1.0):  # η grows, but not beyond 1
        F = 0.5 * F
        metrics.update(F + 1.0, F)
        level = (1 - eta) * level + eta * F
        np.testing.assert_allclose(metrics.F_bar, level, rtol=1e-14)
        np.testing.assert_array_equal(metrics.F, F)
        np.testing.assert_array_equal(metrics.E, F + 1.0)
