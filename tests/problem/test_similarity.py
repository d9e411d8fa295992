"""A scene finds its way into the frame of its priors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import daba
from daba.problem.priors import Priors, Targets
from daba.problem.similarity import aligned, fit_similarity
from helpers import random_problem, random_rotations, rng, similar


def test_a_similarity_is_found_in_spite_of_wild_fixes() -> None:
    problem = random_problem(cameras=12)
    Q = random_rotations(rng(1), 1)[0]
    there = similar(problem, Q, np.array([500.0, -20.0, 3.0]), 40.0)
    targets = there.centers.copy()
    targets[[2, 7]] += [900.0, 0.0, 4000.0]
    priors = Priors(
        positions=Targets.make(np.arange(12), targets, sigma=0.1),
        points=Targets.make([3, 5], there.points[[3, 5]], sigma=0.1),
    )
    found = aligned(replace(problem, priors=priors))
    np.testing.assert_allclose(found.cameras, there.cameras, atol=1e-6)
    np.testing.assert_allclose(found.points, there.points, atol=1e-6)
    assert found.validated().objective() - found.prior_objective() == pytest.approx(
        problem.objective(), rel=1e-9
    )


def test_cameras_on_a_line_do_not_roll() -> None:
    line = np.outer(np.arange(6.0), [1.0, 0.0, 0.0])
    move = fit_similarity(line, 2.0 * np.outer(np.arange(6.0), [0.0, 1.0, 0.0]) + 5.0)
    assert move.scale == pytest.approx(2.0)
    np.testing.assert_allclose(move.rotation @ [0.0, 0.0, 1.0], [0.0, 0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(move.rotation @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], atol=1e-12)
    back = fit_similarity(line, -line)
    np.testing.assert_allclose(back(line), -line, atol=1e-12)
    assert np.linalg.det(back.rotation) == pytest.approx(1.0)


def test_one_fix_only_shifts() -> None:
    move = fit_similarity(np.ones((1, 3)), np.zeros((1, 3)))
    assert move.scale == 1.0
    assert np.array_equal(move.rotation, np.eye(3))
    assert np.array_equal(move.shift, [-1.0, -1.0, -1.0])


def test_what_is_fixed_says_where_the_scene_is() -> None:
    problem = random_problem()
    priors = Priors(positions=Targets.make(np.arange(6), problem.centers + 9.0, sigma=1.0))
    given = replace(problem, priors=priors)
    assert aligned(problem) is problem
    assert not np.array_equal(aligned(given).points, problem.points)
    for what in ("gauge", "points"):
        fixed = daba.constrain(given, fix=what)
        assert np.array_equal(aligned(fixed).points, problem.points)
    loose = daba.constrain(given, fix="intrinsics")
    np.testing.assert_allclose(aligned(loose).points, problem.points + 9.0)
