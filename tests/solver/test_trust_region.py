"""One Levenberg–Marquardt step against a dense solve of the same damped system."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from daba.core.losses import make_loss
from daba.core.options import Options
from daba.distributed.shard import make_shard
from daba.partition.partition import partition_from_arrays
from daba.problem import reference
from daba.problem.problem import Problem
from daba.solver.algorithm import Algorithm1
from daba.solver.surrogate import Surrogate
from daba.solver.trust_region import Levenberg
from helpers import (
    ALL_LOSSES,
    dense_step,
    dense_system,
    in_problem_order,
    paper_surrogate,
    random_partition,
    random_problem,
    scattered,
    state_of,
)

pytestmark = pytest.mark.usefixtures("compiled")

TIGHT: dict[str, Any] = {"pcg_forcing": 0.0, "pcg_residual": 1e-14, "pcg_iterations": 5000}
LINEAR = ["direct", "pcg"]


def tight(**changes: Any) -> Options:
    return Options(**{**TIGHT, **changes})


def with_odd_observations(problem: Problem) -> Problem:
    """Every third observation of point 0 twice, with another measurement; point 1 seen once;
    point 2 and the last camera never."""
    k = np.arange(problem.num_observations)
    once = np.flatnonzero(problem.point_index == 1)[1:]
    never = (problem.point_index == 2) | (problem.camera_index == problem.num_cameras - 1)
    keep = k[~never & ~np.isin(k, once)]
    again = np.flatnonzero((problem.point_index == 0) & ~never)
    keep = np.concatenate([keep, again, again])
    u = problem.u[keep].copy()
    u[-len(again) :] += 0.003
    return replace(
        problem,
        camera_index=problem.camera_index[keep],
        point_index=problem.point_index[keep],
        u=u,
        weights=problem.weights[keep],
    )


@pytest.mark.parametrize("linear", LINEAR)
@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("name", ALL_LOSSES)
def test_step_and_predicted_decrease_equal_a_dense_solve(
    linear: str, devices: int, name: str
) -> None:
    problem = random_problem(11, cameras=10, points=60)
    partition = random_partition(problem, devices, 1)
    options = tight(
        devices=devices, linear_solver=linear, loss=make_loss(name, 20.0), split=0.35, xi=1e-3
    )
    step = dense_step(
        make_shard(problem, partition),
        partition,
        options,
        x=scattered(problem, 1, 0.01),
        base=scattered(problem, 2, 0.01),
        radius=np.geomspace(10.0, 1e3, devices),
    )
    step.check(tolerance=1e-10)
    np.testing.assert_allclose(step.decrease, step.expected_decrease, rtol=1e-10)


@pytest.mark.parametrize("linear", LINEAR)
@pytest.mark.parametrize("devices", [1, 4])
def test_duplicates_single_views_and_unseen_variables_do_not_disturb_a_step(
    linear: str, devices: int
) -> None:
    problem = with_odd_observations(random_problem(12, cameras=9, points=40))
    assert (np.bincount(problem.point_index, minlength=40)[[1, 2]] == [1, 0]).all()
    partition = random_partition(problem, devices, 3)
    options = tight(devices=devices, linear_solver=linear, xi=1e-6)
    step = dense_step(
        make_shard(problem, partition), partition, options, problem, problem,
        radius=np.geomspace(5.0, 100.0, devices),
    )  # fmt: skip
    step.check(tolerance=1e-10)
    np.testing.assert_allclose(step.decrease, step.expected_decrease, rtol=1e-10)
    unseen = np.r_[9 * 8 : 9 * 9, 9 * 9 + 6 : 9 * 9 + 9]
    np.testing.assert_allclose(step.found[unseen], 0.0, atol=1e-15)


@pytest.mark.parametrize("linear", LINEAR)
def test_damping_has_a_floor_where_there_is_no_curvature(linear: str) -> None:
    """The variables of tiny weights have a diagonal below 1e-6, where damping stops shrinking."""
    problem = random_problem(13, cameras=5, points=20)
    light = problem.camera_index == 0
    problem = replace(problem, weights=np.where(light, 1e-6, problem.weights))
    partition = partition_from_arrays(problem, np.zeros(5, int))
    options = tight(linear_solver=linear, xi=1e-12)
    dense = dense_system(problem, problem, partition, options.loss, 0.5, 1e-12)
    assert (dense.H.diagonal()[:9] < 1e-6).any()
    step = dense_step(
        make_shard(problem, partition), partition, options, problem, problem, np.array([1.0])
    )
    step.check(tolerance=1e-10)
    step.check(np.arange(9), tolerance=1e-8)


@pytest.mark.parametrize("linear", LINEAR)
def test_a_large_radius_still_gives_the_dense_step(linear: str) -> None:
    problem = random_problem(14, cameras=8, points=80)
    partition = random_partition(problem, 3, 2)
    options = tight(devices=3, linear_solver=linear)
    step = dense_step(
        make_shard(problem, partition), partition, options, problem, problem,
        radius=np.full(3, 1e8),
    )  # fmt: skip
    step.check(tolerance=1e-7)


def prepared(linear: str = "direct") -> tuple[Levenberg, Surrogate, Problem]:
    problem = random_problem(15, cameras=9, points=50, noise=0.02)
    partition = random_partition(problem, 3, 4)
    shard = make_shard(problem, partition)
    options = tight(devices=3, linear_solver=linear)
    surrogate = Surrogate(shard, options.loss, options.split, options.xi)
    surrogate.rebase(state_of(shard, problem))
    return Levenberg(shard, options), surrogate, problem


@pytest.mark.parametrize("linear", LINEAR)
def test_an_inactive_device_is_left_alone(linear: str) -> None:
    levenberg, surrogate, problem = prepared(linear)
    x = state_of(levenberg.shard, problem)
    active = np.array([True, False, True])
    levenberg.linearize(x, surrogate)
    everyone, _ = levenberg.propose(np.ones(3, bool))
    whole = in_problem_order(levenberg.shard, levenberg.step_c, levenberg.step_l)
    decrease, _ = levenberg.propose(active)
    some = in_problem_order(levenberg.shard, levenberg.step_c, levenberg.step_l)
    assert decrease[1] == -np.inf
    np.testing.assert_array_equal(decrease[active], everyone[active])
    partition = random_partition(problem, 3, 4)
    mine = np.concatenate(
        [np.repeat(partition.camera_device, 9), np.repeat(partition.point_device, 3)]
    )
    np.testing.assert_array_equal(some[mine != 1], whole[mine != 1])

    radius = levenberg.radius.copy()
    intra = levenberg.objective(x, np.ones(3, bool))
    step = levenberg.step(x, intra, surrogate, active)
    np.testing.assert_array_equal(step.moved, active)
    assert levenberg.radius[1] == radius[1]
    new = levenberg.shard.to_problem(step.x)
    still_c, still_l = partition.camera_device == 1, partition.point_device == 1
    np.testing.assert_array_equal(new.cameras[still_c], problem.cameras[still_c])
    np.testing.assert_array_equal(new.points[still_l], problem.points[still_l])
    assert (new.points[~still_l] != problem.points[~still_l]).all()


@pytest.mark.parametrize("linear", LINEAR)
def test_an_accepted_step_lowers_the_surrogate_of_every_device(linear: str) -> None:
    levenberg, surrogate, problem = prepared(linear)
    partition = random_partition(problem, 3, 4)
    x = state_of(levenberg.shard, problem)
    intra = levenberg.objective(x, np.ones(3, bool))
    step = levenberg.step(x, intra, surrogate, np.ones(3, bool))
    options = levenberg.options
    new = levenberg.shard.to_problem(step.x)
    fixed = (partition, options.loss, options.split, options.xi)
    before = np.add(*paper_surrogate(problem, problem, *fixed))
    new_intra, new_rest = paper_surrogate(new, problem, *fixed)
    assert step.moved.all()
    assert (new_intra + new_rest < before).all()
    np.testing.assert_allclose(step.intra[:, 0], new_intra.astype(float), rtol=1e-10)
    R = new.rotations
    np.testing.assert_allclose(R @ R.transpose(0, 2, 1), np.tile(np.eye(3), (9, 1, 1)), atol=1e-15)


def test_a_step_is_the_proposal_retracted() -> None:
    levenberg, surrogate, problem = prepared()
    x = state_of(levenberg.shard, problem)
    levenberg.linearize(x, surrogate)
    levenberg.propose(np.ones(3, bool))
    expected = reference.retract(*x, levenberg.step_c, levenberg.step_l)
    step = levenberg.step(x, levenberg.objective(x, np.ones(3, bool)), surrogate, np.ones(3, bool))
    assert step.retries == 0
    np.testing.assert_allclose(step.x.cameras, expected[0], atol=1e-14)
    np.testing.assert_allclose(step.x.points, expected[1], atol=1e-14)


def test_a_failed_step_is_tried_again_nearer() -> None:
    """From far away the model is poor; where it must be good, the radius shrinks until it is."""
    problem = scattered(random_problem(16, cameras=6, points=30), 3, 0.3)
    partition = partition_from_arrays(problem, np.zeros(6, int))
    shard = make_shard(problem, partition)
    options = tight(lm_radius=1e4, linear_solver="direct", lm_tries=40, lm_gain=0.95)
    levenberg = Levenberg(shard, options)
    surrogate = Surrogate(shard, options.loss, options.split, options.xi)
    surrogate.rebase(shard.state())
    x = shard.state()
    one = np.ones(1, bool)
    step = levenberg.step(x, levenberg.objective(x, one), surrogate, one)
    assert step.retries > 0
    assert levenberg.radius[0] < 1e4
    assert step.moved.all()
    assert shard.to_problem(step.x).objective() < problem.objective()


def test_a_device_with_a_badly_observed_camera_is_careful_and_relaxes_slowly() -> None:
    seen = np.ones((6, 350), bool)
    seen[4, 299:] = False
    problem = random_problem(3, cameras=6, points=350, edges=np.nonzero(seen))
    partition = partition_from_arrays(problem, np.array([0, 0, 1, 1, 2, 2]))
    shard = make_shard(problem, partition)
    paper = Options(devices=3, refine="none", lm_radius=1e8)
    levenberg = Levenberg(shard, paper)
    np.testing.assert_array_equal(levenberg.radius, [1e8, 1e8, 7e3])
    F = np.array([10.0, 10.0, 10.0])
    for _ in range(100):
        levenberg.judge(F, F)
    np.testing.assert_allclose(levenberg.limit, [1e10, 1e10, 7e3 * 1.003**100])
    levenberg.judge(F, np.array([10.1, 10.3, 9.0]))  # rises a little, rises by 3 %, falls
    np.testing.assert_allclose(levenberg.limit, [1e10, 7e3, 7e3 * 1.003**101])
    np.testing.assert_array_equal(levenberg.radius, [1e8, 7e3, 7e3])
    others: tuple[dict[str, Any], ...] = ({"refine": "sweep"}, {"method": "duba"})
    for other in others:  # nothing runs away there
        assert (Levenberg(shard, replace(paper, **other)).limit == 1e10).all()


@pytest.mark.parametrize(
    ("refine", "limits"), [("none", 7e3), ("points", 7e3), ("sweep", 1e10 / 1.003)]
)
def test_a_solve_judges_radii_unless_cameras_are_refined(
    refine: Literal["none", "points", "sweep"], limits: float
) -> None:
    problem = random_problem(3, cameras=6, points=60)
    shard = make_shard(problem, partition_from_arrays(problem, np.array([0, 0, 1, 1, 2, 2])))
    solver = Algorithm1(shard, Options(devices=3, refine=refine))
    solver.levenberg.limit[:] = limits
    before = solver.metrics.F.copy()
    solver.iterate()
    assert (solver.metrics.F <= (1 + 0.02) * before).all()  # so that nothing is to be limited anew
    expected = limits if refine == "sweep" else limits * 1.003
    np.testing.assert_allclose(solver.levenberg.limit, expected)
