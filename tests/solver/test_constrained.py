"""Solving under constraints: steps against dense solves with explicit constraint matrices, what is
fixed to the bit, and what the method promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import daba
from daba.backends.cpu.equations import Surrogate
from daba.backends.operations import Base
from daba.core.options import Options
from daba.distributed.shard import make_shard
from daba.partition.partition import Partition, make_partition
from daba.problem.priors import Priors, Targets
from daba.problem.problem import Floats, Problem
from daba.solver.constraints.operations import SharingOperations
from daba.solver.make import cpu_solver
from helpers import (
    EAGER,
    TIGHT,
    check_iteration,
    dense_system,
    equations_of,
    in_problem_order,
    make_solver,
    now,
    operations_of,
    random_partition,
    random_problem,
    rng,
    scattered,
    similar,
    state_of,
    synthetic,
)

pytestmark = pytest.mark.usefixtures("compiled")


def shared_by(problem: Problem, groups: np.ndarray) -> Problem:
    """Cameras of a group get the d of its first."""
    first = np.unique(groups, return_index=True)[1]
    cameras = problem.cameras.copy()
    cameras[:, 12:] = cameras[first[np.unique(groups, return_inverse=True)[1]], 12:]
    return replace(problem, cameras=cameras, shared=groups.astype(np.int32)).validated()


def priors_for(problem: Problem, seed: int = 0, loss: daba.Loss | None = None) -> Priors:
    """Something is known of a few of everything, not all of it right."""
    random = rng(seed)
    C, P = problem.num_cameras, problem.num_points

    def about(values: Floats, count: int, size: float) -> Targets:
        index = random.permutation(len(values))[:count]
        A = random.normal(size=(count, 3, 3))
        covariance = size**2 * (A @ A.transpose(0, 2, 1) + 0.1 * np.eye(3))
        off = size * random.normal(size=(count, 3))
        return Targets.make(index, values[index] + off, covariance=covariance, loss=loss)

    return Priors(
        about(problem.centers, C // 2, 0.05),
        about(problem.intrinsics, C // 2, 0.02),
        about(problem.points, P // 3, 0.05),
    )


def constraint_matrix(problem: Problem, partition: Partition) -> Floats:
    """Π: what may move, one column each, in the problem's order."""
    asked = problem.constraints
    assert asked is not None
    C, P = problem.num_cameras, problem.num_points
    free_c = np.ones((C, 9), bool) if asked.free_cameras is None else asked.free_cameras
    free_l = np.ones(P, bool) if asked.free_points is None else asked.free_points
    group = np.arange(C) if asked.shared is None else asked.shared
    columns: dict[Any, Floats] = {}
    for i in range(C):
        members = np.flatnonzero(group == group[i])
        across = len(np.unique(partition.camera_device[members])) > 1
        for a in range(9):
            if not free_c[i, a] or (a >= 6 and across):
                continue
            key = ("d", int(group[i]), a) if a >= 6 else ("camera", i, a)
            columns.setdefault(key, np.zeros(9 * C + 3 * P))[9 * i + a] = 1.0
    for j in np.flatnonzero(free_l):
        for a in range(3):
            column = columns[("point", int(j), a)] = np.zeros(9 * C + 3 * P)
            column[9 * C + 3 * j + a] = 1.0
    return np.stack(list(columns.values()), axis=1)


def prior_system(problem: Problem, H: Floats, g: Floats) -> None:
    """Add ρ'Λ and ρ'Λr, one prior at a time."""
    p, C = problem.priors, problem.num_cameras
    if p is None:
        return
    for targets, values, at in (
        (p.positions, problem.centers, lambda i: 9 * i + 3),
        (p.intrinsics, problem.intrinsics, lambda i: 9 * i + 6),
        (p.points, problem.points, lambda j: 9 * C + 3 * j),
    ):
        for n, i in enumerate(targets.index):
            r = values[i] - targets.target[n]
            slope = targets.loss(r @ targets.information[n] @ r)[1]
            rows = slice(at(int(i)), at(int(i)) + 3)
            H[rows, rows] += slope * targets.information[n]
            g[rows] += slope * targets.information[n] @ r


def everything(problem: Problem, loss: daba.Loss | None = None) -> Problem:
    """Two groups and a camera of its own, a third of what is left fixed, and priors."""
    random = rng(5)
    C = problem.num_cameras
    groups = np.arange(C) % 2
    groups[-1] = 7
    free = random.random((C, 9)) < 0.7
    free[:, 6:] = [True, False, True]
    free[0] = False
    free[0, 6:] = [True, False, True]
    return replace(
        shared_by(problem, groups),
        free_cameras=free,
        free_points=random.random(problem.num_points) < 0.7,
        priors=priors_for(problem, loss=loss),
    ).validated()


CASES = {
    "fixed": lambda p: replace(everything(p), shared=None, priors=None),
    "shared": lambda p: shared_by(p, np.arange(p.num_cameras) % 2),
    "one group": lambda p: shared_by(p, np.zeros(p.num_cameras, int)),
    "priors": lambda p: replace(p, priors=priors_for(p)),
    "robust priors": lambda p: replace(p, priors=priors_for(p, loss=daba.Huber(0.5))),
    "everything": lambda p: everything(p, daba.Cauchy(1.0)),
}


@pytest.mark.parametrize("linear", ["direct", "pcg"])
@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_a_step_is_that_of_a_dense_solve(case: str, devices: int, linear: Any) -> None:
    """δ = −Π (ΠᵀH'Π)⁻¹ Πᵀg; what devices share has no column, as it waits for their joint step."""
    problem = CASES[case](random_problem(2, cameras=11, points=40))
    partition = random_partition(problem, devices)
    if devices > 1 and case != "everything":  # group 0 on one device, the other on two
        camera = np.arange(11) % 2 * (1 + (np.arange(11) > 5))
        partition = replace(partition, camera_device=camera.astype(np.int32))
    base = scattered(problem, 3, 0.01)
    if problem.shared is not None:
        base = replace(base, cameras=np.hstack([base.cameras[:, :12], problem.intrinsics]))
    options = Options(method="daba", devices=devices, linear_solver=linear, **TIGHT)
    shard = make_shard(problem, partition)
    surrogate = Surrogate(shard, options.loss, options.split, options.xi)
    surrogate.rebase(state_of(shard, base))
    equations, radius = equations_of(shard, options), np.geomspace(20.0, 200.0, devices)
    everyone = np.ones(devices, bool)
    equations.assemble(state_of(shard, problem), surrogate)
    equations.damp(radius, everyone)
    decrease, _ = equations.solve(everyone)
    found = in_problem_order(shard, equations.step_c, equations.step_l)

    dense = dense_system(problem, base, partition, options.loss, options.split, options.xi)
    H, g = dense.H, dense.g
    prior_system(problem, H, g)
    damped = H + np.diag(np.maximum(H.diagonal(), 1e-6) / radius[dense.device])
    Pi = constraint_matrix(problem, partition)
    A, b = Pi.T @ damped @ Pi, Pi.T @ g
    scale = np.sqrt(A.diagonal())
    y = -np.linalg.solve(A / scale[:, None] / scale, b / scale) / scale
    expected = Pi @ y
    unit = np.sqrt(damped.diagonal())
    assert np.linalg.norm(unit * (found - expected)) <= 1e-9 * np.linalg.norm(unit * expected)
    assert (found[(Pi == 0).all(axis=1)] == 0.0).all()
    model = np.bincount(dense.device, -expected * (g + 0.5 * H @ expected), devices)
    np.testing.assert_allclose(decrease, model, rtol=1e-8)


@pytest.mark.parametrize("loss", [daba.Trivial(), daba.Huber(0.5), daba.GemanMcClure(1.0)])
def test_gradients_of_priors_are_those_of_f(loss: daba.Loss) -> None:
    """By central differences of the objective."""
    problem = random_problem(1)
    problem = replace(problem, priors=priors_for(problem, loss=loss))
    solver = make_solver(problem, method="lm")
    operations_of(solver).assemble(Base.X)
    system = operations_of(solver).equations.system
    h = 1e-6
    for i, a in ((0, 9), (1, 10), (2, 11), (3, 12), (4, 12), (5, 12), (0, 13), (1, 14)):
        up, down = problem.cameras.copy(), problem.cameras.copy()
        up[i, a] += h
        down[i, a] -= h
        slope = (
            problem.with_estimate(up, problem.points).objective()
            - problem.with_estimate(down, problem.points).objective()
        ) / (2 * h)
        assert system.g_c[solver.shard.camera_order.tolist().index(i), a - 6] == pytest.approx(
            slope, rel=1e-5, abs=1e-3
        )
    assert problem.priors is not None
    for j in problem.priors.points.index[:3]:
        up, down = problem.points.copy(), problem.points.copy()
        up[j, 1] += h
        down[j, 1] -= h
        slope = (
            problem.with_estimate(problem.cameras, up).objective()
            - problem.with_estimate(problem.cameras, down).objective()
        ) / (2 * h)
        at = solver.shard.point_order.tolist().index(j)
        assert system.g_l[at, 1] == pytest.approx(slope, rel=1e-5, abs=1e-3)


METHODS: dict[str, dict[str, Any]] = {
    "lm, direct": {"method": "lm", "linear_solver": "direct"},
    "lm, pcg": {"method": "lm", "linear_solver": "pcg"},
    "daba sweep": {"method": "daba", "devices": 3, "refine": "sweep"},
    "daba points": {"method": "daba", "devices": 3, "refine": "points", "linear_solver": "pcg"},
    "daba none": {"method": "daba", "devices": 3, "refine": "none"},
    "duba": {"method": "duba", "devices": 3, "loss": daba.Huber(2.0)},
}


@pytest.mark.parametrize("method", METHODS)
def test_what_is_fixed_stays_to_the_bit(method: str) -> None:
    problem = everything(scattered(random_problem(4, cameras=12, points=80), 1, 0.01))
    solver = make_solver(problem, **METHODS[method])
    first = solver.objective
    for _ in range(6):
        solver.iterate()
        solver.check()
    assert solver.objective < 0.9 * first
    after, asked = now(solver), problem.constraints
    assert asked is not None
    assert asked.free_cameras is not None
    assert asked.free_points is not None
    free = asked.free_cameras
    assert np.array_equal(after.cameras[:, 9:][~free[:, 3:]], problem.cameras[:, 9:][~free[:, 3:]])
    still = ~free[:, :3].any(axis=1)
    assert still.any()
    assert np.array_equal(after.cameras[still, :9], problem.cameras[still, :9])
    assert np.array_equal(after.points[~asked.free_points], problem.points[~asked.free_points])
    for value, before in ((after.centers, problem.centers), (after.points, problem.points)):
        assert not np.array_equal(value, before)
    after.validated()  # what is shared is equal to the bit


@pytest.mark.parametrize("loss", [daba.Trivial(), daba.Huber(2.0)])
@pytest.mark.parametrize("refine", ["none", "points", "sweep"])
def test_daba_keeps_its_promises_with_shared_intrinsics(refine: Any, loss: daba.Loss) -> None:
    """Lemma 1 on several devices, with groups on one device and across devices, and priors."""
    problem = everything(scattered(random_problem(4, cameras=12, points=80), 1, 0.01))
    solver = make_solver(problem, method="daba", devices=4, refine=refine, loss=loss, **EAGER)
    assert isinstance(solver.operations, SharingOperations)
    first = problem.objective(loss)
    for _ in range(8):
        check_iteration(solver, first)
        now(solver).validated()
    assert now(solver).objective(loss) < 0.9 * first


@pytest.mark.parametrize("loss", [daba.Trivial(), daba.Huber(2.0), daba.GemanMcClure(4.0)])
@pytest.mark.parametrize("refine", ["none", "sweep"])
def test_duba_never_raises_f_with_shared_intrinsics(refine: Any, loss: daba.Loss) -> None:
    problem = shared_by(
        scattered(random_problem(6, cameras=12, points=80), 1, 0.02), np.arange(12) % 2
    )
    solver = make_solver(problem, method="duba", devices=4, refine=refine, loss=loss)
    last, d = solver.objective, problem.intrinsics[:2].copy()
    for _ in range(12):
        solver.iterate()
        F = now(solver).objective(loss)
        assert F <= last * (1 + 1e-13)
        last = F
    assert (now(solver).intrinsics[:2] != d).any(axis=1).all()


def test_the_joint_step_is_the_minimum_over_d() -> None:
    """With poses and points held: against least squares over all observations of the group."""
    problem = shared_by(random_problem(6, cameras=8, points=60), np.arange(8) % 2)
    problem = replace(problem, priors=priors_for(problem))
    partition = random_partition(problem, 3, seed=2)
    solver = cpu_solver(make_shard(problem, partition), Options(devices=3, method="duba"))
    assert isinstance(solver.operations, SharingOperations)
    x = solver.estimate.copy()
    change = solver.operations.shared_step.move(x)
    after = solver.shard.to_problem(x)
    assert change.sum() == pytest.approx(after.objective() - problem.objective(), rel=1e-9)
    for group in (0, 1):
        cameras = np.flatnonzero(np.asarray(problem.shared) == group)
        for a in range(3):
            for h in (-1e-5, 1e-5):
                records = after.cameras.copy()
                records[cameras, 12 + a] += h
                assert after.with_estimate(records, after.points).objective() > after.objective()


def shared_scene(zoom: float = 1.01) -> Problem:
    """A scene taken with one camera, whose focal length is not quite known."""
    scene = daba.generate(synthetic("orbit", 16, 200))
    truth, start = scene.truth, scene.start
    i, j = truth.camera_index, truth.point_index
    y = np.einsum("kxa,kx->ka", truth.rotations[i], truth.points[j] - truth.centers[i])
    pixels = 850.0 * y[:, :2] / y[:, 2:] + 0.5 * rng(0).normal(size=(len(i), 2))
    return Problem.from_arrays(
        start.rotations,
        start.centers,
        start.points,
        i,
        j,
        pixels,
        850.0,
        np.tile([zoom, 0.0, 0.0], (16, 1)),
        shared=np.zeros(16, np.int32),
    )


def test_devices_come_to_what_one_device_finds() -> None:
    """Even though their common focal length is 5 % wrong at the start, which no device could tell
    alone: to move d by itself would take a thousand iterations."""
    problem = shared_scene(zoom=1.05)
    alone = daba.solve(problem, method="lm", threads=1)
    both = daba.solve(problem, method="lm", linear_solver="pcg", threads=1)
    assert both.objective == pytest.approx(alone.objective, rel=1e-6)
    for devices in (3, 5):
        result = daba.solve(problem, devices=devices, iterations=80, check=True, threads=1)
        assert result.objective == pytest.approx(alone.objective, rel=1e-4)
        d = result.problem.intrinsics
        assert (d == d[0]).all()
    free = daba.solve(replace(problem, shared=None), method="lm", threads=1)
    assert free.objective < 0.99 * alone.objective


def test_positions_pull_a_wrong_gauge_to_the_truth() -> None:
    """The start is shifted and scaled as a whole; GNSS tells where it belongs, one fix of
    it wildly wrong: a robust loss does not listen to it."""
    scene = daba.generate(synthetic("orbit", 16, 200, noise=0.2))
    off = similar(scene.start, np.eye(3), np.array([0.5, -0.3, 0.2]), 1.05)
    centers, sigma = scene.truth.centers, 0.01
    fixes = centers + sigma * rng(2).normal(size=centers.shape)
    size = np.linalg.norm(np.ptp(centers, axis=0))

    def distance(fixes: Floats, loss: daba.Loss | None) -> float:
        priors = Priors(Targets.make(np.arange(16), fixes, sigma=sigma, loss=loss))
        problem = replace(off, priors=priors).validated()
        result = daba.solve(problem, method="lm", threads=1)
        assert result.history[-1].prior_objective == pytest.approx(
            result.problem.prior_objective(), rel=1e-9
        )
        away = np.linalg.norm(result.problem.centers - centers, axis=1)
        return float(np.median(away))

    assert np.median(np.linalg.norm(off.centers - centers, axis=1)) > 0.02 * size
    assert distance(fixes, None) < 2 * sigma
    wild = fixes.copy()
    wild[3] += 0.5 * size
    assert distance(wild, None) > 5 * sigma
    assert distance(wild, daba.GemanMcClure(3.0)) < 2 * sigma


def test_baselines_refuse_constraints() -> None:
    problem = everything(random_problem())
    for method in ("admm", "dr"):
        with pytest.raises(daba.DabaError, match=f"{method} knows no fixed"):
            daba.solve(problem, method=method, devices=2)


def test_a_partition_of_its_own_is_not_needed() -> None:
    """A group of one camera asks nothing."""
    problem = random_problem()
    alone = replace(problem, shared=np.arange(6, dtype=np.int32))
    shard = make_shard(alone, make_partition(alone, 2))
    assert shard.constraints is None
