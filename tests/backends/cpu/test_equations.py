"""The step of a device against a dense solve of the same damped system."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from daba.core.losses import make_loss
from daba.core.options import Options
from daba.distributed.shard import make_shard
from daba.partition.partition import partition_from_arrays
from daba.problem.problem import Problem
from helpers import (
    ALL_LOSSES,
    TIGHT,
    dense_step,
    dense_system,
    random_partition,
    random_problem,
    scattered,
)

pytestmark = pytest.mark.usefixtures("compiled")

LINEAR = ["direct", "pcg"]


def tight(**changes: Any) -> Options:
    return Options(**{"method": "daba", **TIGHT, **changes})


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
