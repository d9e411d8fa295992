"""Prop. 1 and Prop. 2: the surrogate lies above F and touches it at its base, and the moments
from which it is built are the sums over observations that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daba.backends.cpu.equations import Equations, Surrogate
from daba.core.losses import make_loss
from daba.core.options import Options
from daba.core.types import System
from daba.distributed.shard import Shard, make_shard
from daba.problem import reference
from daba.problem.problem import Floats
from helpers import (
    ALL_LOSSES,
    dense_surrogate,
    equations_of,
    in_problem_order,
    paper_majorizers,
    paper_penalties,
    paper_surrogate,
    random_partition,
    random_problem,
    retracted,
    rng,
    scattered,
    state_of,
)

pytestmark = pytest.mark.usefixtures("compiled")

seeds = st.integers(0, 10**6)
names = st.sampled_from(ALL_LOSSES)
splits = st.floats(0.02, 0.98)
radii = st.floats(0.1, 1e3)
distances = st.sampled_from([1e-8, 1e-4, 1e-2, 0.3, 3.0])
DEVICES = 3


@given(seeds, names, radii, splits, distances)
@settings(max_examples=200)
def test_each_penalty_lies_below_its_majorizers(
    seed: int, name: str, radius: float, theta: float, far: float
) -> None:
    base = scattered(random_problem(seed, cameras=3, points=6), seed + 1, 0.2)
    x = scattered(base, seed + 2, far)
    loss = make_loss(name, radius)
    m = paper_majorizers(x, base, loss, theta)
    F = paper_penalties(x, loss)
    assert (F <= (m.P + m.Q) * (1 + 1e-12) + 1e-12).all()
    P, Q = reference.surrogate(x, base, loss, theta, np.ones(len(F), bool))
    np.testing.assert_allclose(P, m.P.astype(float), rtol=1e-10, atol=1e-10 * float(F.max()))
    np.testing.assert_allclose(Q, m.Q.astype(float), rtol=1e-10, atol=1e-10 * float(F.max()))
    assert (F <= (P + Q) * (1 + 1e-10) + 1e-10).all()


@given(seeds, names, radii, splits)
def test_majorizers_touch_the_penalty_at_the_base_with_its_gradient(
    seed: int, name: str, radius: float, theta: float
) -> None:
    base = scattered(random_problem(seed, cameras=3, points=6), seed + 1, 0.2)
    loss = make_loss(name, radius)
    m = paper_majorizers(base, base, loss, theta)
    F = paper_penalties(base, loss)
    P, Q = reference.surrogate(base, base, loss, theta, np.ones(len(F), bool))
    np.testing.assert_allclose(P + Q, F.astype(float), rtol=1e-10, atol=1e-12)
    g_c, g_l = reference.gradient(base, loss)
    by_camera, by_point = np.zeros_like(g_c), np.zeros_like(g_l)
    np.add.at(
        by_camera, base.camera_index, np.einsum("kxp,kx->kp", m.J_c, m.residual_c).astype(float)
    )
    np.add.at(
        by_point, base.point_index, np.einsum("kxp,kx->kp", m.J_l, m.residual_l).astype(float)
    )
    np.testing.assert_allclose(by_camera, g_c, rtol=1e-9, atol=1e-11 * abs(g_c).max())
    np.testing.assert_allclose(by_point, g_l, rtol=1e-9, atol=1e-11 * abs(g_l).max())


def test_the_paper_is_the_even_split() -> None:
    """g, P and Q at θ = ½ are eqs. (P), (Q), (g) of the paper, whose weights ω are all 1."""
    base = random_problem(1)
    x, loss = scattered(base, 2, 0.1), make_loss("huber", 1.0)
    k = 7
    i, j, w2 = base.camera_index[k], base.point_index[k], base.weights[k] ** 2
    s = (base.u[k] ** 2).sum()
    p0 = np.append(base.u[k], base.intrinsics[i] @ [1, s, s**2])
    p = np.append(x.u[k], x.intrinsics[i] @ [1, s, s**2])
    delta = base.points[j] - base.centers[i]
    lam = delta @ base.rotations[i] @ p0 / (delta @ delta)
    e = base.rotations[i] @ p0 - lam * delta
    rho, w = loss(w2 * e @ e)
    a = 0.5 * rho - 0.5 * w * w2 * e @ e
    g = 0.5 * (base.rotations[i] @ p0 + lam * base.centers[i] + lam * base.points[j])
    P = w * w2 * np.sum((x.rotations[i] @ p + lam * x.centers[i] - g) ** 2) + a / 2
    Q = w * w2 * np.sum((lam * x.points[j] - g) ** 2) + a / 2
    found = reference.surrogate(x, base, loss, 0.5, np.arange(len(base.u)) == k)
    np.testing.assert_allclose(np.ravel(found), [P, Q], rtol=1e-10)


def built(
    seed: int, name: str, theta: float, xi: float, devices: int = DEVICES
) -> tuple[Shard, Equations, Surrogate]:
    problem = random_problem(seed, cameras=7, points=25)
    shard = make_shard(problem, random_partition(problem, devices, seed))
    options = Options(
        method="daba", devices=devices, loss=make_loss(name, 30.0), split=theta, xi=xi
    )
    return shard, equations_of(shard, options), Surrogate(shard, options.loss, theta, xi)


@given(seeds, names, splits, st.sampled_from([1e-9, 0.3, 100.0]), distances)
def test_moments_give_the_sum_over_observations_on_every_device(
    seed: int, name: str, theta: float, xi: float, far: float
) -> None:
    shard, equations, surrogate = built(seed, name, theta, xi)
    partition = random_partition(shard.problem, DEVICES, seed)
    base = scattered(shard.problem, seed + 1, 0.05)
    x = scattered(base, seed + 2, far)
    inter_F = surrogate.rebase(state_of(shard, base))
    everyone = np.ones(DEVICES, bool)
    intra, rest = paper_surrogate(x, base, partition, make_loss(name, 30.0), theta, xi)
    found = surrogate.value(state_of(shard, x), everyone)
    np.testing.assert_allclose(found, rest.astype(float), rtol=1e-10)
    found_intra = equations.objective(state_of(shard, x), everyone)[:, 0]
    np.testing.assert_allclose(found_intra, intra.astype(float), rtol=1e-10)
    # Prop. 2, with the moments: E = Σ E^α ≥ F, equal at the base
    loss = make_loss(name, 30.0)
    F, F_base = (float(paper_penalties(y, loss).sum()) for y in (x, base))
    assert (found + found_intra).sum() * (1 + 1e-12) >= F
    at_base = equations.objective(state_of(shard, base), everyone)[:, 0]
    at_base += surrogate.value(state_of(shard, base), everyone)
    assert at_base.sum() == pytest.approx(F_base, rel=1e-12)
    a, b = (
        partition.camera_device[base.camera_index],
        partition.point_device[base.point_index],
    )
    by_camera = np.zeros(DEVICES)
    np.add.at(by_camera, a[a != b], paper_penalties(base, loss)[a != b].astype(float))
    np.testing.assert_allclose(inter_F[:, 0], by_camera, rtol=1e-11)


def test_small_moves_keep_their_digits() -> None:
    """The moments are centred on the base: a move of 1e-9 changes E by what it should."""
    shard, _, surrogate = built(4, "welsch", 0.4, 1e-9)
    partition = random_partition(shard.problem, DEVICES, 4)
    base = shard.problem
    surrogate.rebase(state_of(shard, base))
    everyone = np.ones(DEVICES, bool)
    here = surrogate.value(state_of(shard, base), everyone)
    for far in (1e-9, 1e-6, 1e-3):
        x = scattered(base, 9, far)
        found = surrogate.value(state_of(shard, x), everyone) - here
        loss = make_loss("welsch", 30.0)
        expected = paper_surrogate(x, base, partition, loss, 0.4, 1e-9)[1]
        expected -= paper_surrogate(base, base, partition, loss, 0.4, 1e-9)[1]
        np.testing.assert_allclose(
            found, expected.astype(float), rtol=1e-9, atol=4e-16 * float(here.max())
        )


def test_inactive_devices_are_not_evaluated() -> None:
    shard, _, surrogate = built(5, "huber", 0.5, 1.0)
    surrogate.rebase(state_of(shard, shard.problem))
    x = state_of(shard, scattered(shard.problem, 1, 0.1))
    everyone = surrogate.value(x, np.ones(DEVICES, bool))
    some = surrogate.value(x, np.array([True, False, True]))
    np.testing.assert_array_equal(some, np.where([True, False, True], everyone, 0.0))


def empty_system(shard: Shard) -> System:
    C, P = len(shard.camera_order), len(shard.point_order)
    return System(
        J=np.zeros((len(shard.intra.camera), 20)),
        U=np.zeros((C, 9, 9)),
        V=np.zeros((P, 6)),
        g_c=np.zeros((C, 9)),
        g_l=np.zeros((P, 3)),
        step_bound=np.zeros(P),
    )


@given(seeds, names, splits, st.sampled_from([1e-9, 0.3, 100.0]), distances)
@settings(max_examples=25)
def test_gradient_and_gauss_newton_matrix_are_the_explicit_sums(
    seed: int, name: str, theta: float, xi: float, far: float
) -> None:
    shard, _, surrogate = built(seed, name, theta, xi)
    partition = random_partition(shard.problem, DEVICES, seed)
    base = scattered(shard.problem, seed + 1, 0.05)
    x = scattered(base, seed + 2, far)
    surrogate.rebase(state_of(shard, base))
    system = empty_system(shard)
    surrogate.add_to(system, state_of(shard, x))
    dense = dense_surrogate(x, base, partition, make_loss(name, 30.0), theta, xi)
    g = in_problem_order(shard, system.g_c, system.g_l)
    np.testing.assert_allclose(g, dense.g, rtol=1e-9, atol=1e-11 * abs(dense.g).max())
    C, P = shard.problem.num_cameras, shard.problem.num_points
    scale = np.sqrt(dense.H.diagonal())
    for at, i in enumerate(shard.camera_order):
        rows = slice(9 * i, 9 * i + 9)
        unit = scale[rows, None] * scale[rows]
        np.testing.assert_allclose(system.U[at] / unit, dense.H[rows, rows] / unit, atol=1e-11)
    upper = np.triu_indices(3)
    for at, j in enumerate(shard.point_order):
        rows = slice(9 * C + 3 * j, 9 * C + 3 * j + 3)
        np.testing.assert_allclose(
            system.V[at],
            dense.H[rows, rows][upper],
            rtol=1e-11,
            atol=1e-11 * scale[rows][0] ** 2,
        )
    assert len(g) == 9 * C + 3 * P


@pytest.mark.parametrize("name", ALL_LOSSES)
def test_gradient_is_the_finite_difference_of_the_value(name: str) -> None:
    theta, xi, seed = 0.3, 2.0, 6
    shard, _, surrogate = built(seed, name, theta, xi)
    partition = random_partition(shard.problem, DEVICES, seed)
    base = shard.problem
    x = scattered(base, 3, 0.05)
    surrogate.rebase(state_of(shard, base))
    system = empty_system(shard)
    surrogate.add_to(system, state_of(shard, x))
    g = in_problem_order(shard, system.g_c, system.g_l)
    random = rng(8)

    def value(step: Floats) -> float:
        C = base.num_cameras
        moved = retracted(
            x.cameras, x.points, step[: 9 * C].reshape(-1, 9), step[9 * C :].reshape(-1, 3)
        )
        problem = x.with_estimate(*moved)
        return float(
            paper_surrogate(problem, base, partition, make_loss(name, 30.0), theta, xi)[1].sum()
        )

    for _ in range(10):
        direction = random.normal(size=len(g)) * (random.random(len(g)) < 0.1)
        h = 1e-6
        numeric = (value(h * direction) - value(-h * direction)) / (2 * h)
        assert numeric == pytest.approx(g @ direction, rel=1e-7, abs=1e-8 * abs(g).max())
