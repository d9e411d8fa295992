"""Outliers are found by what a reader of the file would see, and nothing else is touched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import daba
from daba.problem.images import ImageNames
from daba.problem.intrinsics import forward_model
from daba.problem.outliers import filter_outliers
from daba.problem.problem import Floats, Problem
from helpers import random_problem


def errors(problem: Problem) -> Floats:
    """Pixel errors, one observation after the other, by the forward model's formula."""
    model = forward_model(problem)
    out = np.empty(problem.num_observations)
    for k, (i, j) in enumerate(zip(problem.camera_index, problem.point_index, strict=True)):
        x = problem.rotations[i].T @ (problem.points[j] - problem.centers[i])
        p = x[:2] / x[2]
        f, k1, k2 = model[i]
        rho = p @ p
        pixel = f * (1 + k1 * rho + k2 * rho**2) * p
        out[k] = np.linalg.norm(pixel - problem.focal[i] * problem.u[k])
    return out


@pytest.fixture
def problem() -> Problem:
    return random_problem(4, cameras=6, points=40, noise=1e-3)


def test_what_is_beyond_the_threshold_goes(problem: Problem) -> None:
    threshold = float(np.quantile(errors(problem), 0.8))
    kept, dropped = filter_outliers(problem, threshold)
    stays = errors(problem) <= threshold
    left = np.bincount(problem.point_index[stays], minlength=40)
    lonely = stays & (left == 1)[problem.point_index]
    assert dropped.beyond == (~stays).sum()
    assert dropped.lonely == lonely.sum()
    assert dropped.behind == 0
    assert kept.num_observations == problem.num_observations - dropped.observations
    expected = np.flatnonzero(stays & ~lonely)
    np.testing.assert_array_equal(kept.u, problem.u[expected])
    np.testing.assert_array_equal(kept.weights, problem.weights[expected])
    np.testing.assert_array_equal(kept.camera_index, problem.camera_index[expected])
    np.testing.assert_array_equal(kept.point_index, problem.point_index[expected])
    assert kept.cameras is problem.cameras
    assert kept.points is problem.points


def test_points_behind_go_whatever_their_error(problem: Problem) -> None:
    """A point on the other side of its camera has no error there in the method's own terms."""
    points = problem.points.copy()
    camera = problem.camera_index[problem.point_index == 9][0]
    points[9] = 2 * problem.centers[camera] - points[9]
    wrong = replace(problem, points=points)
    kept, dropped = filter_outliers(wrong, 1e9)
    assert dropped.behind >= 1
    assert dropped.beyond == 0
    gone = set(zip(wrong.camera_index, wrong.point_index, strict=True)) - set(
        zip(kept.camera_index, kept.point_index, strict=True)
    )
    assert (camera, 9) in gone
    assert {point for _, point in gone} == {9}


def test_who_lost_most_is_named(problem: Problem) -> None:
    u = problem.u.copy()
    of_two = np.flatnonzero(problem.camera_index == 2)
    of_four = np.flatnonzero(problem.camera_index == 4)
    wrong = np.concatenate([of_two[:7], of_four[:3]])
    u[wrong] += 1.0
    named = replace(problem, u=u, info={"images": [f"photo-{i}" for i in range(6)]})
    _, dropped = filter_outliers(named, 100.0)
    first, second = dropped.worst[:2]
    assert (first["camera"], first["name"], first["dropped"]) == (2, "photo-2", 7)
    assert first["observations"] == len(of_two)
    assert (second["camera"], second["dropped"]) == (4, 3)
    text = dict(dropped.rows())
    assert text["most dropped in"].startswith(
        f"photo-2 (id 2): 7 of {len(of_two)}; photo-4 (id 4): 3 of"
    )
    assert "(10 beyond 100 px, 0 behind" in text["dropped"]


def test_images_are_called_by_name_and_id() -> None:
    info = {
        "colmap": {},
        "images": ["a 1", "b", "c 3.5"],
        "registered": [0, 2],
        "image_ids": [7, 5],
    }
    images = ImageNames.of(info, 2)
    assert [images.label(0), images.label(1)] == ["a 1 (id 7)", "c 3.5 (id 5)"]  # not one of a list
    assert (images.count(2), images.count(1), images.noun) == ("2 images", "1 image", "image")
    assert ImageNames.of({"images": ["a.jpg 0 500", "b.jpg"]}, 2).names == ["a.jpg", "b.jpg"]
    numbered = ImageNames.of({}, 1200)
    assert (numbered.label(3), numbered.count(1200)) == ("camera 3", "1,200 cameras")
    assert numbered.labels([3, 4]) == ["3", "4"]


def test_what_is_left_without_observations_is_counted(problem: Problem) -> None:
    u = problem.u.copy()
    u[problem.camera_index == 1] += 1.0
    u[problem.point_index == 5] += 1.0
    kept, dropped = filter_outliers(replace(problem, u=u), 100.0)
    assert dropped.cameras == 1
    assert dropped.points >= 1
    assert 1 not in kept.camera_index
    assert 5 not in kept.point_index
    assert (kept.num_cameras, kept.num_points) == (6, 40)
    daba.solve(kept, iterations=2)  # what is left can be solved


def test_a_threshold_must_be_positive(problem: Problem) -> None:
    for pixels in (0.0, -1.0, float("nan")):
        with pytest.raises(daba.DabaError, match="must be positive"):
            filter_outliers(problem, pixels)
