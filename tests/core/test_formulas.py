"""Errors and derivatives against the paper's equations, finite differences and exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daba.core import formulas
from daba.core.losses import make_loss
from daba.problem import reference
from daba.problem.problem import Floats, Problem
from helpers import (
    ALL_LOSSES,
    paper_penalties,
    random_problem,
    random_rotations,
    rays,
    retracted,
    rng,
    scattered,
)

seeds = st.integers(0, 10**6)


def problem_at(seed: int) -> Problem:
    return scattered(random_problem(seed, cameras=4, points=8), seed + 1, 0.3)


@given(seeds)
def test_error_is_the_papers_in_the_camera_frame(seed: int) -> None:
    problem = problem_at(seed)
    c, l, ux, uy, _ = reference.gather(problem)
    e = np.array(formulas.error(c, l, ux, uy)[:3]).T
    expected = rays(problem)
    in_camera = np.einsum("kxa,kx->ka", expected.R, e)
    size = np.linalg.norm(expected.p, axis=1, keepdims=True)
    np.testing.assert_allclose((in_camera / size).astype(float), expected.e / size, atol=1e-14)
    np.testing.assert_allclose(
        np.linalg.norm(e, axis=1),
        np.linalg.norm(expected.e, axis=1).astype(float),
        rtol=1e-9,
        atol=1e-14,
    )


@pytest.mark.parametrize("name", ALL_LOSSES)
def test_objective_is_the_sum_of_the_papers_penalties(name: str) -> None:
    problem, loss = problem_at(3), make_loss(name, 20.0)
    expected = float(paper_penalties(problem, loss).sum())
    assert problem.objective(loss) == pytest.approx(expected, rel=1e-12)


@given(seeds)
def test_basis_is_orthonormal_and_normal_to_the_offset(seed: int) -> None:
    random = rng(seed)
    delta = random.normal(size=3) * 10.0 ** random.integers(-6, 6)
    check_basis(delta)


@pytest.mark.parametrize(
    "direction",
    [(0, 0, 1), (0, 0, -1), (1, 0, 0.0), (1, 0, -0.0), (0, 1, 0), (1e-12, 0, -1), (0, 1, -1e-300)],
)
def test_basis_has_no_bad_direction(direction: tuple[float, float, float]) -> None:
    check_basis(np.array(direction, dtype=float))


def check_basis(delta: Floats) -> None:
    a, b = np.array(formulas.normal_basis(*delta)).reshape(2, 3)
    unit = delta / np.linalg.norm(delta)
    frame = np.array([a, b, unit])
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-15)


@given(seeds)
def test_jacobian_rows_are_the_derivatives_of_the_in_plane_residual(seed: int) -> None:
    problem = problem_at(seed)
    loss = make_loss("trivial")
    r, J_c, J_l = reference.jacobian(problem, loss)
    c, l, ux, uy, weight = reference.gather(problem)
    delta = formulas.error(c, l, ux, uy)[4:7]
    basis = np.array(formulas.normal_basis(*delta)).reshape(2, 3, -1)  # held at the base

    def residual(step_c: Floats, step_l: Floats) -> Floats:
        x = retracted(problem.cameras, problem.points, step_c, step_l)
        at = rays(problem.with_estimate(*x))
        e = np.einsum("kxa,ka->kx", at.R, at.e)
        return np.asarray(np.einsum("bxk,kx->kb", basis, e) * weight[:, None], dtype=float)

    zero_c, zero_l = np.zeros((problem.num_cameras, 9)), np.zeros((problem.num_points, 3))
    np.testing.assert_allclose(r, residual(zero_c, zero_l), atol=1e-10)
    h = 1e-6
    for a in range(9):
        step = zero_c.copy()
        step[:, a] = h
        numeric = (residual(step, zero_l) - residual(-step, zero_l)) / (2 * h)
        np.testing.assert_allclose(J_c[:, :, a], numeric, rtol=1e-6, atol=1e-6 * abs(J_c).max())
    for a in range(3):
        step = zero_l.copy()
        step[:, a] = h
        numeric = (residual(zero_c, step) - residual(zero_c, -step)) / (2 * h)
        np.testing.assert_allclose(J_l[:, :, a], numeric, rtol=1e-6, atol=1e-6 * abs(J_l).max())


@pytest.mark.parametrize("name", ALL_LOSSES)
def test_gradient_of_the_objective_is_its_central_difference(name: str) -> None:
    problem, loss = problem_at(5), make_loss(name, 50.0)
    g_c, g_l = reference.gradient(problem, loss)

    def objective(step_c: Floats, step_l: Floats) -> float:
        x = retracted(problem.cameras, problem.points, step_c, step_l)
        return float(paper_penalties(problem.with_estimate(*x), loss).sum())

    h = 1e-6
    zero_c, zero_l = np.zeros_like(g_c), np.zeros_like(g_l)
    for i in np.ndindex(g_c.shape):
        step = zero_c.copy()
        step[i] = h
        numeric = (objective(step, zero_l) - objective(-step, zero_l)) / (2 * h)
        assert numeric == pytest.approx(g_c[i], rel=1e-6, abs=1e-7 * abs(g_c).max())
    for i in np.ndindex(g_l.shape):
        step = zero_l.copy()
        step[i] = h
        numeric = (objective(zero_c, step) - objective(zero_c, -step)) / (2 * h)
        assert numeric == pytest.approx(g_l[i], rel=1e-6, abs=1e-7 * abs(g_l).max())


def test_retraction_turns_by_the_exponential_from_the_left() -> None:
    random = rng(2)
    problem = random_problem(2)
    step_c = random.normal(size=(problem.num_cameras, 9))
    step_l = random.normal(size=problem.points.shape)
    cameras, points = reference.retract(problem.cameras, problem.points, step_c, step_l)
    expected = retracted(problem.cameras, problem.points, step_c, step_l)
    np.testing.assert_allclose(cameras, expected.cameras, atol=1e-14)
    np.testing.assert_array_equal(points, expected.points)


def exact_inverse(V: Floats) -> list[list[Fraction]]:
    """Inverse by cofactors in exact arithmetic."""
    m = [[Fraction(float(x)) for x in row] for row in V]
    cofactor = [
        [
            m[(i + 1) % 3][(j + 1) % 3] * m[(i + 2) % 3][(j + 2) % 3]
            - m[(i + 1) % 3][(j + 2) % 3] * m[(i + 2) % 3][(j + 1) % 3]
            for j in range(3)
        ]
        for i in range(3)
    ]
    determinant = sum(m[0][j] * cofactor[0][j] for j in range(3))
    return [[cofactor[j][i] / determinant for j in range(3)] for i in range(3)]


@given(seeds, st.floats(0.0, 12.0), st.floats(-8.0, 8.0), st.floats(-8.0, 8.0))
def test_inverse_of_ill_conditioned_point_blocks(
    seed: int, flat: float, second: float, third: float
) -> None:
    """Errors grow with the conditioning that scaling the axes cannot remove, and no faster."""
    random = rng(seed)
    Q = random_rotations(random, 1)[0]
    axes = np.array([1.0, 10.0**second, 10.0**third])
    V = (Q * [1.0, random.uniform(0.1, 1), 10.0**-flat]) @ Q.T
    V = axes[:, None] * (V + V.T) * axes
    expected = exact_inverse(V)
    i, j = np.triu_indices(3)
    found = formulas.inverse_symmetric3(*V[i, j])
    scale = np.sqrt([float(expected[a][a]) for a in range(3)])
    for a, b, x in zip(i, j, found, strict=True):
        off = abs(float(Fraction(float(x)) - expected[a][b])) / (scale[a] * scale[b])
        assert off < 20 * 2.3e-16 * 10.0**flat * 10
    if flat < 6:
        whole = np.empty((3, 3))
        whole[i, j] = whole[j, i] = found
        unit = scale[:, None] * scale
        np.testing.assert_allclose(whole / unit, np.linalg.inv(V) / unit, atol=1e-7)
