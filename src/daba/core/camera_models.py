"""COLMAP's camera models: their names, parameters, and pixels of points with derivatives.

Parameters stand in COLMAP's order: focal lengths, principal point, then the extra parameters of the
model's lens (`lenses.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daba.core import lenses
from daba.core.types import Bools, Floats

PARAMETERS = 16
"""Room for the parameters of any model."""


class CameraModel(NamedTuple):
    """One of COLMAP's camera models."""

    name: str
    id: int
    """COLMAP's number of it, in binary files."""
    projection: str
    """On a plane, and"""
    distortion: str
    """of that plane, "" for none: functions of `lenses.py`."""
    focals: int
    """Focal lengths: one or two; 0 for a panorama, whose image is as large as it is."""
    extra: tuple[str, ...]
    """Names of the extra parameters."""
    sided: tuple[str, ...] = ()
    """Those that stay on their side of zero: beyond is no lens, or the same once more."""
    least: float = 0.0
    """As near to zero as they may come where f is shorter than a corner is away, and"""
    most: float = float("inf")
    """as far from it as they may go."""

    @property
    def parameters(self) -> tuple[str, ...]:
        if self.focals == 0:
            return ("width", "height")
        focal = ("f",) if self.focals == 1 else ("fx", "fy")
        return (*focal, "cx", "cy", *self.extra)

    @property
    def count(self) -> int:  # type: ignore[override]
        return len(self.parameters)

    @property
    def first_extra(self) -> int:
        return self.focals + 2

    def indices(self, focal: bool, principal: bool, extra: bool) -> tuple[int, ...]:
        """Which parameters are refined, as COLMAP's users say it."""
        if self.focals == 0:
            return ()
        f, n = self.focals, self.count
        return (
            *(range(f) if focal else ()),
            *(range(f, f + 2) if principal else ()),
            *(range(f + 2, n) if extra else ()),
        )


def _k(*names: str) -> tuple[str, ...]:
    return names


_RTTP = _k("k0", "k1", "k2", "k3", "k4", "k5", "p0", "p1", "s0", "s1", "s2", "s3")
_FULL = _k("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")
_THIN = _k("k1", "k2", "p1", "p2", "k3", "k4", "sx1", "sy1")

MODELS: dict[str, CameraModel] = {
    model.name: model
    for model in (
        CameraModel("SIMPLE_PINHOLE", 0, "perspective", "", 1, ()),
        CameraModel("PINHOLE", 1, "perspective", "", 2, ()),
        CameraModel("SIMPLE_RADIAL", 2, "perspective", "radial_1", 1, _k("k")),
        CameraModel("RADIAL", 3, "perspective", "radial_2", 1, _k("k1", "k2")),
        CameraModel("OPENCV", 4, "perspective", "opencv", 2, _k("k1", "k2", "p1", "p2")),
        CameraModel("OPENCV_FISHEYE", 5, "equidistant", "radial_4", 2, _k("k1", "k2", "k3", "k4")),
        CameraModel("FULL_OPENCV", 6, "perspective", "full_opencv", 2, _FULL),
        # At π all points lie on one circle, and shortly before it COLMAP's own projection has an
        # error of many pixels around the centre: it ends a series there after two terms. Below
        # 0.01 it ends another, whose terms have the wrong sign: wide lenses are off by pixels.
        CameraModel(
            "FOV", 7, "perspective", "fov", 2, _k("omega"), _k("omega"), least=0.01, most=3.0
        ),
        CameraModel("SIMPLE_RADIAL_FISHEYE", 8, "equidistant", "radial_1", 1, _k("k")),
        CameraModel("RADIAL_FISHEYE", 9, "equidistant", "radial_2", 1, _k("k1", "k2")),
        CameraModel("THIN_PRISM_FISHEYE", 10, "equidistant", "thin_prism", 2, _THIN),
        CameraModel(
            "RAD_TAN_THIN_PRISM_FISHEYE", 11, "equidistant", "rad_tan_thin_prism", 2, _RTTP
        ),
        CameraModel("SIMPLE_DIVISION", 12, "division", "", 1, _k("k")),
        CameraModel("DIVISION", 13, "division", "", 2, _k("k")),
        CameraModel("SIMPLE_FISHEYE", 14, "equidistant", "", 1, ()),
        CameraModel("FISHEYE", 15, "equidistant", "", 2, ()),
        CameraModel("EUCM", 16, "eucm", "", 2, _k("alpha", "beta"), _k("alpha", "beta")),
        CameraModel("EQUIRECTANGULAR", 17, "panorama", "", 0, ()),
    )
}
BY_ID: dict[int, CameraModel] = {model.id: model for model in MODELS.values()}

BUNDLER = CameraModel("BUNDLER", -1, "lines", "radial_2", 1, _k("k1", "k2"))
"""RADIAL as BAL and Bundler have it; none of COLMAP's."""


def named(name: str) -> CameraModel:
    """A model, ours included."""
    return BUNDLER if name == BUNDLER.name else MODELS[name]


class Projection(NamedTuple):
    """Pixels of points, with derivatives; one entry for each point."""

    pixels: Floats
    """(K, 2)."""
    seen: Bools
    """Whether the camera sees the point at all, (K,)."""
    point: Floats
    """Derivative by the point in the camera's frame, (K, 2, 3)."""
    parameters: Floats
    """Derivative by the model's parameters, (K, 2, n)."""


def project(model: CameraModel, params: Floats, x: Floats) -> Projection:
    """Where cameras of one model, (K, n), see points given in their frames, (K, 3)."""
    K, n, f = len(x), model.count, model.focals
    k = params[:, model.first_extra :].T
    with np.errstate(all="ignore"):
        X, Y, *slopes, seen, kx, ky = getattr(lenses, model.projection)(k, *x.T)
        if model.distortion:
            X, Y, *bent, kx, ky = getattr(lenses, model.distortion)(k, X, Y)
            slopes = lenses.chain(*bent, *slopes)
    scale, shift = _plane(model, params)
    pixels = np.stack([scale[0] * X + shift[0], scale[1] * Y + shift[1]], axis=1)
    point = np.stack([np.broadcast_to(s, K) for s in slopes], axis=1).reshape(K, 2, 3)
    point = point * np.stack(scale, axis=1)[:, :, None]
    by = np.zeros((K, 2, n))
    if f:
        by[:, 0, 0], by[:, 1, f - 1] = X, Y
        by[:, 0, f], by[:, 1, f + 1] = 1.0, 1.0
        for i in range(n - f - 2):
            by[:, 0, f + 2 + i], by[:, 1, f + 2 + i] = scale[0] * kx[i], scale[1] * ky[i]
    return Projection(pixels, np.broadcast_to(seen, K), point, by)


def image_points(model: CameraModel, params: Floats, x: Floats) -> tuple[Floats, Any]:
    """The pixels of `project`, (K, 2), and whether they are seen, without derivatives."""
    k = params[:, model.first_extra :].T
    with np.errstate(all="ignore"):
        X, Y, *_, seen, _, _ = getattr(lenses, model.projection)(k, *x.T)
        if model.distortion:
            X, Y, *_ = getattr(lenses, model.distortion)(k, X, Y)
    scale, shift = _plane(model, params)
    return np.stack([scale[0] * X + shift[0], scale[1] * Y + shift[1]], axis=1), seen


def _plane(model: CameraModel, params: Floats) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Scale and shift from a lens's plane to pixels, in x and y."""
    f = model.focals
    if f == 0:
        scale = params[:, 0], params[:, 1]
        return scale, (scale[0] / 2, scale[1] / 2)
    return (params[:, 0], params[:, f - 1]), (params[:, f], params[:, f + 1])


def unproject(model: CameraModel, params: Floats, pixels: Floats) -> Floats:
    """Unit directions (K, 3), in the cameras' frames, that cameras of one model see at pixels; NaN
    where no direction has its image there."""
    f = model.focals
    with np.errstate(all="ignore"):
        if f == 0:
            turn, rise = 2 * np.pi * (pixels.T / params[:, :2].T - 0.5) * [[1.0], [0.5]]
            flat = np.cos(rise)
            return np.stack([flat * np.sin(turn), np.sin(rise), flat * np.cos(turn)], axis=1)
        X = (pixels[:, 0] - params[:, f]) / params[:, 0]
        Y = (pixels[:, 1] - params[:, f + 1]) / params[:, f - 1]
        k = params[:, model.first_extra :].T
        if model.distortion:
            X, Y = _undistorted(getattr(lenses, model.distortion), k, X, Y)
        r2 = X * X + Y * Y
        if model.projection == "equidistant":
            angle = np.sqrt(r2)
            X, Y, z = X * np.sinc(angle / np.pi), Y * np.sinc(angle / np.pi), np.cos(angle)
            z = np.where(angle < np.pi / 2, z, np.nan)
        elif model.projection == "division":
            z = 1.0 + k[0] * r2
        elif model.projection == "eucm":
            a, b = k
            z = (1 - b * a * a * r2) / (a * np.sqrt(1 - (2 * a - 1) * b * r2) + 1 - a)
        else:
            z = np.ones_like(X)
        ray = np.stack([X, Y, z], axis=1)
        return np.asarray(ray / np.linalg.norm(ray, axis=1, keepdims=True))


UNDISTORTED = 1e-9
"""Of an image point, in focal lengths: how near its distortion must come to it."""


def _undistorted(distortion: Any, k: Floats, X: Floats, Y: Floats) -> tuple[Floats, Floats]:
    """(x, y) that become (X, Y), by Newton's method from there, steps halved that lead away; NaN
    where it finds none, or one beyond which the image folds back."""
    x, y = X.copy(), Y.copy()
    best = np.full(len(X), np.inf)
    step_x, step_y = np.zeros_like(X), np.zeros_like(Y)
    for _ in range(40):
        P, Q, a, b, c, d, *_ = distortion(k, x + step_x, y + step_y)
        off_x, off_y = X - P, Y - Q
        away = off_x * off_x + off_y * off_y
        better = away < best
        x, y = np.where(better, x + step_x, x), np.where(better, y + step_y, y)
        best = np.where(better, away, best)
        if not (best > 1e-28 * (1.0 + X * X + Y * Y)).any():
            break
        det = a * d - b * c
        step_x = np.where(better, (d * off_x - b * off_y) / det, 0.5 * step_x)
        step_y = np.where(better, (a * off_y - c * off_x) / det, 0.5 * step_y)
    *_, a, b, c, d = distortion(k, x, y)[:6]
    found = (best < UNDISTORTED**2) & (a + d > 0.0) & (a * d - b * c > 0.0)
    return np.where(found, x, np.nan), np.where(found, y, np.nan)


def project_source(
    models: tuple[str, ...],
    refined: tuple[tuple[int, ...], ...],
    width: int,
    branches: bool = True,
) -> str:
    """Source text of `project` for the compilers: where a camera with parameters p sees (u, v, w),

        px, py, ∂px/∂(u, v, w), ∂py/∂(u, v, w), seen, ∂px/∂p, ∂py/∂p

    of which ∂p has the `refined` parameters of its model only, and zeros behind them up to `width`.
    Of several models, the entry behind the parameters says which it is. Without `branches` all are
    computed and one is taken, for compilers whose numbers are vectors.
    """
    if len(models) == 1:
        return _source(named(models[0]), refined[0], width, "project")
    text = "".join(
        _source(named(name), chosen, width, f"project_{n}")
        for n, (name, chosen) in enumerate(zip(models, refined, strict=True))
    )
    text += "\n\n@jit\ndef project(p, u, v, w):\n"
    if not branches:
        return text + _taken(len(models), max(width, 1))
    for n in range(len(models) - 1):
        text += f"    if p[{PARAMETERS}] == {n}.0:\n        return project_{n}(p, u, v, w)\n"
    return text + f"    return project_{len(models) - 1}(p, u, v, w)\n"


def _taken(models: int, width: int) -> str:
    """The body of `project` that takes one of all models' values."""
    values = ("x", "y", "a", "b", "c", "d", "e", "f", "seen", "kx", "ky")
    text = f"    {', '.join(values)} = project_{models - 1}(p, u, v, w)\n"
    for n in range(models - 1):
        text += f"    here = p[{PARAMETERS}] == {n}.0\n"
        text += f"    {', '.join(v + '_' for v in values)} = project_{n}(p, u, v, w)\n"
        for v in values[:-2]:
            text += f"    {v} = where(here, {v}_, {v})\n"
        for v in values[-2:]:
            each = ", ".join(f"where(here, {v}_[{i}], {v}[{i}])" for i in range(width))
            text += f"    {v} = ({each},)\n"
    return text + f"    return {', '.join(values)}\n"


def _source(model: CameraModel, refined: tuple[int, ...], width: int, name: str) -> str:
    f, e = model.focals, model.first_extra
    if f == 0:
        fx, fy, cx, cy = "p[0]", "p[1]", "0.5 * p[0]", "0.5 * p[1]"
    else:
        fx, fy, cx, cy = "p[0]", f"p[{f - 1}]", f"p[{f}]", f"p[{f + 1}]"

    def along(i: int, row: int) -> str:
        """∂px/∂p_i, or ∂py/∂p_i with row 1."""
        if i >= e:
            return (f"{fx} * kx[{i - e}]", f"{fy} * ky[{i - e}]")[row]
        if i < f:
            return ("X", "Y")[row] if f == 1 or i == row else "zero"
        return "one" if i - f == row else "zero"

    rows = [[along(i, row) for i in refined] + ["zero"] * (width - len(refined)) for row in (0, 1)]
    extra = ", ".join(f"p[{e + i}]" for i in range(len(model.extra))) or "0.0"
    lines = [
        "@jit",
        f"def {name}(p, u, v, w):",
        f"    X, Y, Xu, Xv, Xw, Yu, Yv, Yw, seen, kx, ky = {model.projection}(({extra},), u, v, w)",
        *(
            (
                f"    X, Y, Xx, Xy, Yx, Yy, kx, ky = {model.distortion}(({extra},), X, Y)",
                "    Xu, Xv, Xw, Yu, Yv, Yw = chain(Xx, Xy, Yx, Yy, Xu, Xv, Xw, Yu, Yv, Yw)",
            )
            if model.distortion
            else ()
        ),
        "    zero = 0.0 * X",
        "    one = zero + 1.0",
        "    return (",
        f"        {fx} * X + {cx}, {fy} * Y + {cy},",
        f"        {fx} * Xu, {fx} * Xv, {fx} * Xw, {fy} * Yu, {fy} * Yv, {fy} * Yw, seen,",
        *(f"        ({', '.join(row)},)," if row else "        (zero,)," for row in rows),
        "    )",
    ]
    return "\n".join(lines) + "\n"
