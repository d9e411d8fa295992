"""One accepted step on every device: what is tried, kept, and tried again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from daba.backends.cpu.operations import CpuOperations
from daba.backends.operations import Base, Row, Status
from daba.core.options import Options
from daba.core.types import Bools, State
from daba.distributed.shard import make_shard
from daba.partition.partition import partition_from_arrays
from daba.problem import reference
from daba.problem.problem import Problem
from daba.solver.make import cpu_solver
from daba.solver.trust_region import TrustRegion, first_limit
from helpers import (
    TIGHT,
    in_problem_order,
    operations_of,
    paper_surrogate,
    random_partition,
    random_problem,
    scattered,
    state_of,
)

pytestmark = pytest.mark.usefixtures("compiled")

LINEAR = ["direct", "pcg"]
EVERYONE = np.ones(3, bool)


def prepared(linear: str = "direct") -> tuple[CpuOperations, Problem]:
    """Operations that stand at a problem, of which three devices own random parts."""
    problem = random_problem(15, cameras=9, points=50, noise=0.02)
    shard = make_shard(problem, random_partition(problem, 3, 4))
    options = Options(method="daba", devices=3, linear_solver=linear, **TIGHT)  # type: ignore[arg-type]
    return operations_of(cpu_solver(shard, options)), problem


def step(ops: CpuOperations, active: Bools) -> State:
    """x⁺ of one step on E^α(· | x) of the active devices."""
    ops.begin()
    ops.start_at(Base.X, active)
    ops.assemble(Base.X)
    assert TrustRegion(ops).step(Base.X) is Status.DONE
    return ops.new


def proposal(ops: CpuOperations, active: Bools) -> tuple[np.ndarray, np.ndarray]:
    """The step to be tried, in the problem's order, and the model's decrease."""
    equations = ops.equations
    equations.assemble(ops.x, ops.surrogates[Base.X])
    equations.damp(ops.table[Row.RADIUS], active)
    decrease, _ = equations.solve(active)
    return in_problem_order(ops.shard, equations.step_c, equations.step_l), decrease


@pytest.mark.parametrize("linear", LINEAR)
def test_an_inactive_device_is_left_alone(linear: str) -> None:
    ops, problem = prepared(linear)
    active = np.array([True, False, True])
    whole, everyone = proposal(ops, EVERYONE)
    some, decrease = proposal(ops, active)
    assert decrease[1] == -np.inf
    np.testing.assert_array_equal(decrease[active], everyone[active])
    partition = random_partition(problem, 3, 4)
    mine = np.concatenate(
        [np.repeat(partition.camera_device, 9), np.repeat(partition.point_device, 3)]
    )
    np.testing.assert_array_equal(some[mine != 1], whole[mine != 1])

    radius = ops.table[Row.RADIUS].copy()
    new = ops.shard.to_problem(step(ops, active))
    np.testing.assert_array_equal(ops.flags(Row.MOVED), active)
    assert ops.table[Row.RADIUS, 1] == radius[1]
    still_c, still_l = partition.camera_device == 1, partition.point_device == 1
    np.testing.assert_array_equal(new.cameras[still_c], problem.cameras[still_c])
    np.testing.assert_array_equal(new.points[still_l], problem.points[still_l])
    assert (new.points[~still_l] != problem.points[~still_l]).all()


@pytest.mark.parametrize("linear", LINEAR)
def test_an_accepted_step_lowers_the_surrogate_of_every_device(linear: str) -> None:
    ops, problem = prepared(linear)
    partition = random_partition(problem, 3, 4)
    new, options = ops.shard.to_problem(step(ops, EVERYONE)), ops.options
    fixed = (partition, options.loss, options.split, options.xi)
    before = np.add(*paper_surrogate(problem, problem, *fixed))
    new_intra, new_rest = paper_surrogate(new, problem, *fixed)
    assert ops.flags(Row.MOVED).all()
    assert (new_intra + new_rest < before).all()
    np.testing.assert_allclose(ops.table[Row.NEW], new_intra.astype(float), rtol=1e-10)
    R = new.rotations
    np.testing.assert_allclose(R @ R.transpose(0, 2, 1), np.tile(np.eye(3), (9, 1, 1)), atol=1e-15)


def test_a_step_is_the_proposal_retracted() -> None:
    ops, _ = prepared()
    proposal(ops, EVERYONE)
    expected = reference.retract(*ops.x, ops.equations.step_c, ops.equations.step_l)
    new = step(ops, EVERYONE)
    assert ops.table[Row.RETRIES].sum() == 0
    np.testing.assert_allclose(new.cameras, expected[0], atol=1e-14)
    np.testing.assert_allclose(new.points, expected[1], atol=1e-14)


def test_a_failed_step_is_tried_again_nearer() -> None:
    """From far away the model is poor; where it must be good, the radius shrinks until it is."""
    problem = scattered(random_problem(16, cameras=6, points=30), 3, 0.3)
    shard = make_shard(problem, partition_from_arrays(problem, np.zeros(6, int)))
    options = Options(lm_radius=1e4, linear_solver="direct", lm_tries=40, lm_gain=0.95)
    ops = operations_of(cpu_solver(shard, options))
    new = step(ops, np.ones(1, bool))
    assert ops.table[Row.RETRIES].sum() > 0
    assert ops.table[Row.RADIUS, 0] < 1e4
    assert ops.flags(Row.MOVED).all()
    assert shard.to_problem(new).objective() < problem.objective()


def test_a_device_that_finds_no_step_stays_and_begins_gently() -> None:
    """No step can gain what is asked here: after the last attempt x⁺ is x, to the bit."""
    problem = random_problem(16, cameras=6, points=30)
    shard = make_shard(problem, partition_from_arrays(problem, np.zeros(6, int)))
    ops = operations_of(cpu_solver(shard, Options(lm_tries=3, lm_gain=0.999999, lm_radius=10.0)))
    new, x = step(ops, np.ones(1, bool)), state_of(shard, problem)
    assert ops.table[Row.RETRIES].sum() == 2
    assert ops.table[Row.STEPS].sum() == 0
    assert ops.table[Row.SHRINK, 0] == 2.0
    np.testing.assert_array_equal(new.cameras, x.cameras)
    np.testing.assert_array_equal(new.points, x.points)


def badly_observed() -> Problem:
    """Six cameras, of which the fifth has 299 observations and the others 350."""
    seen = np.ones((6, 350), bool)
    seen[4, 299:] = False
    return random_problem(3, cameras=6, points=350, edges=np.nonzero(seen))


def test_a_device_with_a_badly_observed_camera_begins_cautiously() -> None:
    problem = badly_observed()
    shard = make_shard(problem, partition_from_arrays(problem, np.array([0, 0, 1, 1, 2, 2])))
    paper = Options(method="daba", devices=3, refine="none", lm_radius=1e8)
    np.testing.assert_array_equal(first_limit(shard, paper), [1e10, 1e10, 7e3])
    solver = cpu_solver(shard, paper)
    np.testing.assert_array_equal(solver.row(Row.RADIUS), [1e8, 1e8, 7e3])
    others: tuple[dict[str, Any], ...] = ({"refine": "sweep"}, {"method": "duba"})
    for other in others:  # nothing runs away there
        assert (first_limit(shard, replace(paper, **other)) == 1e10).all()


@pytest.mark.parametrize(
    ("refine", "limits"), [("none", 7e3), ("points", 7e3), ("sweep", 1e10 / 1.003)]
)
def test_a_solve_limits_radii_unless_cameras_are_refined(
    refine: Literal["none", "points", "sweep"], limits: float
) -> None:
    problem = random_problem(3, cameras=6, points=60)
    shard = make_shard(problem, partition_from_arrays(problem, np.array([0, 0, 1, 1, 2, 2])))
    solver = cpu_solver(shard, Options(method="daba", devices=3, refine=refine))
    operations_of(solver).table[Row.LIMIT] = limits
    before = solver.row(Row.F)
    solver.iterate()
    assert (solver.row(Row.F) <= (1 + 0.02) * before).all()  # so that nothing is limited anew
    expected = limits if refine == "sweep" else limits * 1.003
    np.testing.assert_allclose(solver.row(Row.LIMIT), expected)
