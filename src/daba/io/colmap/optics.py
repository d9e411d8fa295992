"""COLMAP's camera models as rays, and back.

SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL and RADIAL are ours: u = ((x − cx) / fx, (y − cy) / fy), and
the polynomial d1 + d2 s + d3 s² says the rest. A pinhole is (1, 0, 0), and d1 scales its focal
lengths; f, k1 and k2 of the others become d1, d2 and d3 by a fit over the camera's own
observations. SIMPLE_RADIAL has no k2, so its d3 is fixed: a third number would fit noise that f
and k cannot take back.

Every other model keeps its intrinsics. pycolmap turns its pixels into unit rays b, and those into
u = 2 b.xy / (1 + b.z) with d = (1, −¼, 0), which is the stereographic projection:
(u, 1 − |u|²/4) is parallel to b for every b but the one straight backwards.

ω is the square root of how much an area of rays grows on its way to the image, over |(u, z)|: then
ω|e| is a pixel error to first order, on the average of directions. (The paper's f √(1 + s) counts
errors around the axis too much in wide images.)
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.io.colmap.parts import Camera
from daba.problem.intrinsics import STEREOGRAPHIC, fit_forward, forward_residual, rays_from_forward
from daba.problem.problem import Floats, Ints, Problem

NATIVE = {
    "SIMPLE_PINHOLE": (True, False, False),
    "PINHOLE": (True, False, False),
    "SIMPLE_RADIAL": (True, True, False),
    "RADIAL": (True, True, True),
}
"""Models with intrinsics to be optimised, and which of d1, d2 and d3 are."""

_STEP = 1e-6  # of a ray, for the derivative of its pixel
_FLAT = 0.05  # least growth of an image's radius that weights believe in


class Rays(NamedTuple):
    """Observations of some cameras as rays."""

    u: Floats
    weights: Floats
    d: Floats
    """(G,3)."""
    focal: Floats
    """(G,)."""
    fit: dict[str, Any]
    """How well d fits the cameras, as `daba.problem.intrinsics.rays_from_forward` says it."""


def lens(camera: Camera) -> list[float]:
    """fx, fy, cx, cy, k1, k2 of a native model; of another a focal length twice, and zeros."""
    p = camera.params.tolist()
    if camera.model == "PINHOLE":
        return [*p, 0.0, 0.0]
    if camera.model in NATIVE:
        return [p[0], *p, *([0.0] * (5 - len(p)))]
    return [_mean_focal(camera)] * 2 + [0.0] * 4


def params(camera: Camera, values: Floats) -> Floats:
    """The parameters of a native camera with another lens."""
    fx, fy, cx, cy, k1, k2 = values.tolist()
    count = len(camera.params)
    return np.array([fx, fy, cx, cy] if camera.model == "PINHOLE" else [fx, cx, cy, k1, k2][:count])


def rays(cameras: Sequence[Camera], lenses: Floats, group: Ints, xy: Floats) -> Rays:
    """Pixels `xy` (K,2) of cameras `group` (K,) with these lenses (G,6) as rays; NaN where a pixel
    is the image of none."""
    focal = np.sqrt(lenses[:, 0] * lenses[:, 1])
    native = is_native(cameras)
    d = np.tile(STEREOGRAPHIC, (len(cameras), 1))
    u = (xy - lenses[group, 2:4]) / lenses[group, :2]
    own = np.flatnonzero(native[group])
    weights = np.empty(len(u))
    fitted, fit = rays_from_forward(group[own], u[own], focal, lenses[:, 4:])
    d[native] = fitted[native]
    weights[own] = ray_weights(u[own], d[group[own]], focal[group[own]])
    for g, k in _by_camera(group, ~native):
        u[k], weights[k] = _undistorted(cameras[g], xy[k])
    return Rays(u, weights, d, focal, fit)


def lenses_of(
    cameras: Sequence[Camera], lenses: Floats, d: Floats, group: Ints, u: Floats
) -> tuple[Floats, dict[str, float]]:
    """The lenses of native cameras whose rays were made with `lenses` and are now d (G,3), and how
    far from its pixel each ray of u (K,2) is seen: `rms_px` and `max_px`."""
    focal = np.sqrt(lenses[:, 0] * lenses[:, 1])
    new = lenses.copy()
    native = is_native(cameras)
    new[native, :2] *= d[native, :1]
    model = np.array([camera.model for camera in cameras])
    square, count, worst = 0.0, 0, 0.0
    for name, terms in (("SIMPLE_RADIAL", 2), ("RADIAL", 3)):
        k = np.flatnonzero((model == name)[group])
        if not len(k):
            continue
        fitted = fit_forward(group[k], u[k], focal, d, terms)
        some = model == name
        new[some] = np.column_stack([fitted[:, [0, 0]], lenses[:, 2:4], fitted[:, 1:]])[some]
        off = forward_residual(group[k], u[k], focal, d, fitted)
        square, count = square + float(off @ off), count + len(off)
        worst = max(worst, float(off.max()))
    return new, {"rms_px": (square / max(count, 1)) ** 0.5, "max_px": worst}


def project(cameras: Sequence[Camera], lenses: Floats, group: Ints, x: Floats) -> Floats:
    """Pixels (K,2) at which cameras see points x (K,3) of their own frames; NaN where they do
    not."""
    fx, fy, cx, cy, k1, k2 = lenses[group].T
    with np.errstate(all="ignore"):
        p = np.where(x[:, 2:] > 0, x[:, :2] / x[:, 2:], np.nan)
        r2 = np.einsum("kx,kx->k", p, p)
        p *= (1 + r2 * (k1 + r2 * k2))[:, None]
        pixels = np.column_stack([fx * p[:, 0] + cx, fy * p[:, 1] + cy])
    for g, k in _by_camera(group, ~is_native(cameras)):
        pixels[k] = _theirs(cameras[g]).img_from_cam(x[k])
    return pixels


def check_forward(problem: Problem) -> None:
    """Raise `DabaError` if cameras read from a COLMAP model cannot be written as (f, k1, k2)."""
    from daba.io.colmap.model import Model

    info = problem.info
    cameras = Model(info["colmap"]["path"]).camera_by_id
    for camera in (cameras[int(number)] for number in info["lens_ids"]):
        if camera.model not in NATIVE:
            raise DabaError(
                f"camera {camera.id} is {camera.model}, which BAL and Bundler cannot express; they "
                "have a focal length and two coefficients of radial distortion"
            )
    lenses = np.asarray(info["lens"])
    uneven = np.flatnonzero(lenses[:, 0] != lenses[:, 1])
    if len(uneven):
        warnings.warn(
            f"camera {info['lens_ids'][uneven[0]]} has different fx and fy, and BAL and Bundler "
            "one focal length: its pixels are written as if they were square",
            DabaWarning,
            stacklevel=4,
        )


def ray_weights(u: Floats, d: Floats, focal: Floats) -> Floats:
    """ω of observations u of native cameras.

    Of an error e across the ray p = (u, z), the part around the axis is seen as f |e|, the part
    towards it as f |e| |p| / (d1 − d2 s − 3 d3 s²).
    """
    s = np.einsum("kx,kx->k", u, u)
    d1, d2, d3 = d.T
    long = np.sqrt(s + (d1 + s * (d2 + s * d3)) ** 2)
    return np.asarray(focal * np.sqrt(long / np.maximum(d1 - s * (d2 + 3 * s * d3), _FLAT * long)))


def is_native(cameras: Sequence[Camera]) -> np.ndarray:
    return np.array([camera.model in NATIVE for camera in cameras], bool)


def pycolmap() -> Any:
    """The module, or an error that says how to get it."""
    try:
        import pycolmap
    except ImportError as error:
        raise DabaError(
            "this COLMAP model needs pycolmap, which is not installed: pip install 'daba[colmap]'"
        ) from error
    return pycolmap


def _undistorted(camera: Camera, xy: Floats) -> tuple[Floats, Floats]:
    """u and ω of pixels of a camera that keeps its intrinsics."""
    theirs = _theirs(camera)
    b = theirs.cam_ray_from_img(xy)
    with np.errstate(all="ignore"):
        u = 2 * b[:, :2] / (1 + b[:, 2:])
    across = np.cross(b, np.where(np.abs(b[:, :1]) < 0.5, [[1.0, 0, 0]], [[0, 1.0, 0]]))
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    J = [
        (theirs.img_from_cam(b + _STEP * t) - theirs.img_from_cam(b - _STEP * t)) / (2 * _STEP)
        for t in (across, np.cross(b, across))
    ]
    area = np.abs(J[0][:, 0] * J[1][:, 1] - J[0][:, 1] * J[1][:, 0])
    focal = _mean_focal(camera)
    scale = np.sqrt(np.where(area > (_FLAT * focal) ** 2, area, focal**2))
    return u, scale / (1 + 0.25 * np.einsum("kx,kx->k", u, u))


def _theirs(camera: Camera) -> Any:
    return pycolmap().Camera(
        camera_id=camera.id,
        model=camera.model,
        width=camera.width,
        height=camera.height,
        params=camera.params.tolist(),
    )


def _mean_focal(camera: Camera) -> float:
    if camera.model == "EQUIRECTANGULAR":
        return float(camera.params[0] / (2 * np.pi))  # pixels in a radian
    return float(_theirs(camera).mean_focal_length())


def _by_camera(group: Ints, chosen: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The observations of each of the chosen cameras."""
    k = np.flatnonzero(chosen[group])
    k = k[np.argsort(group[k], kind="stable")]
    which, first = np.unique(group[k], return_index=True)
    return list(zip(which.tolist(), np.split(k, first[1:]), strict=True)) if len(k) else []
