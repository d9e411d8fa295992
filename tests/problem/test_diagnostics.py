"""The report of a problem: counts that are known, and every oddity found."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from daba.problem.diagnostics import _camera_components, inspect
from daba.problem.problem import Problem


def scene(cameras: int = 5, points: int = 20) -> Problem:
    """Cameras in a row that look at points in front of them; everybody sees everything."""
    rng = np.random.default_rng(0)
    t = np.column_stack([np.arange(cameras), np.zeros(cameras), np.zeros(cameras)])
    l = rng.uniform(-1, 1, (points, 3)) + np.array([cameras / 2, 0, 10])
    cam, pt = np.repeat(np.arange(cameras), points), np.tile(np.arange(points), cameras)
    x = l[pt] - t[cam]
    pixels = 500 * x[:, :2] / x[:, 2:] + rng.normal(size=(len(cam), 2))
    R = np.tile(np.eye(3), (cameras, 1, 1))
    return Problem.from_arrays(R, t, l, cam, pt, pixels, 500.0)


def test_a_sound_problem() -> None:
    problem = scene()
    report = inspect(problem)
    assert report.warnings == []
    assert (report.cameras, report.points, report.observations) == (5, 20, 100)
    assert report.components == 1
    assert report.largest_component_cameras == 5
    assert report.track_length.histogram["4-5"] == 20
    assert sum(report.track_length.histogram.values()) == 20
    assert report.camera_degree.histogram["11-30"] == 5
    assert report.camera_degree.mean == 20
    assert report.mean_objective == pytest.approx(report.objective / 100)
    assert report.mean_objective == pytest.approx(report.pixel_error.half_mean_square, rel=0.2)
    assert 0.5 < report.pixel_error.rms < 2
    assert json.loads(json.dumps(report.to_dict()))["pixel_error"]["behind"] == 0


def test_histogram_edges() -> None:
    problem = scene(cameras=22, points=8)
    track = np.array([0, 1, 2, 3, 4, 6, 11, 21])
    report = inspect(problem.with_observations(problem.camera_index < track[problem.point_index]))
    assert report.track_length.histogram == {
        label: 1 for label in ("0", "1", "2", "3", "4-5", "6-10", "11-20", "21+")
    }
    assert (report.track_length.min, report.track_length.max) == (0, 21)
    assert report.track_length.median == 3.5


def test_weak_and_unobserved() -> None:
    problem = scene()
    cam, pt = problem.camera_index, problem.point_index
    mask = (pt != 3) & ((pt != 4) | (cam == 0)) & (cam != 1) & ((cam != 2) | (pt < 2))
    report = inspect(problem.with_observations(mask))
    assert (report.unobserved_points, report.weak_points) == (1, 1)
    assert (report.unobserved_cameras, report.weak_cameras) == (1, 1)
    assert report.components == 1  # what nobody sees is not a part
    text = "\n".join(report.warnings)
    assert "1 point that no camera sees (3)" in text
    assert "1 point with only one observation (4)" in text
    assert "1 camera without observations (1)" in text
    assert "1 camera with fewer than 3 observations (2)" in text


def test_parts() -> None:
    problem = scene()
    left = problem.camera_index < 2
    report = inspect(problem.with_observations(left == (problem.point_index < 10)))
    assert report.components == 2
    assert report.largest_component_cameras == 3
    assert "falls into 2 parts" in report.warnings[0]


def test_duplicates() -> None:
    problem = scene()
    twice = np.r_[np.arange(100), 7, 7, 45]
    report = inspect(problem.with_observations(twice))
    assert report.duplicates == 3
    assert "3 duplicate observations (camera 0 and point 7, camera 0" in report.warnings[0]


def test_odd_places() -> None:
    problem = scene()
    points = problem.points.copy()
    points[5] = [1e5, 0, 1e6]
    points[6] = [0.1, 0.1, -4]
    cameras = problem.cameras.copy()
    cameras[3, 9:12] = cameras[1, 9:12]
    focal = problem.focal.copy()
    focal[4] = 1e5
    report = inspect(replace(problem, points=points, cameras=cameras, focal=focal))
    assert report.far_points == 1
    assert report.behind == report.pixel_error.behind == 5
    assert report.focal_outliers == 1
    assert report.coincident_cameras == 1
    assert report.gross_errors > 0
    text = "\n".join(report.warnings)
    assert "as far away as the median point (5)" in text
    assert "behind the camera, 5 % of all (6, 26, 46, 66, 86)" in text
    assert "focal length or 1/10 (4)" in text
    assert "at the very position of another camera (3)" in text


def test_many_are_shortened() -> None:
    problem = scene(points=40)
    report = inspect(problem.with_observations(problem.point_index < 20))
    assert "20 points that no camera sees (20, 21, 22, 23, 24, …)" in report.warnings[0]


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_those_of_scipy(seed: int) -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    random = np.random.default_rng(seed)
    C, P, K = random.integers(2, 60), random.integers(2, 80), random.integers(1, 120)
    camera, point = (random.integers(0, n, K).astype(np.int32) for n in (C, P))
    graph = coo_array((np.ones(K), (camera, point + C)), (C + P, C + P))
    expected = connected_components(graph.tocsr(), directed=False)[1][camera]
    problem = SimpleNamespace(camera_index=camera, point_index=point, num_cameras=C, num_points=P)
    seen = np.bincount(camera, minlength=C) > 0
    found = np.zeros(C, int)
    found[seen] = _camera_components(problem, seen)  # type: ignore[arg-type]
    pairs = {*zip(found[camera].tolist(), expected.tolist(), strict=True)}
    assert len(pairs) == len(set(found[camera])) == len(set(expected))
