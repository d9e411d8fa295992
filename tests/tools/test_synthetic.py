"""Synthetic scenes: exact counts, an exact truth, sensible visibility and a fair start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from daba.core.errors import DabaError, DabaWarning
from daba.problem.problem import Floats, Problem
from daba.tools.synthetic import SceneOptions, generate
from daba.tools.synthetic.optics import HALF_IMAGE, image_points
from daba.tools.synthetic.tracks import track_lengths

SCENES = ("street", "city", "orbit")


def options(scene: str, **changes: object) -> SceneOptions:
    small = SceneOptions(cameras=40, points=2000)
    return replace(small, scene=scene, **changes)  # type: ignore[arg-type]


def weighted_errors(p: Problem) -> Floats:
    """ω e of every observation, from the formula."""
    R, t, d = (a[p.camera_index] for a in (p.rotations, p.centers, p.intrinsics))
    s = (p.u**2).sum(axis=1)
    ray = np.column_stack([p.u, d[:, 0] + d[:, 1] * s + d[:, 2] * s**2])
    q = np.einsum("kxy,ky->kx", R, ray)
    delta = p.points[p.point_index] - t
    scale = (delta * q).sum(axis=1) / (delta**2).sum(axis=1)
    return p.weights[:, None] * (q - scale[:, None] * delta)


def mean_objective(p: Problem) -> float:
    return float(0.5 * (weighted_errors(p) ** 2).sum() / p.num_observations)


def in_camera(p: Problem) -> Floats:
    delta = p.points[p.point_index] - p.centers[p.camera_index]
    return np.einsum("kx,kxy->ky", delta, p.rotations[p.camera_index])


def components(p: Problem) -> int:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n = p.num_cameras + p.num_points
    ends = (p.camera_index, p.point_index + p.num_cameras)
    return int(connected_components(coo_matrix((np.ones(p.num_observations), ends), (n, n)))[0])


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize(
    ("cameras", "points", "observations"),
    [(2, 8, None), (12, 300, 900), (40, 2000, 10_000), (40, 2000, 7_777), (150, 3000, 6000)],
)
def test_counts_are_exact(scene: str, cameras: int, points: int, observations: int | None) -> None:
    p = generate(options(scene, cameras=cameras, points=points, observations=observations)).truth
    assert (p.num_cameras, p.num_points) == (cameras, points)
    assert p.num_observations == (observations or 2 * points)
    assert np.bincount(p.point_index, minlength=points).min() >= 2
    assert np.bincount(p.camera_index, minlength=cameras).min() >= min(10, points)
    pairs = p.point_index.astype(np.int64) * cameras + p.camera_index
    assert (np.diff(pairs) > 0).all()  # sorted, and none twice


@pytest.mark.parametrize("scene", SCENES)
def test_truth_without_noise_has_no_error(scene: str) -> None:
    p = generate(options(scene, noise=0.0)).truth
    assert mean_objective(p) < 1e-20


@pytest.mark.parametrize("scene", SCENES)
def test_points_are_in_front_and_in_the_picture(scene: str) -> None:
    p = generate(options(scene, noise=0.0)).truth
    assert (in_camera(p)[:, 2] > 0.1).all()
    assert (np.abs(p.pixels) <= HALF_IMAGE).all()


@pytest.mark.parametrize("scene", SCENES)
def test_noise_has_the_wanted_size(scene: str) -> None:
    noise = 0.8
    p = generate(options(scene, noise=noise)).truth
    # ω is exact along the radius; across it an error counts 1/cos θ times.
    y = in_camera(p)
    wanted = noise**2 * (1 + ((y**2).sum(axis=1) / y[:, 2] ** 2).mean())
    assert (weighted_errors(p) ** 2).sum(axis=1).mean() == pytest.approx(wanted, rel=0.05)
    assert 2 * noise**2 < wanted < 3 * noise**2


def test_outliers_are_as_many_as_wanted() -> None:
    p = generate(options("city", outliers=0.1)).truth
    far = np.linalg.norm(weighted_errors(p), axis=1) > 10.0
    assert far.mean() == pytest.approx(0.1, abs=0.005)


@pytest.mark.parametrize("scene", SCENES)
def test_same_seed_same_bits(scene: str) -> None:
    a, b, c = (generate(options(scene, seed=seed)) for seed in (3, 3, 4))
    for name in ("cameras", "points", "camera_index", "point_index", "u", "weights", "focal"):
        assert np.array_equal(getattr(a.start, name), getattr(b.start, name))
        assert np.array_equal(getattr(a.truth, name), getattr(b.truth, name))
    assert not np.array_equal(a.truth.points, c.truth.points)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("cameras", [10, 30, 100, 300])
def test_scenes_are_connected(scene: str, cameras: int) -> None:
    p = generate(options(scene, cameras=cameras, points=40 * cameras)).truth
    assert components(p) == 1


@pytest.mark.parametrize("scene", SCENES)
def test_tracks_are_short_with_a_tail(scene: str) -> None:
    p = generate(SceneOptions(scene=scene, cameras=100, points=5000, observations=25_000)).truth  # type: ignore[arg-type]
    share = np.bincount(np.bincount(p.point_index)) / p.num_points
    assert share[2] > 0.1
    assert share[2] > share[8] > 0
    assert share[10:].sum() > 0.02


def test_views_are_local_in_a_street_and_dense_in_an_orbit() -> None:
    def pairs(scene: str) -> float:
        """Share of all pairs of cameras that see a point together."""
        p = generate(options(scene, cameras=200, points=8000)).truth
        seen = np.zeros((p.num_points, p.num_cameras), np.float32)
        seen[p.point_index, p.camera_index] = 1
        return float((seen.T @ seen > 0).mean())

    street, city, orbit = (pairs(scene) for scene in SCENES)
    assert street < 0.2
    assert city < 0.3
    assert orbit > 0.5


def test_no_one_sees_through_a_block() -> None:
    from daba.tools.synthetic.city import HALF_WIDTH, PITCH

    p = generate(options("city", cameras=150, points=3000)).truth
    a, b = p.centers[p.camera_index, :2], p.points[p.point_index, :2]
    for part in np.linspace(0.02, 0.9, 45):  # the last bit may lie in a window's recess
        place = a + part * (b - a)
        off = np.abs(place - PITCH * np.rint(place / PITCH))
        inside = (off > HALF_WIDTH + 0.5).all(axis=1)
        assert not inside.any()


@pytest.mark.parametrize("scene", SCENES)
def test_start_is_wrong_but_not_lost(scene: str) -> None:
    made = generate(options(scene))
    assert made.start.u is made.truth.u
    assert 30 < mean_objective(made.start) < 1000  # some 10 to 40 pixels
    assert (in_camera(made.start)[:, 2] > 0).all()
    made.start.validated()


def test_no_perturbation_starts_at_the_truth() -> None:
    still = options(
        "city",
        rotation_error=0.0,
        center_error=0.0,
        point_error=0.0,
        focal_error=0.0,
        drift=0.0,
        distortion=0.0,
    )
    made = generate(still)
    assert np.allclose(made.start.cameras, made.truth.cameras, atol=1e-14)
    assert np.array_equal(made.start.points, made.truth.points)


def test_image_points_invert_the_ray() -> None:
    rng = np.random.default_rng(1)
    u = rng.uniform(-0.9, 0.9, (500, 2))
    d = np.array([1.0, -0.05, 0.005]) * rng.uniform(0.8, 1.2, (500, 3))
    s = (u**2).sum(axis=1)
    ray = np.column_stack([u, d[:, 0] + d[:, 1] * s + d[:, 2] * s**2])
    assert np.abs(image_points(7.3 * ray, d) - u).max() < 1e-14


@pytest.mark.parametrize("total", [200, 201, 350, 999, 1000])
def test_track_lengths_sum_up(total: int) -> None:
    most = np.full(100, 10, np.int32)
    n = track_lengths(np.random.default_rng(0), most, total)
    assert n.sum() == total
    assert n.min() >= 2
    assert n.max() <= 10


def test_too_many_observations_give_what_is_there_and_say_so() -> None:
    with pytest.warns(DabaWarning, match="possible in this street"):
        p = generate(options("street", observations=70_000)).truth
    assert 10_000 < p.num_observations < 70_000


def test_half_a_million_observations() -> None:
    p = generate(SceneOptions(cameras=1000, points=100_000)).truth
    assert p.num_observations == 500_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cameras": 1}, "at least 2 cameras"),
        ({"points": 7}, "at least 8 points"),
        ({"observations": 3999}, "allow 4000 .* to 80000"),
        ({"observations": 80_001}, "allow 4000 .* to 80000"),
        ({"noise": -0.1}, "noise must be"),
        ({"noise": float("nan")}, "noise must be"),
        ({"outliers": 1.0}, "outliers is a share"),
        ({"drift": -1.0}, "drift must be"),
        ({"distortion": 0.5}, "distortion may be at most"),
        ({"seed": -1}, "seed must be"),
        ({"scene": "forest"}, "street, city, orbit"),
    ],
)
def test_impossible_wishes_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DabaError, match=message):
        generate(replace(options("city"), **changes))  # type: ignore[arg-type]
