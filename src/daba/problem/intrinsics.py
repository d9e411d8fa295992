"""From the paper's ray model to the forward model other tools use, and back.

    ray model      (u, z) ∥ direction,  z = d1 + d2 s + d3 s²,  s = |u|²
    forward model  u_px = h p,          h = f (1 + k1 ρ² + k2 ρ⁴),  p = x.xy / x.z,  ρ = |p|

with x the point in the camera's frame. Neither is a special case of the other, so a camera
changes model by a least-squares fit over the radii at which it really sees points. All
cameras are fitted at once, from moments summed over observations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from daba.problem.problem import Floats, Ints, Problem

_CHUNK = 1 << 18  # observations handled at once, so that memory stays small
_RIDGE = 1e-12  # pull to the series where the observations leave a coefficient open
_CORRECTIONS = 8  # of a forward model, at most; two are usual
_CORRECT = 1e-4  # pixels: near enough to the rays we started from

STEREOGRAPHIC = (1.0, -0.25, 0.0)
"""d of the stereographic projection, in which every direction but one has a ray."""

_tolerant = np.errstate(all="ignore")  # absurd cameras may overflow; they get a pinhole


def forward_model(problem: Problem) -> Floats:
    """(f, k1, k2) of each camera, (C,3), as BAL and Bundler files get it: that of `Problem.optics`
    where these are of that kind, else fitted to the camera's rays."""
    given = problem.given_optics
    if given is None or given.bundler:
        optics = problem.optics
        return optics.params[optics.camera][:, [0, 3, 4]]
    return forward_rows(
        problem.camera_index, problem.u, problem.focal, np.ascontiguousarray(problem.intrinsics)
    )


@_tolerant
def forward_rows(cam: Ints, u: Floats, focal: Floats, d: Floats) -> Floats:
    """(f, k1, k2) of cameras, (C,3), fitted to their rays at their own observations.

    Fitted to the rays rather than to the observed pixels: the pixel error is the same to
    within 1e-4 of it, and neither outliers nor points behind a camera can spoil the fit. The
    fit is then corrected so that `rays_from_forward` gives back the d we started from, and
    with it the objective.
    """
    aim = d
    model = best = fit_forward(cam, u, focal, d)
    least = np.full(len(d), np.inf)
    for _ in range(_CORRECTIONS):
        scale = focal / model[:, 0]
        fit = _fit_rays(cam, u, scale, model)
        back = fit.solve() / scale[:, None] ** [1, -1, -3]
        top = fit.scale / scale**2  # largest |u|²: there the coefficients are compared
        miss = np.abs((d - back) * top[:, None] ** [0, 1, 2]).max(axis=1)
        miss *= focal * np.sqrt(top)
        better = (least >= _CORRECT) & (miss < least)
        best = np.where(better[:, None], model, best)
        least = np.where(better, miss, least)
        if not (better & (least >= _CORRECT)).any():
            break
        again = (better & (least >= _CORRECT))[cam]  # only cameras that still get better
        cam, u = cam[again], u[again]
        aim = aim + (d - back)
        model = fit_forward(cam, u, focal, aim)
    return best


@_tolerant
def fit_forward(camera_index: Ints, u: Floats, focal: Floats, d: Floats, terms: int = 3) -> Floats:
    """The forward model (f, k1, k2) of cameras with ray coefficients d; with 2 terms k2 is 0.

    At an observed u the ray model is the direction p = u / z, ρ = |u| / z, and there
    h must be focal · z. The error focal · z − h(ρ²) is weighted by ρ, which makes it pixels.
    """
    d1, d2, d3 = d.T
    # z as a power series in ρ²: s = ρ² z² put into z = d1 + d2 s + d3 s².
    series = np.stack([d1, d2 * d1**2, d3 * d1**4 + 2 * d2**2 * d1**3], axis=1)
    top = np.zeros(len(d))
    for c, cam in chunks(camera_index):
        np.maximum.at(top, cam, _ray_radius(u[c], d[cam])[1])
    fit = _Fit(series[:, :terms], top)
    for c, cam in chunks(camera_index):
        z, ρ2 = _ray_radius(u[c], d[cam])
        fit.add(cam, ρ2, z, ρ2)
    h = np.pad(fit.solve(), ((0, 0), (0, 3 - terms)))
    bad = ~(np.isfinite(h).all(axis=1) & (h[:, 0] > 0))
    h[bad] = np.where(d1[bad] > 0, d1[bad], 1.0)[:, None] * [1.0, 0.0, 0.0]
    return np.column_stack([focal * h[:, 0], h[:, 1] / h[:, 0], h[:, 2] / h[:, 0]])


@_tolerant
def forward_residual(
    camera_index: Ints, u: Floats, focal: Floats, d: Floats, model: Floats
) -> Floats:
    """How far from its pixel a forward model (f, k1, k2) sees each ray, (K,), in pixels."""
    f, k1, k2 = model[camera_index].T
    z, ρ2 = _ray_radius(u, d[camera_index])
    return np.asarray(np.sqrt(ρ2) * np.abs(focal[camera_index] * z - f * (1 + ρ2 * (k1 + ρ2 * k2))))


def _ray_radius(u: Floats, d: Floats) -> tuple[Floats, Floats]:
    """z and ρ² of observed rays; ρ² = 0, which is no weight, where a ray points backwards."""
    s = np.einsum("kx,kx->k", u, u)
    z = d[:, 0] + s * (d[:, 1] + s * d[:, 2])
    ahead = z > 0.05 * np.sqrt(s)  # within 87° of the axis
    return z, np.where(ahead, s / np.where(ahead, z, 1.0) ** 2, 0.0)


@_tolerant
def rays_from_forward(
    camera_index: Ints, u: Floats, focal: Floats, k: Floats
) -> tuple[Floats, dict[str, Any]]:
    """Ray coefficients d (C,3) of cameras given by (f, k1, k2), and how well they fit.

    The forward model, inverted at each observed radius a = |u|, gives ρ with a = ρ r and
    r = 1 + k1 ρ² + k2 ρ⁴; the ray through u is then (u, r), so d1 + d2 a² + d3 a⁴ must be r.

    The residual says where the rays would be seen: `rms_px` and `max_px`, over the
    observations that some direction projects to, and how many are `outside`, with none.
    """
    d = _fit_rays(camera_index, u, np.ones(len(focal)), np.column_stack([focal, k])).solve()
    square = worst = 0.0
    outside = 0
    for c, cam in chunks(camera_index):
        k1, k2 = k[cam].T
        s = np.einsum("kx,kx->k", u[c], u[c])
        beyond = _invert(s, k1, k2)[1]
        z = d[cam, 0] + s * (d[cam, 1] + s * d[cam, 2])
        ρ2 = s / z**2
        r = 1 + ρ2 * (k1 + ρ2 * k2)
        px = focal[cam] * np.sqrt(s) * np.abs(r / z - 1)
        px = px[~beyond]
        square += float(np.sum(px**2))
        worst = max(worst, float(px.max(initial=0.0)))
        outside += int(beyond.sum())
    inside = max(len(u) - outside, 1)
    return d, {"rms_px": (square / inside) ** 0.5, "max_px": worst, "outside": outside}


def _fit_rays(camera_index: Ints, u: Floats, scale: Floats, model: Floats) -> _Fit:
    """The fit of `rays_from_forward` for observations scale · u and cameras (f, k1, k2)."""
    f, k1, k2 = model.T
    # r as a power series in a²: ρ² = a² / r² put into r.
    series = np.stack([np.ones(len(f)), k1, k2 - 2 * k1**2], axis=1)
    top = np.zeros(len(f))
    for c, cam in chunks(camera_index):
        np.maximum.at(top, cam, np.einsum("kx,kx->k", u[c], u[c]))
    fit = _Fit(series, top * scale**2)
    for c, cam in chunks(camera_index):
        s = np.einsum("kx,kx->k", u[c], u[c]) * scale[cam] ** 2
        r, _ = _invert(s, k1[cam], k2[cam])
        # An error ε of z moves ω e by f √(1+s) sin(angle to the axis) ε.
        fit.add(cam, s, r, f[cam] ** 2 * (1 + s) * s / (s + r**2))
    return fit


@_tolerant
def _invert(s: Floats, k1: Floats, k2: Floats) -> tuple[Floats, np.ndarray]:
    """r(ρ) with ρ r(ρ) = √s, and where there is no such ρ.

    g(ρ) = ρ + k1 ρ³ + k2 ρ⁵ grows up to its first stationary point; beyond its value there,
    no direction projects to the pixel, and the stationary point, which comes nearest, is taken.
    """
    a = np.sqrt(s)
    # First positive root x = ρ² of 1 + 3 k1 x + 5 k2 x² = 0, in the form without cancellation.
    root = np.sqrt(9 * k1**2 - 20 * k2)
    x = np.where(k1 > 0, (-3 * k1 - root) / (10 * k2), 2 / (-3 * k1 + root))
    end = np.sqrt(np.where(x > 0, x, np.inf))
    # Where g never stops growing, r ≥ 4/9 (k1² < 20/9 k2), so ρ ≤ 9/4 a.
    high = np.minimum(end, 2.25 * a)
    low = np.zeros_like(a)
    beyond = (high == end) & (_g(high, k1, k2) < a)
    ρ = np.minimum(a, high)
    for _ in range(80):
        g = _g(ρ, k1, k2)
        low, high = np.where(g <= a, ρ, low), np.where(g >= a, ρ, high)
        x = ρ * ρ
        slope = 1 + x * (3 * k1 + x * 5 * k2)
        new = ρ - (g - a) / slope
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        moved = np.abs(new - ρ) > 1e-15 * ρ
        ρ = new
        if not (moved & ~beyond).any():
            break
    ρ = np.where(beyond, end, ρ)
    x = ρ * ρ
    return 1 + x * (k1 + x * k2), beyond


def _g(ρ: Floats, k1: Floats, k2: Floats) -> Floats:
    x = ρ * ρ
    return np.asarray(ρ * (1 + x * (k1 + x * k2)))


class _Fit:
    """Weighted least squares of y ≈ c0 + c1 x + c2 x² for every camera at once, with as many terms
    as the guess has.

    Fitted is the change from a first guess, in x / top, with a ridge that is felt only where
    the data say nothing: a camera with one observation keeps most of its guess, and a guess
    that is exact stays exact.
    """

    def __init__(self, guess: Floats, top: Floats) -> None:
        self.guess = guess
        self.scale = np.where(top > 0, top, 1.0)
        self.terms = guess.shape[1]
        self.moments = np.zeros((2 * self.terms - 1, len(guess)))  # Σ w xⁱ
        self.right = np.zeros((self.terms, len(guess)))  # Σ w (y − guess) xⁱ

    def add(self, cam: Ints, x: Floats, y: Floats, weight: Floats) -> None:
        C = len(self.guess)
        value = self.guess[cam, -1]
        for term in reversed(self.guess.T[:-1]):
            value = term[cam] + value * x
        error = y - value
        x = x / self.scale[cam]
        for i in range(len(self.moments)):
            self.moments[i] += np.bincount(cam, weight, C)
            if i < self.terms:
                self.right[i] += np.bincount(cam, weight * error, C)
            weight = weight * x

    def solve(self) -> Floats:
        order = np.arange(self.terms)
        A = self.moments[order[:, None] + order].transpose(2, 0, 1)
        total = np.where(self.moments[0] > 0, self.moments[0], 1.0)
        A = A / total[:, None, None] + _RIDGE * np.eye(self.terms)
        b = (self.right / total).T
        change = np.linalg.solve(A, b[:, :, None])[:, :, 0]
        return np.asarray(self.guess + change / self.scale[:, None] ** order)


def chunks(camera_index: Ints) -> Iterator[tuple[slice, Ints]]:
    """Some observations at a time, and their cameras."""
    for start in range(0, len(camera_index), _CHUNK):
        c = slice(start, start + _CHUNK)
        yield c, camera_index[c]
