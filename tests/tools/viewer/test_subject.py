"""What is shown, before any server: places, colours, errors and sights."""

from __future__ import annotations

import numpy as np
import pytest

import daba
from daba.problem.pixel_errors import pixel_errors
from daba.problem.problem import Problem
from daba.tools.viewer import paint
from daba.tools.viewer.placing import FAR, WIDTH, Placing
from daba.tools.viewer.subject import mean_errors, subject_of


@pytest.fixture(scope="module")
def scene() -> Problem:
    return daba.generate(daba.SceneOptions(cameras=16, points=300, seed=4)).start


def placing_of(problem: Problem, sign: float = 1.0) -> Placing:
    return Placing.of(problem.rotations, problem.centers, problem.points, sign)


def moved(problem: Problem, R: np.ndarray, t: np.ndarray, scale: float = 1.0) -> Problem:
    cameras = problem.cameras.copy()
    cameras[:, :9] = (R @ problem.rotations).reshape(-1, 9)
    cameras[:, 9:12] = scale * problem.centers @ R.T + t
    return problem.with_estimate(cameras, scale * problem.points @ R.T + t)


def turn(seed: int) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return np.asarray(Rotation.random(rng=np.random.default_rng(seed)).as_matrix())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_up_is_up_wherever_the_world_is(scene: Problem, sign: float) -> None:
    """A map's large coordinates, any rotation and unit: the same picture, to single precision."""
    other = moved(scene, sign * turn(1), np.array([4e6, -5e6, 100.0]), 30.0)
    a, b = placing_of(scene), placing_of(other, sign)
    at, to = a(scene.points), b(other.points)
    assert np.abs(a.low).max() <= WIDTH
    np.testing.assert_allclose(a(scene.centers)[:, 2], b(other.centers)[:, 2], atol=2e-3)
    gaps = np.linalg.norm(at[:, None] - at[:40], axis=-1)
    np.testing.assert_allclose(gaps, np.linalg.norm(to[:, None] - to[:40], axis=-1), atol=2e-3)
    up = a.turn(scene.rotations)[:, :, 1].mean(axis=0)
    assert up[2] < -0.9  # y of a camera points down


def test_a_few_points_far_out_change_little(scene: Problem) -> None:
    points = scene.points.copy()
    points[:5] *= 1e5
    wild = scene.with_estimate(scene.cameras, points)
    a, b = placing_of(scene), placing_of(wild)
    assert 0.7 < b.scale / a.scale < 1.4
    at = b(points)
    assert np.isnan(at[:5]).all()
    assert np.nanmax(np.abs(at)) < FAR


def test_the_first_look_has_everything_before_it(scene: Problem) -> None:
    placing, fov = placing_of(scene), np.radians(50.0)
    eye, target = placing.first_look(scene.rotations, fov)
    forward = (target - eye) / np.linalg.norm(target - eye)
    rays = placing(scene.points) - eye
    depth = rays @ forward
    assert (depth > 0).all()
    angle = np.degrees(np.arccos(depth / np.linalg.norm(rays, axis=1)))
    assert np.percentile(angle, 90) < 40
    assert eye[2] > target[2]


def test_mean_errors(scene: Problem) -> None:
    errors, each = mean_errors(scene), pixel_errors(scene)
    for j in (0, 7, 200):
        assert errors.points[j] == pytest.approx(each[scene.point_index == j].mean())
    for i in range(16):
        assert errors.cameras[i] == pytest.approx(each[scene.camera_index == i].mean())


def test_what_a_camera_sees(scene: Problem) -> None:
    subject = subject_of(scene, devices=3)
    for camera in (0, 5, 15):
        seen = subject.seen(camera, 0)
        k = np.flatnonzero(scene.camera_index == camera)
        np.testing.assert_array_equal(seen.points, scene.point_index[k])
        np.testing.assert_allclose(seen.errors, pixel_errors(scene)[k])
    assert subject.devices().devices == 3
    np.testing.assert_array_equal(
        subject.devices().camera_device, daba.make_partition(scene, 3).camera_device
    )


def test_observations_may_have_been_dropped(scene: Problem) -> None:
    from dataclasses import replace

    keep = np.arange(scene.num_observations) % 5 > 0
    less = replace(scene, camera_index=scene.camera_index[keep], u=scene.u[keep],
                   point_index=scene.point_index[keep], weights=scene.weights[keep])  # fmt: skip
    subject = subject_of(scene, less)
    for number, problem in enumerate((scene, less)):
        expected = problem.point_index[problem.camera_index == 3]
        np.testing.assert_array_equal(subject.seen(3, number).points, expected)


def test_what_a_filter_took_away_is_matched_by_id(scene: Problem) -> None:
    """Points and images that only one of two models has are not shown, whatever their order."""
    from dataclasses import replace

    ids = {"image_ids": np.arange(16) + 5, "point3D_ids": np.arange(300) * 2}
    before = replace(scene, info=scene.info | ids)
    kept = np.flatnonzero(np.arange(300) % 7 > 0)[::-1]
    number = np.full(300, -1, np.int32)
    number[kept] = np.arange(len(kept))
    left = number[scene.point_index] >= 0
    after = replace(
        before, points=scene.points[kept] + 0.01, camera_index=scene.camera_index[left],
        point_index=number[scene.point_index[left]], u=scene.u[left], weights=scene.weights[left],
        info=before.info | {"point3D_ids": ids["point3D_ids"][kept]},
    )  # fmt: skip
    subject = subject_of(before, after, devices=2)
    assert subject.counts.endswith(f"{before.num_observations:,} → {left.sum():,} observations")
    was, now = subject.estimates
    np.testing.assert_array_equal(now.points, was.points + 0.01)
    np.testing.assert_array_equal(was.points, scene.points[np.sort(kept)])
    assert len(subject.devices().point_device) == len(kept)
    assert len(subject.errors(0).points) == len(subject.errors(1).points) == len(kept)
    expected = scene.point_index[(scene.camera_index == 3) & left]
    for n in (0, 1):
        seen = subject.seen(3, n)
        np.testing.assert_array_equal(np.sort(kept)[seen.points], expected)
        assert len(seen.errors) == len(expected)


def test_before_and_after_must_be_the_same_problem(scene: Problem) -> None:
    other = daba.generate(daba.SceneOptions(cameras=15, points=300, seed=4)).start
    with pytest.raises(daba.DabaError, match="not the same problem: 16 and 15 cameras"):
        subject_of(scene, other)


def test_colours_of_errors() -> None:
    errors = np.array([0.1, 0.5, 1.0, 10.0, 1e9, np.inf, np.nan])
    colours = paint.by_error(errors, 0.1, 10.0)
    np.testing.assert_array_equal(colours[0], paint.RAMP[0])
    for n in (3, 4, 5):
        np.testing.assert_array_equal(colours[n], paint.RAMP[-1])
    np.testing.assert_array_equal(colours[6], paint.GREY)
    low, high = paint.error_range(np.r_[np.linspace(1, 2, 99), 1e7, np.nan, np.inf])
    assert 1 <= low < high < 3


def test_colours_of_the_file_are_shown(scene: Problem) -> None:
    assert subject_of(scene).colors is None
    scene.info["colors"] = np.full((300, 3), 300.0)
    try:
        colors = subject_of(scene).colors
        assert colors is not None
        assert (colors == 255).all()
    finally:
        del scene.info["colors"]
