"""ADMM and Douglas–Rachford: copies, what draws them together, and where both end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daba
from daba.backends.cpu.consensus import CpuConsensus, Drawn
from daba.backends.cpu.threads import set_threads
from daba.backends.operations import Block
from daba.core.errors import DabaError
from daba.core.losses import make_loss
from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard, State, make_shard
from daba.partition.partition import partition_from_arrays
from daba.problem import reference
from daba.problem.problem import Floats, Problem
from daba.solver.consensus.consensus import RENEWED, TETHER, Admm, Consensus, DouglasRachford
from daba.solver.consensus.copies import CameraPrior, PointPrior, Prior, make_copies, of
from daba.solver.make import make_solver
from helpers import (
    equations_of,
    in_problem_order,
    random_partition,
    random_problem,
    retracted,
    rng,
    scattered,
    shard_of,
    similar,
    state_of,
    synthetic,
)

pytestmark = pytest.mark.usefixtures("compiled")

BLOCKS: list[Block] = ["cameras", "points"]
METHODS = ["admm", "dr"]
ORBIT = daba.generate(synthetic("orbit", cameras=12, points=150, seed=1)).start
CITY = daba.generate(synthetic("city", cameras=16, points=200, seed=2)).start


def consensus(problem: Problem, **options: Any) -> Consensus:
    set_threads(1)
    chosen = Options(**{"method": "daba", "devices": 4, **options})
    partition = daba.make_partition(problem, chosen.devices)
    solver = make_solver(make_shard(problem, partition), chosen, Communicator())
    assert isinstance(solver, Consensus)
    return solver


# Copies


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("seed", range(4))
def test_every_device_has_one_copy_of_what_it_sees(block: Block, seed: int) -> None:
    problem = random_problem(seed, cameras=8, points=30)
    partition = random_partition(problem, 3, seed)
    shard = make_shard(problem, partition)
    comm = Communicator()
    x = shard.state()
    copies = make_copies(shard, x, block, comm, comm.exchange(shard))
    copied, order = copies.shard, of_order(shard, block)
    if block == "cameras":
        device, seen = partition.point_device[problem.point_index], problem.camera_index
    else:
        device, seen = partition.camera_device[problem.camera_index], problem.point_index
    ptr = copied.devices.camera_ptr if block == "cameras" else copied.devices.point_ptr
    expected = [np.unique(seen[device == a]) for a in range(3)]
    found = [np.sort(order[copies.source[ptr[a] : ptr[a + 1]]]) for a in range(3)]
    for e, f in zip(expected, found, strict=True):
        np.testing.assert_array_equal(f, e)
    many = np.bincount(np.concatenate(expected), minlength=len(order))
    np.testing.assert_array_equal(copies.siblings, many[order])
    np.testing.assert_array_equal(copies.shared, many[order[copies.source]] > 1)
    # the same observations, all intra, and so the same F
    assert len(copied.inter.camera) == 0
    rows = np.stack([shard.camera_order[copied.camera_order[copied.intra.camera]],
                     shard.point_order[copied.point_order[copied.intra.point]]])  # fmt: skip
    mine = np.lexsort([*rows, *copied.intra.u.T])
    theirs = np.lexsort([problem.camera_index, problem.point_index, *problem.u.T])
    np.testing.assert_array_equal(rows[0][mine], problem.camera_index[theirs])
    np.testing.assert_array_equal(rows[1][mine], problem.point_index[theirs])
    np.testing.assert_array_equal(copied.intra.weight[mine], problem.weights[theirs])
    F = equations_of(copied, Options(method="daba", devices=3)).objective(
        copies.state(x), np.ones(3, bool)
    )
    assert F[:, 0].sum() == pytest.approx(problem.objective(), rel=1e-12)


def of_order(shard: Shard, block: Block) -> np.ndarray:
    return shard.camera_order if block == "cameras" else shard.point_order


@pytest.mark.parametrize("block", BLOCKS)
def test_the_mean_is_over_copies(block: Block) -> None:
    problem = random_problem(5, cameras=7, points=25)
    shard = shard_of(problem, 4, 5)
    comm = Communicator()
    copies = make_copies(shard, shard.state(), block, comm, comm.exchange(shard))
    values = rng(0).normal(size=(len(copies.source), 3))
    found = copies.mean(values)
    for variable in range(copies.count):
        mine = values[copies.source == variable]
        np.testing.assert_allclose(found[variable], mine.mean(axis=0), rtol=1e-14)
    assert len(copies.source) > copies.count


# What draws copies to their targets


def make_prior(block: Block, seed: int) -> tuple[Shard, Drawn, Problem]:
    """A prior with arbitrary weights and targets; R̂ is no rotation."""
    random = rng(seed)
    problem = random_problem(seed, cameras=6, points=20)
    shard = shard_of(problem, 2, seed)
    drawn = Drawn(shard, block)
    if block == "cameras":
        K = random.random((6, 15)) + 0.1
        K[:, :9] = K[:, :1]
        target = shard.state().cameras + 0.3 * random.normal(size=(6, 15))
        drawn.prior = CameraPrior(K, target, 0.7)
        return shard, drawn, problem
    A = random.normal(size=(20, 3, 3))
    K = (A @ A.transpose(0, 2, 1))[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    target = shard.state().points + 0.3 * random.normal(size=(20, 3))
    drawn.prior = PointPrior(K, target, 0.7)
    return shard, drawn, problem


@pytest.mark.parametrize("block", BLOCKS)
def test_gradient_of_the_prior_against_finite_differences(block: Block) -> None:
    shard, prior, problem = make_prior(block, 3)
    x = state_of(shard, scattered(problem, 4, 0.1))
    lm = equations_of(shard, Options(method="daba", devices=2))
    for array in lm.system:
        array[:] = 0.0
    prior.add_to(lm.system, x)
    every = np.ones(2, bool)
    h, random = 1e-6, rng(1)
    for _ in range(20):
        step_c, step_l = random.normal(size=(6, 9)), random.normal(size=(20, 3))
        ahead, behind = (
            prior.value(retracted(*x, s * h * step_c, s * h * step_l), every).sum() for s in (1, -1)
        )
        slope = (lm.system.g_c * step_c).sum() + (lm.system.g_l * step_l).sum()
        assert (ahead - behind) / (2 * h) == pytest.approx(slope, rel=1e-6, abs=1e-6)
    U = lm.system.U
    np.testing.assert_array_equal(U, U.transpose(0, 2, 1))


@pytest.mark.parametrize("block", BLOCKS)
def test_at_its_target_the_curvature_of_the_prior_is_exact(block: Block) -> None:
    shard, prior, problem = make_prior(block, 6)
    x = state_of(shard, problem)
    prior.prior.target = of(x, block).copy()
    lm = equations_of(shard, Options(method="daba", devices=2))
    for array in lm.system:
        array[:] = 0.0
    prior.add_to(lm.system, x)
    random, h, every = rng(2), 1e-4, np.ones(2, bool)
    step_c, step_l = random.normal(size=(6, 9)), random.normal(size=(20, 3))
    value = prior.value(retracted(*x, h * step_c, h * step_l), every).sum()
    V = lm.system.V[:, [0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(-1, 3, 3)
    curved = np.einsum("ia,iab,ib", step_c, lm.system.U, step_c)
    curved += np.einsum("ia,iab,ib", step_l, V, step_l)
    assert value == pytest.approx(0.5 * h * h * curved, rel=1e-6)


@pytest.mark.parametrize("linear", ["direct", "pcg"])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_step_with_the_prior_equals_a_dense_solve(block: Block, linear: Any) -> None:
    shard, prior, problem = make_prior(block, 8)
    partition = random_partition(problem, 2, 8)
    crosses = (
        partition.camera_device[problem.camera_index] != partition.point_device[problem.point_index]
    )
    options = Options(
        devices=2, linear_solver=linear, pcg_forcing=0.0, pcg_residual=1e-14, pcg_iterations=5000
    )
    x = scattered(problem, 9, 0.02)
    lm, every = equations_of(shard, options), np.ones(2, bool)
    lm.assemble(state_of(shard, x), prior)
    lm.damp(np.full(2, 50.0), every)
    lm.solve(every)
    found = in_problem_order(shard, lm.step_c, lm.step_l)
    H, g = _dense(x, ~crosses, shard, prior.prior)
    H += np.diag(np.maximum(H.diagonal(), 1e-6) / 50.0)
    scale = np.sqrt(H.diagonal())
    expected = -np.linalg.solve(H / scale[:, None] / scale, g / scale) / scale
    error = np.linalg.norm(scale * (found - expected)) / np.linalg.norm(scale * expected)
    assert error < 1e-9


def _dense(x: Problem, intra: np.ndarray, shard: Shard, prior: Prior) -> tuple[Floats, Floats]:
    """Gauss–Newton matrix and gradient of the intra observations and the prior."""
    C, P = x.num_cameras, x.num_points
    H, g = np.zeros((9 * C + 3 * P,) * 2), np.zeros(9 * C + 3 * P)
    r, J_c, J_l = reference.jacobian(x, daba.Trivial())
    for k in np.flatnonzero(intra):
        i, j = 9 * x.camera_index[k], 9 * C + 3 * x.point_index[k]
        rows, J = np.r_[i : i + 9, j : j + 3], np.hstack([J_c[k], J_l[k]])
        H[np.ix_(rows, rows)] += J.T @ J
        g[rows] += J.T @ r[k]
    state, kappa = state_of(shard, x), prior.penalty
    if isinstance(prior, CameraPrior):
        for n, i in enumerate(shard.camera_order):
            at, K, off = 9 * i, kappa * prior.K[n], state.cameras[n] - prior.target[n]
            R = state.cameras[n, :9].reshape(3, 3)
            for a, axis in enumerate(np.eye(3)):
                turn = np.cross(axis, R.T).T.ravel()
                g[at + a] += K[0] * turn @ off[:9]
                H[at + a, at + a] += K[0] * turn @ turn
            g[at + 3 : at + 9] += K[9:] * off[9:]
            H[at + 3 : at + 9, at + 3 : at + 9] += np.diag(K[9:])
    else:
        for n, j in enumerate(shard.point_order):
            rows = slice(9 * C + 3 * j, 9 * C + 3 * j + 3)
            K = kappa * prior.K[n][[0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(3, 3)
            g[rows] += K @ (state.points[n] - prior.target[n])
            H[rows, rows] += K
    return H, g


# Rounds


def balance(solver: Consensus) -> None:
    """Give each copy what makes it stay where it is: κK(x − target) = −∇F^α."""
    ops, shared = solver.operations, solver.copies.shared
    assert isinstance(ops, CpuConsensus)
    ops.equations.linearize(solver.y)
    system = ops.equations.system
    K = ops.drawn.prior.penalty * solver.K[shared]
    if isinstance(solver, Admm):  # target z − u, and of rotations u = ŵR
        R, g = solver.y.cameras[shared, :9].reshape(-1, 3, 3), system.g_c[shared]
        w = -g[:, :3] / (2 * K[:, :1])
        solver.memory[shared, :9] = np.cross(w[:, :, None], R, axis=1).reshape(-1, 9)
        solver.memory[shared, 9:] = -g[:, 3:] / K[:, 9:]
    else:
        solver.memory[shared] += system.g_l[shared] / K[:, :1]


@pytest.mark.parametrize("method", METHODS)
def test_the_optimum_is_a_fixed_point(method: str) -> None:
    tight: dict[str, Any] = {"linear_solver": "direct", "function_tolerance": 0.0}
    best = daba.solve(ORBIT, method="lm", iterations=100, threads=1, **tight).solution
    assert best is not None
    solver = consensus(best, method=method, metric="scalar")
    balance(solver)
    assert solver.copies.shared.sum() > 10
    for _ in range(5):
        solver.iterate()
    assert solver.objective == pytest.approx(best.objective(), rel=1e-7)
    np.testing.assert_allclose(solver.local, solver.z, atol=1e-4)
    cold = consensus(best, method=method, metric="scalar")  # without, devices part at first
    cold.iterate()
    assert cold.objective > best.objective() * 1.001


@pytest.mark.parametrize("method", METHODS)
def test_where_F_is_zero_nothing_moves(method: str) -> None:
    exact = daba.generate(synthetic("orbit", cameras=12, points=150, seed=1, noise=0.0)).truth
    assert exact.objective() < 1e-20
    solver = consensus(exact, method=method)
    for _ in range(3):
        solver.iterate()
    assert solver.objective < 1e-15
    np.testing.assert_allclose(solver.local, solver.z, atol=1e-9)


@pytest.mark.parametrize(("method", "metric"), [("admm", "matrix"), ("dr", "matrix"),
                                                ("dr", "scalar")])  # fmt: skip
@pytest.mark.parametrize("loss", ["trivial", "huber"])
def test_copies_agree_in_the_end_and_F_is_near_that_of_lm(
    method: str, metric: str, loss: str
) -> None:
    chosen = make_loss(loss, 32.0)
    best = daba.solve(CITY, method="lm", iterations=50, loss=chosen, threads=1).history[-1]
    solver = consensus(CITY, method=method, metric=metric, loss=chosen)
    solver.iterate()
    apart = np.abs(solver.local - solver.z).max()
    for _ in range(150):
        solver.iterate()
    assert np.abs(solver.local - solver.z).max() < 0.05 * apart
    assert solver.objective < 1.01 * best.objective


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", [1, 2])
def test_F_is_that_of_what_is_returned(method: str, seed: int) -> None:
    """However the devices are dealt out: here at random, so that everything is shared."""
    problem = random_problem(seed, cameras=9, points=50)
    loss = make_loss("huber", 5.0)
    partition = random_partition(problem, 3, seed)
    result = daba.solve(
        problem, partition=partition, method=method, iterations=5, loss=loss, threads=1
    )
    assert result.solution is not None
    F = result.solution.objective(loss)
    assert result.history[-1].objective == pytest.approx(F, rel=1e-12)
    assert problem.objective(loss) > F
    R = result.solution.rotations
    np.testing.assert_allclose(R @ R.transpose(0, 2, 1), np.tile(np.eye(3), (9, 1, 1)), atol=1e-14)


def test_admm_duals_cancel() -> None:
    """Σ u^α = 0 over the copies of t and d, which the mean is free to choose."""
    solver = consensus(CITY, method="admm")
    for _ in range(3):
        solver.iterate()
    total = solver.copies.mean(solver.memory)[:, 9:]
    assert np.abs(total).max() < 1e-12 * np.abs(solver.memory).max()
    assert isinstance(solver, Admm)


def test_admm_renews_its_metric_and_keeps_its_multipliers() -> None:
    """K is the mean over copies of what each device sees, in plain arithmetic."""
    solver = consensus(CITY, method="admm")
    assert isinstance(solver, Admm)
    first = solver.K.copy()
    for _ in range(RENEWED - 1):
        solver.iterate()
        np.testing.assert_array_equal(solver.K, first)
    solver.minimize(solver.z - solver.memory)
    force = solver.K * solver.memory
    solver.renew()
    shared, source = solver.copies.shared, solver.copies.source
    np.testing.assert_allclose(solver.K * solver.memory, force, rtol=1e-12)
    U = np.zeros((len(source), 9))
    seen_by = solver.copies.shard.intra
    copied = replace(
        CITY, cameras=solver.y.cameras, points=solver.y.points, focal=np.ones(len(source)),
        camera_index=seen_by.camera, point_index=seen_by.point, u=seen_by.u,
        weights=seen_by.weight,
    )  # fmt: skip
    _, J, _ = reference.jacobian(copied, daba.Trivial())
    np.add.at(U, seen_by.camera, (J**2).sum(axis=1))
    seen = np.column_stack([U[:, :3].mean(axis=1) / 2, U[:, 3:6].mean(axis=1), U[:, 6:]])
    for i in np.flatnonzero(shared):
        mean = seen[source == source[i]].mean(axis=0)
        np.testing.assert_allclose(solver.K[i, [0, 9, 12, 13, 14]], mean, rtol=1e-9)
    assert (np.abs(solver.K - first)[shared] > 0.01 * first[shared]).any()
    assert (solver.K[~shared] == 0).all()
    assert (solver.memory[~shared] == 0).all()


def test_douglas_rachford_without_relaxation_keeps_the_mean() -> None:
    """z ← mean(2x − s), s ← s + z − x: then mean s = mean x."""
    solver = consensus(CITY, method="dr", metric="scalar", relaxation=1.0)
    assert isinstance(solver, DouglasRachford)
    for _ in range(3):
        solver.iterate()
        shared = solver.copies.siblings > 1
        s, x = (solver.copies.mean(v)[shared] for v in (solver.memory, solver.local))
        np.testing.assert_allclose(s, x, atol=1e-12 * np.abs(x).max())


def test_targets_stay_near_their_mean() -> None:
    solver = consensus(CITY, method="dr", penalty=1e-4)
    for _ in range(5):
        solver.iterate()
    shard = solver.copies.shard
    t = solver.y.cameras[shard.intra.camera, 9:12]
    away = np.linalg.norm(t - solver.y.points[shard.intra.point], axis=1)
    nearest = np.full(shard.num_points, np.inf)
    np.minimum.at(nearest, shard.intra.point, away)
    off = np.linalg.norm(solver.memory - solver.z, axis=1)
    assert (off <= TETHER["matrix"] * nearest * (1 + 1e-12)).all()


@pytest.mark.parametrize("method", METHODS)
def test_iteration_0_is_the_start(method: str) -> None:
    """Nothing has moved yet: all methods are compared from the same F."""
    result = daba.solve(ORBIT, method=method, devices=4, iterations=1, threads=1)
    assert result.history[0].objective == pytest.approx(ORBIT.objective(), rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_observations_as_dealt_are_let_go(method: str) -> None:
    solver = consensus(CITY, method=method)
    assert len(solver.shard.intra.camera) == len(solver.shard.inter.camera) == 0
    assert len(solver.copies.shard.intra.camera) == CITY.num_observations


@pytest.mark.parametrize("method", METHODS)
def test_one_device_is_lm(method: str) -> None:
    common: dict[str, Any] = {"devices": 1, "iterations": 4, "threads": 1}
    a = daba.solve(ORBIT, method=method, **common)
    b = daba.solve(ORBIT, method="lm", **common)
    assert [i.objective for i in a.history] == [i.objective for i in b.history]


@pytest.mark.parametrize("method", METHODS)
def test_units_and_frame_do_not_matter(method: str) -> None:
    """Penalties have no units: ten times the size, the same rounds."""
    a = consensus(CITY, method=method, linear_solver="direct", metric="scalar")
    b = consensus(
        similar(CITY, np.eye(3), np.array([1.0, 2.0, 3.0]), 10.0),
        method=method, linear_solver="direct", metric="scalar",
    )  # fmt: skip
    for _ in range(3):
        a.iterate()
        b.iterate()
        assert a.objective == pytest.approx(b.objective, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_devices_without_points_and_variables_that_nobody_sees(method: str) -> None:
    problem = random_problem(3, cameras=6, points=30)
    seen = (problem.camera_index != 5) & (problem.point_index != 7)
    problem = replace(
        problem,
        camera_index=problem.camera_index[seen],
        point_index=problem.point_index[seen],
        u=problem.u[seen],
        weights=problem.weights[seen],
    )
    partition = partition_from_arrays(
        problem, np.array([0, 0, 1, 1, 2, 3]), np.arange(30, dtype=int) % 2
    )
    result = daba.solve(problem, partition=partition, method=method, iterations=4, threads=1)
    assert result.solution is not None
    np.testing.assert_array_equal(result.solution.cameras[5], problem.cameras[5])
    np.testing.assert_array_equal(result.solution.points[7], problem.points[7])
    assert result.history[-1].objective < problem.objective()


@pytest.mark.parametrize("method", METHODS)
def test_a_solve_goes_on_from_its_checkpoint(method: str, tmp_path: Path) -> None:
    common: dict[str, Any] = {
        "method": method, "devices": 3, "threads": 1, "function_tolerance": 0.0,
    }  # fmt: skip
    stop, end = RENEWED + 2, 2 * RENEWED + 2  # the metric of ADMM is saved, and when it is next due
    whole = daba.solve(CITY, **common, iterations=end)
    daba.solve(CITY, **common, iterations=stop, checkpoints=daba.Checkpoints(tmp_path / "saved"))
    rest = daba.solve(
        CITY, **common, iterations=end, checkpoints=daba.Checkpoints(resume=tmp_path / "saved")
    )
    assert [i.objective for i in whole.history] == [i.objective for i in rest.history]
    assert whole.solution is not None
    assert rest.solution is not None
    np.testing.assert_array_equal(whole.solution.cameras, rest.solution.cameras)
    np.testing.assert_array_equal(whole.solution.points, rest.solution.points)


@pytest.mark.parametrize("method", METHODS)
def test_the_gradient_is_that_of_F(method: str) -> None:
    solver = consensus(CITY, method=method, devices=3)
    solver.iterate()
    now = solver.shard.to_problem(solver.estimate)
    largest = max(np.abs(g).max() for g in reference.gradient(now, daba.Trivial()))
    assert solver.gradient_norm() == pytest.approx(largest, rel=1e-9)
    solver.check()


@pytest.mark.parametrize(
    "wrong", [{"penalty": 0.0}, {"relaxation": 2.0}, {"inner_steps": 0}, {"metric": "round"}]
)
def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(DabaError, match=next(iter(wrong))):
        Options(**wrong)


def test_state_is_cameras_or_points() -> None:
    x = State(np.zeros((1, 15)), np.ones((2, 3)))
    assert of(x, "cameras") is x.cameras
    assert of(x, "points") is x.points
