"""Points behind their cameras are put where their rays meet, or else somewhere in front."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from odd_problems import mirrored

import daba
from daba.distributed.cheirality import start_in_front
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import make_shard
from daba.partition.partition import make_partition
from daba.problem.cheirality import bring_to_front
from daba.problem.intrinsics import STEREOGRAPHIC
from daba.problem.pixel_errors import points_behind
from daba.problem.problem import Floats, Problem
from helpers import random_problem, rays


def nearest_to_rays(problem: Problem, j: int) -> Floats:
    """By least squares over (I − r rᵀ)(x − t) = 0, one ray after the other."""
    seen = np.flatnonzero(problem.point_index == j)
    all_rays = rays(problem)
    rows, right = [], []
    for k in seen:
        r = np.asarray(all_rays.R[k] @ all_rays.p[k], np.float64)
        across = np.eye(3) - np.outer(r, r) / (r @ r)
        rows.append(across)
        right.append(across @ problem.centers[problem.camera_index[k]])
    return np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]


def objective_of(problem: Problem, j: int) -> float:
    all_rays = rays(problem)
    of_point = problem.point_index == j
    e = all_rays.e[of_point] * all_rays.weight[of_point, None]
    return float((e**2).sum())


def test_nothing_to_do_changes_nothing() -> None:
    problem = random_problem(3)
    same, moved = bring_to_front(problem)
    assert same is problem
    assert len(moved) == 0


def test_rays_that_meet() -> None:
    problem = random_problem(1, cameras=8, points=20)
    wrong = mirrored(problem, [2, 7, 11])
    assert {2, 7, 11} == set(wrong.point_index[points_behind(wrong)])
    right, moved = bring_to_front(wrong)
    assert moved.tolist() == [2, 7, 11]
    for j in moved:
        np.testing.assert_allclose(right.points[j], nearest_to_rays(problem, j), atol=1e-9)
        assert objective_of(right, j) < objective_of(wrong, j)
    assert len(points_behind(right)) == 0


def test_all_else_stays_to_the_bit() -> None:
    problem = random_problem(1, cameras=8, points=20)
    right, moved = bring_to_front(mirrored(problem, [5]))
    others = np.delete(np.arange(20), moved)
    assert right.cameras.tobytes() == problem.cameras.tobytes()
    assert right.points[others].tobytes() == problem.points[others].tobytes()
    assert right.u is problem.u


def test_the_order_of_observations_does_not_matter() -> None:
    wrong = mirrored(random_problem(1, cameras=8, points=20), [2, 7, 11])
    order = np.random.default_rng(0).permutation(wrong.num_observations)
    names = ("camera_index", "point_index", "u", "weights")
    mixed = replace(wrong, **{name: getattr(wrong, name)[order] for name in names})
    assert bring_to_front(mixed)[0].points.tobytes() == bring_to_front(wrong)[0].points.tobytes()


@pytest.mark.parametrize("devices", [1, 3])
def test_a_shard_finds_what_the_whole_problem_does(devices: int) -> None:
    wrong = mirrored(random_problem(1, cameras=8, points=20), [2, 7, 11])
    wrong = replace(wrong, free_points=np.arange(20) != 7)
    shard = make_shard(wrong, make_partition(wrong, devices))
    found, moved = start_in_front(shard, shard.state(), Communicator())
    assert moved == 2
    assert (
        shard.to_problem(found.start).points.tobytes() == bring_to_front(wrong)[0].points.tobytes()
    )


def two_cameras(side: float, turned: float = 0.0) -> Problem:
    """Two cameras beside each other that look along z, and one point; `side` > 0: their rays
    diverge. The second is turned round by `turned` about y."""
    c, s = np.cos(turned), np.sin(turned)
    return Problem.from_arrays(
        rotations=[np.eye(3), np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])],
        centers=[[-1.0, 0, 0], [1.0, 0, 0]],
        points=[[0.0, 0.0, -40.0]],
        camera_index=[0, 1],
        point_index=[0, 0],
        pixels=[[-500 * side, 0], [500 * side, 0]],
        focal=500.0,
    )


def test_rays_that_diverge() -> None:
    """Their lines meet behind both cameras. In front, no distance of many is better than the one
    that was found, and far away is best."""
    problem = two_cameras(0.01)
    right, moved = bring_to_front(problem)
    assert moved.tolist() == [0]
    x, y, z = right.points[0]
    assert abs(x) < 1e-9
    assert abs(y) < 1e-9
    assert z > 100.0
    least = objective_of(right, 0)
    for distance in np.geomspace(0.1, z, 50):
        there = problem.with_estimate(problem.cameras, np.array([[0.0, 0.0, distance]]))
        assert objective_of(there, 0) >= least


def test_what_cannot_be_in_front_of_all_stays() -> None:
    """Of two cameras that look away from each other."""
    problem = two_cameras(0.0, turned=np.pi)
    same, moved = bring_to_front(problem)
    assert len(moved) == 0
    np.testing.assert_array_equal(same.points, problem.points)


def test_fixed_points_stay() -> None:
    problem = random_problem(1, cameras=8, points=20)
    free = np.ones(20, bool)
    free[7] = False
    wrong = replace(mirrored(problem, [2, 7]), free_points=free)
    right, moved = bring_to_front(wrong)
    assert moved.tolist() == [2]
    np.testing.assert_array_equal(right.points[7], wrong.points[7])


@pytest.mark.parametrize("angle", [100.0, 150.0])
def test_a_camera_that_sees_behind_itself(angle: float) -> None:
    """With the stereographic projection a point beside or behind the camera's axis is in front of
    it if it lies along its ray, and only then."""
    radians = np.deg2rad(angle)
    direction = np.array([np.sin(radians), 0.0, np.cos(radians)])
    u = 2 * np.tan(radians / 2)  # of a stereographic image with focal length 1
    problem = Problem.from_arrays(
        rotations=[np.eye(3), np.eye(3)],
        centers=[[0.0, 0, 0], [0.0, 0.5, 0]],
        points=[3 * direction + [0, 0.25, 0], -3 * direction + [0, 0.25, 0]],
        camera_index=[0, 1, 0, 1],
        point_index=[0, 0, 1, 1],
        pixels=np.array([[u, 0.05], [u, -0.05], [u, 0.05], [u, -0.05]]) * 500,
        focal=500.0,
        intrinsics=np.tile(STEREOGRAPHIC, (2, 1)),
    )
    assert points_behind(problem).tolist() == [2, 3]
    right, moved = bring_to_front(problem)
    assert moved.tolist() == [1]
    assert right.points[1] @ direction > 0
    assert daba.pixel_error(problem).behind == 2
