"""The two sides of a problem, each from the other: cameras as rays, and in pixels.

SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL and RADIAL are ours: u = ((x − cx) / fx, (y − cy) / fy), and
the polynomial d1 + d2 s + d3 s² says the rest. A pinhole is (1, 0, 0), and d1 scales its focal
lengths; f, k1 and k2 of the others become d1, d2 and d3 by a fit over the camera's own
observations. SIMPLE_RADIAL has no k2, so its d3 is fixed: a third number would fit noise that f
and k cannot take back.

Every other model keeps its intrinsics as long as rays are adjusted. Its pixels are unit rays b, and
those become u = 2 b.xy / (1 + b.z) with d = (1, −¼, 0), which is the stereographic projection:
(u, 1 − |u|²/4) is parallel to b for every b but the one straight backwards.

ω is the square root of how much an area of rays grows on its way to the image, over |(u, z)|: then
ω|e| is a pixel error to first order, on the average of directions. (The paper's f √(1 + s), which
BAL and Bundler have, counts errors around the axis too much in wide images.)
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from daba.core.camera_models import BY_ID, MODELS, PARAMETERS, project, unproject
from daba.core.errors import DabaError, DabaWarning
from daba.core.types import distinct
from daba.problem.checks import beside_centers, check_observations, check_variables
from daba.problem.intrinsics import (
    STEREOGRAPHIC,
    fit_forward,
    forward_residual,
    forward_rows,
    rays_from_forward,
)
from daba.problem.optics import Optics, towards_points
from daba.problem.problem import Bools, Floats, Ints, Problem, pixel_weights

RADIAL = MODELS["RADIAL"].id
COEFFICIENTS = {
    MODELS["SIMPLE_PINHOLE"].id: (True, False, False),
    MODELS["PINHOLE"].id: (True, False, False),
    MODELS["SIMPLE_RADIAL"].id: (True, True, False),
    RADIAL: (True, True, True),
}
"""Models whose intrinsics rays can adjust, and which of d1, d2 and d3 do."""

_FLAT = 0.05  # least growth of an image's radius that weights believe in
_NO_RAY = 1e-3  # of the focal length: ω of a pixel that no ray is seen at


def free_coefficients(optics: Optics) -> Bools:
    """Which of d1, d2 and d3 of each camera may change, (N, 3)."""
    fixed = (False, False, False)
    return np.array([COEFFICIENTS.get(number, fixed) for number in optics.model.tolist()])


def ray_side(problem: Problem) -> dict[str, Any]:
    """`cameras`, `u`, `weights` and `focal` of a problem that is given in pixels, and its optics,
    which know them now. How well d fits is in `info["intrinsics_fit"]`."""
    optics, cam = problem.given_optics, problem.camera_index
    assert optics is not None
    assert optics.pixels is not None
    lens = lenses(optics)
    focal = np.sqrt(lens[:, 0] * lens[:, 1])
    group = optics.camera[cam]
    with np.errstate(all="ignore"):
        u = (optics.pixels - lens[group, 2:4]) / lens[group, :2]
        d, weights = _polynomial_rays(problem, lens, focal, group, u)
        _other_rays(problem, optics, focal, group, u, weights)
    cameras = np.hstack([problem.poses, d[optics.camera]])
    focals = focal[optics.camera]
    try:
        check_variables(cameras, problem.points, focals)
        beside = beside_centers(problem.points, cameras[:, 9:12])
        check_observations(cameras, problem.points, cam, problem.point_index, u, weights, beside)
    except DabaError as error:  # the file has long been read
        raise DabaError(f"{problem.name}: its pixels and cameras give no rays: {error}") from None
    rays = np.ascontiguousarray(cameras[:, 12:])
    known = replace(optics, rays=rays, pixels=None if optics.bundler else optics.pixels)
    return {
        "cameras": cameras,
        "u": np.ascontiguousarray(u),
        "weights": weights,
        "focal": focals,
        "given_optics": known,
    }


def _polynomial_rays(
    problem: Problem, lens: Floats, focal: Floats, group: Ints, u: Floats
) -> tuple[Floats, Floats]:
    """d of all cameras, (N, 3), and ω of the observations of those that are ours."""
    optics = problem.given_optics
    assert optics is not None
    ours = is_ours(optics)
    own = slice(None) if ours.all() else np.flatnonzero(ours[group])
    d = np.tile(STEREOGRAPHIC, (len(ours), 1))
    fitted, problem.info["intrinsics_fit"] = rays_from_forward(
        group[own], u[own], focal, lens[:, 4:]
    )
    d[ours] = fitted[ours]
    weights = np.empty(len(u))
    if optics.bundler:
        weights[own] = pixel_weights(u[own], focal[group[own]])
    else:
        weights[own] = _ray_weights(u[own], d[group[own]], focal[group[own]])
    return d, weights


def _other_rays(
    problem: Problem, optics: Optics, focal: Floats, group: Ints, u: Floats, weights: Floats
) -> None:
    """u and ω of the observations of cameras that are not ours, put where they belong."""
    assert optics.pixels is not None
    lost = 0
    for number in distinct(optics.model[~is_ours(optics)]).tolist():
        model = BY_ID[number]
        k = np.flatnonzero((optics.model == number)[group])
        params = optics.params[group[k], : model.count]
        b = unproject(model, params, optics.pixels[k])
        none = ~np.isfinite(b).all(axis=1)
        b[none] = towards_points(problem, k[none])
        u[k] = 2 * b[:, :2] / (1 + b[:, 2:])
        J = project(model, params, b).point
        area = np.abs(np.einsum("ki,ki->k", np.cross(J[:, 0], J[:, 1]), b))
        f = focal[group[k]]
        scale = np.sqrt(np.where(area > (_FLAT * f) ** 2, area, f**2))
        scale[none] = _NO_RAY * f[none]
        weights[k] = scale / (1 + 0.25 * np.einsum("kx,kx->k", u[k], u[k]))
        lost += int(none.sum())
    if lost:
        warnings.warn(
            f"'{problem.name}': {lost} observations count only in pixels, because no ray has its "
            "image there",
            DabaWarning,
            stacklevel=5,
        )


def optics_in_step(problem: Problem) -> Optics:
    """The optics with the intrinsics that the rays of a problem say now, where these have moved,
    and with what its user has fixed."""
    optics = problem.given_optics
    if optics is None:
        optics = _optics_of_rays(problem)
    elif problem.has_rays:
        optics = _moved(problem, optics)
    free = problem.free_cameras
    return optics if free is None or free.all() else optics.with_fixed(free)


def _optics_of_rays(problem: Problem) -> Optics:
    C = problem.num_cameras
    camera = np.arange(C, dtype=np.int32)
    if problem.shared is not None:
        camera = np.unique(problem.shared, return_inverse=True)[1].reshape(-1).astype(np.int32)
    first = np.unique(camera, return_index=True)[1]
    rows = forward_rows(
        camera[problem.camera_index], problem.u, problem.focal[first], problem.intrinsics[first]
    )
    return radial_optics(camera, rows, np.ascontiguousarray(problem.intrinsics))


def radial_optics(camera: Ints, rows: Floats, rays: Floats | None = None) -> Optics:
    """Optics of images whose cameras (N, 3) are f, k1, k2, in the pixels of BAL and Bundler."""
    params = np.zeros((len(rows), PARAMETERS))
    params[:, [0, 3, 4]] = rows
    unset = np.zeros(params.shape, bool)
    model = np.full(len(rows), RADIAL, np.int32)
    optics = Optics(camera, model, params, unset, None, bundler=True, rays=rays)
    return optics.with_refined()


def _moved(problem: Problem, optics: Optics) -> Optics:
    if optics.rays is None or np.array_equal(optics.rays, problem.intrinsics):
        return optics
    d = np.ascontiguousarray(problem.intrinsics)
    first = np.unique(optics.camera, return_index=True)[1]
    if (d != d[first][optics.camera]).any():  # images of a camera that have it to themselves now
        return _moved(problem, optics.with_cameras(np.arange(len(d), dtype=np.int32)))
    moved = (d != optics.rays).any(axis=1)[first]
    group = optics.camera[problem.camera_index]
    k = np.flatnonzero(moved[group])
    params = optics.params.copy()
    given = group[k], problem.u[k], problem.focal[first], d[first]
    if optics.bundler:
        params[np.ix_(moved, [0, 3, 4])] = forward_rows(*given)[moved]
    else:
        params[moved] = _params_of_rays(optics, *given)[moved]
    return replace(optics, params=params, rays=d)


def _params_of_rays(optics: Optics, group: Ints, u: Floats, focal: Floats, d: Floats) -> Floats:
    """Parameters of all cameras, (N, 16), with those that are ours fitted to rays d (N, 3)."""
    params = optics.params.copy()
    number = optics.model
    for name, focals in (("SIMPLE_PINHOLE", 1), ("PINHOLE", 2)):
        some = number == MODELS[name].id
        params[some, :focals] *= d[some, :1] / _scale_of(optics)[some, None]
    for name, terms in (("SIMPLE_RADIAL", 2), ("RADIAL", 3)):
        some = number == MODELS[name].id
        k = np.flatnonzero(some[group])
        if len(k):
            f, k1, k2 = fit_forward(group[k], u[k], focal, d, terms)[some].T
            params[some, 0], params[some, 3] = f, k1
            if terms == 3:
                params[some, 4] = k2
    return params


def _scale_of(optics: Optics) -> Floats:
    """d1 of the rays that stand for the parameters of each camera."""
    assert optics.rays is not None
    return optics.rays[np.unique(optics.camera, return_index=True)[1], 0]


def rays_fit(problem: Problem) -> dict[str, float]:
    """How far from its pixel each ray of a camera that is ours is seen by the parameters that its
    file gets: `rms_px` and `max_px`."""
    optics = problem.optics
    focal = np.empty(len(optics.model))
    focal[optics.camera] = problem.focal
    d = np.empty((len(focal), 3))
    d[optics.camera] = problem.intrinsics
    lens = lenses(optics)
    group = optics.camera[problem.camera_index]
    radial = np.isin(optics.model, [MODELS["SIMPLE_RADIAL"].id, RADIAL])
    k = np.flatnonzero(radial[group])
    if not len(k):
        return {"rms_px": 0.0, "max_px": 0.0}
    rows = np.column_stack([lens[:, 0], lens[:, 4:]])
    off = forward_residual(group[k], problem.u[k], focal, d, rows)
    return {"rms_px": float(np.sqrt(np.mean(off**2))), "max_px": float(off.max())}


def lenses(optics: Optics) -> Floats:
    """fx, fy, cx, cy, k1, k2 of cameras that are ours, (N, 6); of others a focal length twice, and
    zeros."""
    rows = np.zeros((len(optics.model), 6))
    for number in distinct(optics.model).tolist():
        model, some = BY_ID[number], optics.model == number
        p = optics.params[some]
        if number not in COEFFICIENTS:
            rows[some, :2] = _mean_focal(model.focals, p)[:, None]
            continue
        f = model.focals
        rows[some, 0], rows[some, 1] = p[:, 0], p[:, f - 1]
        rows[some, 2:4] = p[:, f : f + 2]
        rows[some, 4 : 4 + len(model.extra)] = p[:, f + 2 : model.count]
    return rows


def is_ours(optics: Optics) -> Bools:
    """Whether each camera's model is one that rays can adjust, (N,)."""
    return np.isin(optics.model, list(COEFFICIENTS))


def _mean_focal(focals: int, params: Floats) -> Floats:
    if focals == 0:
        return np.asarray(params[:, 0] / (2 * np.pi))  # pixels in a radian
    return np.asarray(params[:, :focals].mean(axis=1))


def _ray_weights(u: Floats, d: Floats, focal: Floats) -> Floats:
    """ω of observations u of cameras that are ours.

    Of an error e across the ray p = (u, z), the part around the axis is seen as f |e|, the part
    towards it as f |e| |p| / (d1 − d2 s − 3 d3 s²).
    """
    s = np.einsum("kx,kx->k", u, u)
    d1, d2, d3 = d.T
    long = np.sqrt(s + (d1 + s * (d2 + s * d3)) ** 2)
    return np.asarray(focal * np.sqrt(long / np.maximum(d1 - s * (d2 + 3 * s * d3), _FLAT * long)))
