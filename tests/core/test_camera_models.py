"""COLMAP's camera models against pycolmap, and their derivatives against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daba.core.camera_models import BY_ID, MODELS, CameraModel, project, unproject

pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is not installed")

EXTRA = {
    "k": [0.05],
    "k1,k2": [-0.1, 0.02],
    "k1,k2,p1,p2": [-0.1, 0.03, 1e-3, -2e-3],
    "k1,k2,k3,k4": [0.02, -0.01, 3e-3, -1e-3],
    "k1,k2,p1,p2,k3,k4,k5,k6": [-0.1, 0.02, 1e-3, -1e-3, 0.01, 0.05, -0.01, 0.002],
    "omega": [0.8],
    "k1,k2,p1,p2,k3,k4,sx1,sy1": [0.02, -0.01, 1e-3, -2e-3, 0.003, -0.001, 1e-3, -5e-4],
    "k0,k1,k2,k3,k4,k5,p0,p1,s0,s1,s2,s3": [
        0.02, -0.01, 0.003, -0.001, 2e-4, -1e-4, 1e-3, -2e-3, 1e-3, -2e-4, 5e-4, 1e-4,
    ],
    "alpha,beta": [0.6, 1.1],
    "": [],
}  # fmt: skip
"""A plausible value of every extra parameter, by the names of all of a model."""


def some_camera(model: CameraModel) -> np.ndarray:
    if model.focals == 0:
        return np.array([640.0, 480.0])
    focal = [500.0] if model.focals == 1 else [500.0, 510.0]
    return np.array([*focal, 320.0, 240.0, *EXTRA[",".join(model.extra)]])


def some_points(seed: int = 0) -> np.ndarray:
    """In front of the camera: all over its field, close to its axis, and on it."""
    random = np.random.default_rng(seed)
    wide = random.normal(size=(300, 3)) * [0.5, 0.5, 0.2] + [0, 0, 1.2]
    near = random.normal(size=(50, 3)) * [1e-3, 1e-3, 0] + [0, 0, 1]
    nearer = random.normal(size=(20, 3)) * [1e-6, 1e-6, 0] + [0, 0, 2]
    return np.concatenate([wide[wide[:, 2] > 0.2], near, nearer, [[0.0, 0.0, 1.0]]])


def theirs(model: CameraModel, params: np.ndarray) -> Any:
    camera = pycolmap.Camera.create_from_model_name(1, model.name, 500.0, 640, 480)
    camera.params = params
    return camera


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda m: m.name)
def test_pixels_are_those_of_colmap(model: CameraModel) -> None:
    params, x = some_camera(model), some_points()
    camera = theirs(model, params)
    assert int(camera.model) == model.id
    assert camera.params_info.replace("w,h", "width, height").split(", ") == [*model.parameters]
    found = project(model, np.tile(params, (len(x), 1)), x)
    assert found.seen.all()
    expected = np.array([camera.img_from_cam(p) for p in x])
    np.testing.assert_allclose(found.pixels, expected, atol=1e-10)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda m: m.name)
def test_what_colmap_does_not_see_is_not_seen(model: CameraModel) -> None:
    params = some_camera(model)
    x = np.array([[0.3, 0.2, 0.0], [0.3, 0.2, -0.1], [0.3, 0.2, -1.0], [-0.4, 0.1, 0.3]])
    camera = theirs(model, params)
    expected = [camera.img_from_cam(p) is not None for p in x]
    found = project(model, np.tile(params, (len(x), 1)), x)
    if model.projection == "division":  # COLMAP mirrors what is behind such a camera
        expected[2] = False
    np.testing.assert_array_equal(found.seen, expected)


WITHOUT_EDGE = ("panorama", "division")


@pytest.mark.parametrize(
    "model",
    [m for m in MODELS.values() if m.projection not in WITHOUT_EDGE],
    ids=lambda m: m.name,
)
def test_what_a_turn_by_rounding_hides_is_not_seen(model: CameraModel) -> None:
    """In the plane of the camera by all that a file can tell: COLMAP may find it behind."""
    params = np.tile(some_camera(model), (3, 1))
    x = np.array([[0.3, 0.2, 1e-10], [-4e3, 1e3, 1e-6], [0.3, 0.2, 1e-6]])
    np.testing.assert_array_equal(project(model, params, x).seen, [False, False, True])


def test_a_division_lens_ends_before_its_rim() -> None:
    """There q² = w² − 4 k r² is rounding."""
    model, k = MODELS["SIMPLE_DIVISION"], 0.1
    params = np.array([[500.0, 320.0, 240.0, k]])
    rim = 2.0 * np.sqrt(k)  # w / r where q is 0
    for beyond, seen in ((-1e-12, False), (1e-15, False), (1e-14, False), (1e-9, True)):
        found = project(model, params, np.array([[0.6, 0.8, rim * (1.0 + beyond)]]))
        assert bool(found.seen[0]) is seen


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda m: m.name)
def test_derivatives_are_those_of_differences(model: CameraModel) -> None:
    params, x = some_camera(model), some_points(1)
    all_params = np.tile(params, (len(x), 1))
    found = project(model, all_params, x)

    def differences(step: np.ndarray, of_camera: bool) -> np.ndarray:
        change = (step, 0.0) if of_camera else (0.0, step)
        ahead, behind = (
            project(model, all_params + s * change[0], x + s * change[1]).pixels for s in (1, -1)
        )
        return np.asarray((ahead - behind) / (2 * np.abs(step).max()))

    for axis in range(3):
        expected = differences(1e-6 * np.eye(3)[axis], of_camera=False)
        np.testing.assert_allclose(found.point[:, :, axis], expected, rtol=1e-6, atol=2e-5)
    for n in range(model.count if model.focals else 0):
        step = 1e-6 * max(1.0, abs(params[n])) * np.eye(model.count)[n]
        expected = differences(step, of_camera=True)
        np.testing.assert_allclose(found.parameters[:, :, n], expected, rtol=1e-6, atol=2e-5)


@pytest.mark.parametrize("omega", [0.0, 1e-4, 5e-3, 0.02, 0.3, 1.2])
@pytest.mark.parametrize("radius", [0.0, 1e-4, 5e-3, 0.02, 0.5])
def test_a_field_of_view_has_no_seam(omega: float, radius: float) -> None:
    """Series and quotients meet: against a sum in many digits."""
    from fractions import Fraction
    from math import tan

    t = 2 * tan(omega / 2)
    z = Fraction(radius * t) ** 2
    series = sum((-z) ** n / (2 * n + 1) for n in range(40)) if z < 0.5 else None
    model = MODELS["FOV"]
    params = np.array([[1.0, 1.0, 0.0, 0.0, omega]])
    found = project(model, params, np.array([[radius, 0.0, 1.0]])).pixels[0, 0]
    if series is not None:
        scale = t / omega if omega else 1.0
        assert found == pytest.approx(radius * scale * float(series), rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda m: m.name)
def test_a_pixel_goes_back_to_its_ray(model: CameraModel) -> None:
    params = some_camera(model)
    pixels = np.random.default_rng(2).uniform([0, 0], [640, 480], (200, 2))
    tiled = np.tile(params, (200, 1))
    rays = unproject(model, tiled, pixels)
    np.testing.assert_allclose(np.linalg.norm(rays, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(project(model, tiled, rays).pixels, pixels, atol=1e-8)


def test_a_pixel_that_no_ray_has_its_image_at() -> None:
    """A barrel that bends back: the image of all rays ends before the corner of the sensor."""
    model = MODELS["SIMPLE_RADIAL"]
    rays = unproject(model, np.array([[500.0, 320.0, 240.0, -0.5]]), np.array([[3000.0, 240.0]]))
    assert np.isnan(rays).all()


def test_models_by_number() -> None:
    assert {model.id for model in MODELS.values()} == set(range(18))
    assert BY_ID[4].parameters == ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2")


def test_what_is_refined_as_colmap_says_it() -> None:
    opencv, pinhole = MODELS["OPENCV"], MODELS["SIMPLE_PINHOLE"]
    assert opencv.indices(focal=True, principal=False, extra=True) == (0, 1, 4, 5, 6, 7)
    assert opencv.indices(focal=False, principal=True, extra=False) == (2, 3)
    assert pinhole.indices(focal=True, principal=True, extra=True) == (0, 1, 2)
    assert MODELS["EQUIRECTANGULAR"].indices(True, True, True) == ()


@pytest.mark.parametrize("f", [15.0, 900.0])
def test_colmap_projects_a_field_of_view_as_we_do_where_solves_go(f: float) -> None:
    """What `least` is for: below it COLMAP's projection of wide lenses is another one."""
    pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is not installed")
    model, x = MODELS["FOV"], np.array([[1024.0 / f, 0.0, 1.0]])

    def apart(omega: float) -> float:
        params = [f, f, 512.0, 384.0, omega]
        camera = pycolmap.Camera(model="FOV", width=1024, height=768, params=params)
        ours = project(model, np.array([params]), x).pixels[0]
        return float(np.abs(camera.img_from_cam(x[0]) - ours).max())

    assert apart(1.001 * model.least) < 1e-9
    below = apart(0.999 * model.least)
    assert below > 10.0 if f < 512.0 else below < 0.1
