"""What Levenberg–Marquardt does with arrays, in NumPy, one entry for each observation."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from daba.backends.lm import HostArrays
from daba.core import camera_models, formulas, lenses, pixel, ray
from daba.core.decisions import (
    LEAST_DIAGONAL,
    REFINE_DAMPING,
    REFINE_FLOOR,
    REFINE_GROWTH,
    STEP_BOUND,
)
from daba.core.lm import Estimate, Kind, Loss
from daba.core.types import Floats, distinct
from daba.distributed.lm_shard import LmShard

ENOUGH = 1e-6
"""A point rests when its model promises less than this share of its terms of F."""


@cache
def _error(kind: Kind, model: int) -> Any:
    """The formulas of the kind's error, for one of its camera models."""
    if kind.error == "ray":
        names = dict(vars(formulas))
        path = ray.__file__
    else:
        names = {n: v for n, v in vars(lenses).items() if not n.startswith("__")}
        names["RIG"] = kind.sensors != "none"
        width = kind.own or kind.shared
        chosen = (kind.models[model],), (kind.refined[model],)
        exec(camera_models.project_source(*chosen, width), names)
        path = pixel.__file__
    exec(compile(Path(path).read_text("utf-8"), path, "exec"), names)
    return SimpleNamespace(
        **{n: names[n] for n in ("squared", "second_difference", "by_point", "by_all")}
    )


class PlainOperations(HostArrays):
    """The same operations as `CpuOperations`, as far as a direct solution needs them."""

    def __init__(self, shard: LmShard, loss: Loss) -> None:
        self.shard, self.loss = shard, loss
        K, B, G = len(shard.obs.frame), shard.kind.block, shard.kind.columns
        self.Jc, self.Jl = np.zeros((K, 2, B)), np.zeros((K, 2, 3))
        self.Jg, self.r = np.zeros((K, 2, G)), np.zeros((K, 2))

    @property
    def w2(self) -> Floats:
        return np.square(self.shard.obs.weight)

    def _each(self, what: str, *estimates: Estimate) -> list[tuple[Any, Any]]:
        """Values of one of the error's formulas for the observations of each camera model."""
        obs, images = self.shard.obs, self.shard.images
        camera = images.camera.take(obs.image)
        model = estimates[0].params[:, -1].astype(int).take(camera)
        models = distinct(model)
        out = []
        for m in models:
            k = np.flatnonzero(model == m) if len(models) > 1 else slice(None)
            ends = obs.frame[k], images.sensor.take(obs.image[k]), camera[k], obs.point[k]
            records = [
                tuple(of.take(at, axis=0).T for of, at in zip(x, ends, strict=True))
                for x in estimates
            ]
            formula = getattr(_error(self.shard.kind, int(m)), what)
            with np.errstate(all="ignore"):
                of_each = records if len(records) > 1 else records[0]
                out.append((k, formula(*of_each, *obs.xy[k].T)))
        return out

    def _rho(self, square: Floats) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore", invalid="ignore"):
            value, slope = formulas.rho(self.loss.kind, self.loss.radius, square)
        return value, slope

    def _prior(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """½ρ, ρ'Λ and ρ'Λr of each point."""
        prior, P = self.shard.point_priors, len(points)
        value, H, g = np.zeros(P), np.zeros((P, 3, 3)), np.zeros((P, 3))
        if len(prior.row):
            j = np.flatnonzero(prior.row >= 0)
            n = prior.row[j]
            off = points[j] - prior.target[n]
            pull = np.einsum("nab,nb->na", prior.information[n], off)
            found, slope = formulas.rho(prior.kind, prior.radius, (off * pull).sum(axis=1))
            value[j], g[j] = 0.5 * found, slope[:, None] * pull
            H[j] = slope[:, None, None] * prior.information[n]
        return value, H, g

    def _sums(self, f: Floats, square: Floats, unseen: np.ndarray) -> Floats:
        """By device, of what each point has."""
        out = np.zeros((self.shard.devices, 3))
        begins = self.shard.point_tasks.ptr[self.shard.point_tasks.device_ptr[:-1]]
        device = np.searchsorted(begins, np.arange(len(f)), side="right") - 1
        np.add.at(out, device, np.column_stack([f, square, unseen]))
        return out

    def _by_point(self, values: Floats) -> Floats:
        return _summed(self.shard.obs.point, values, self.shard.num_points)

    # The objective and its derivatives

    def visible(self, x: Estimate) -> np.ndarray:
        """Whether cameras see the points of their observations."""
        out = np.ones(len(self.shard.obs.frame), bool)
        for k, (_, seen) in self._each("squared", x):
            out[k] = seen
        return out

    def objective(self, x: Estimate) -> Floats:
        """F, Σ ω²|r|², and points that a camera does not see, of each device, (S, 3)."""
        square, unseen = np.zeros(len(self.w2)), np.zeros(len(self.w2), bool)
        for k, (s, seen) in self._each("squared", x):
            square[k], unseen[k] = s, np.logical_not(seen)
        used = self.w2 > 0
        square = np.where(used, self.w2 * square, 0.0)
        f = 0.5 * self._rho(square)[0]
        hidden = self._by_point((unseen & used).astype(float)) > 0
        return self._sums(
            self._by_point(f) + self._prior(x.points)[0], self._by_point(square), hidden
        )

    def linearize(self, x: Estimate) -> None:
        """Derivatives of all observations; U, V and gradients."""
        s = self.shard
        kind, obs = s.kind, s.obs
        away = np.full(len(self.w2), np.inf)
        for k, (r0, r1, seen, d2, ta, la, ka, sa, tb, lb, kb, sb) in self._each("by_all", x):
            r0, r1 = np.where(seen, r0, 0.0), np.where(seen, r1, 0.0)
            slope = self._rho(self.w2[k] * (r0 * r0 + r1 * r1))[1]
            root = np.where(seen, np.sqrt(self.w2[k] * slope), 0.0)
            self.r[k] = (root * [r0, r1]).T
            for row, (t, l, p, q) in enumerate(((ta, la, ka, sa), (tb, lb, kb, sb))):
                l, t = np.array(l), np.array(t)
                columns = [*t, *-l, *p[: kind.own]]
                self.Jc[k, row] = np.where(root > 0, root * np.array(columns), 0.0).T
                self.Jl[k, row] = np.where(root > 0, root * l, 0.0).T
                shared = [*p[: kind.shared], *(q if kind.sensors == "refined" else ())]
                if shared:
                    self.Jg[k, row] = np.where(root > 0, root * np.array(shared), 0.0).T
            away[k] = np.where(root > 0, d2, np.inf)
        I = len(s.images.group)
        self.U = np.stack(
            [_square(self.Jc[k]) for k in np.split(obs.frame_obs, obs.frame_ptr[1:-1])]
        )
        self.X = _summed(obs.image, _crossed(self.Jc, self.Jg), I)
        self.T = _summed(obs.image, _crossed(self.Jg, self.Jg), I)
        _, H, pull = self._prior(x.points)
        self.V = self._by_point(_crossed(self.Jl, self.Jl)) + H
        self._gradient(self.r, pull)
        nearest = np.full(s.num_points, np.inf)
        np.minimum.at(nearest, obs.point, away)
        self.point_bound = STEP_BOUND * np.sqrt(nearest)
        distance = np.linalg.norm(x.points[obs.point] - x.frames[obs.frame, 9:], axis=1)
        seen = np.bincount(obs.frame, minlength=s.num_frames)
        total = np.bincount(obs.frame, distance, s.num_frames)
        self.frame_bound = np.where(seen > 0, STEP_BOUND * total / np.maximum(seen, 1), np.inf)
        self.W = self._points_crossed()

    def _gradient(self, r: Floats, pull: Floats | float = 0.0) -> None:
        """Of F along frames, what images share, and points, for such residuals; `pull` is what
        priors of points add."""
        s, obs = self.shard, self.shard.obs
        self.g = _summed(obs.frame, np.einsum("kra,kr->ka", self.Jc, r), s.num_frames)
        of_images = np.einsum("kra,kr->ka", self.Jg, r)
        self.g_s = _summed(obs.image, of_images, len(s.images.group))
        self.g_l = self._by_point(np.einsum("kra,kr->ka", self.Jl, r)) + pull
        if len(s.fixed_points):
            self.g_l[s.fixed_points] = 0.0

    def second_order(self, x: Estimate, ahead: Estimate, behind: Estimate, reach: float) -> None:
        """Put the second derivatives of residuals along a step in their place: the gradient is that
        of these, until `first_order`. `ahead` and `behind` are so far along the step."""
        curves = np.zeros_like(self.r)
        self.first = self.g, self.g_l, self.g_s
        for k, (r0, r1, c0, c1, seen) in self._each("second_difference", x, ahead, behind):
            r0, r1 = np.where(seen, r0, 0.0), np.where(seen, r1, 0.0)
            slope = self._rho(self.w2[k] * (r0 * r0 + r1 * r1))[1]
            root = np.where(seen, np.sqrt(self.w2[k] * slope), 0.0) / reach**2
            curves[k] = np.where(root > 0, root * [c0, c1], 0.0).T
        self._gradient(curves)
        self.hold()

    def first_order(self) -> None:
        """Have the gradient of residuals again."""
        self.g, self.g_l, self.g_s = self.first

    def _points_crossed(self) -> Floats:
        """Of what frames and cameras have against points, (·, P, 3): the same for every damping."""
        s = self.shard
        obs, (F, B, _), m = s.obs, self.U.shape, s.shared.count
        P = s.num_points
        W = np.zeros((F * B + m, P, 3))
        ends = obs.frame * np.int64(P) + obs.point
        blocks = _summed(ends, _crossed(self.Jc, self.Jl), F * P)
        W[: F * B] = blocks.reshape(F, P, B, 3).swapaxes(1, 2).reshape(F * B, P, 3)
        if len(s.fixed_frames):
            W[: F * B][s.fixed_frames.ravel()] = 0.0
        if m:
            index = s.images.index[s.images.group][obs.image]
            k, column = np.nonzero(index >= 0)
            ends = index[k, column] * np.int64(P) + obs.point[k]
            rows = _summed(ends, _crossed(self.Jg, self.Jl)[k, column], m * P)
            W[F * B :] = rows.reshape(m, P, 3)
        return W

    def hold(self) -> None:
        """Take what is fixed out of U and the gradient."""
        fixed = self.shard.fixed_frames
        if len(fixed):
            free = ~fixed
            of = np.repeat(np.arange(len(fixed)), np.diff(self.shard.images.frame_ptr))
            self.U *= free[:, :, None] & free[:, None, :]
            self.g *= free
            self.X *= free[of][:, :, None]

    # One damped system, whole

    def solve(self, mu: float) -> tuple[Floats, Floats, float] | None:
        """Steps of frames, (F, B), and of what is shared, y together, and yᵀSy; None if S is not
        positive definite."""
        s = self.shard
        (F, B, _), m = self.U.shape, s.shared.count
        self.V_inv = np.asarray(np.linalg.inv(_damped(self.V, mu)), np.float64)
        if len(s.fixed_points):
            self.V_inv[s.fixed_points] = 0.0
        S, rhs = np.zeros((F * B + m, F * B + m)), np.zeros(F * B + m)
        D = _damped(self.U, mu)
        for i in range(F):
            S[i * B : i * B + B, i * B : i * B + B] = D[i]
        rhs[: F * B] = -self.g.ravel()
        if m:
            self._add_shared(S, rhs, mu)
        eliminated = _times(self.W, self.V_inv).reshape(len(S), -1)
        S -= eliminated @ self.W.reshape(len(S), -1).T
        rhs += eliminated @ self.g_l.ravel()
        if len(s.fixed_frames):
            fixed = np.flatnonzero(s.fixed_frames.ravel())
            rhs[fixed], S[fixed], S[:, fixed] = 0.0, 0.0, 0.0
            S[fixed, fixed] = 1.0
        try:
            np.linalg.cholesky(S)
        except np.linalg.LinAlgError:
            return None
        y = np.asarray(np.linalg.solve(S, rhs))
        return y[: F * B].reshape(F, B), y[F * B :], float(rhs @ y)

    def _add_shared(self, S: Floats, rhs: Floats, mu: float) -> None:
        """The border of S, and its right-hand side, before points are eliminated."""
        s = self.shard
        (F, B, _), m = self.U.shape, s.shared.count
        index = s.images.index[s.images.group]
        known = index >= 0
        T = np.zeros((m, m))
        for image in range(len(index)):
            a = np.flatnonzero(known[image])
            at, i = index[image, a], self._frame_of(image)
            T[np.ix_(at, at)] += self.T[image][np.ix_(a, a)]
            S[i * B : i * B + B, F * B + at] += self.X[image][:, a]
            rhs[F * B + at] -= self.g_s[image, a]
        S[F * B :, F * B :] = _damped(T[None], mu)[0]
        S[F * B :, : F * B] = S[: F * B, F * B :].T

    def _frame_of(self, image: int) -> int:
        return int(np.searchsorted(self.shard.images.frame_ptr, image, side="right")) - 1

    # The step

    def energy_of_points(self) -> Floats:
        """Σ g_lᵀV'⁻¹g_l of each device, (S,)."""
        each = np.einsum("pa,pab,pb->p", self.g_l, self.V_inv, self.g_l)
        return self._sums(each, 0.0 * each, 0.0 * each)[:, 0]

    def back_substitute(self, step: Floats, step_s: Floats) -> tuple[Floats, Floats]:
        """Steps of points, and what the model says they lower, (S,)."""
        obs = self.shard.obs
        moved = np.einsum("kra,ka->kr", self.Jc, step[obs.frame])
        moved += np.einsum("kra,ka->kr", self.Jg, step_s[obs.image])
        h = self.g_l + self._by_point(np.einsum("kra,kr->ka", self.Jl, moved))
        out = -np.einsum("pab,pb->pa", self.V_inv, h)
        length = np.linalg.norm(out, axis=1)
        far = length > self.point_bound
        out[far] *= (self.point_bound[far] / length[far])[:, None]
        lowered = -(h * out).sum(axis=1) - 0.5 * np.einsum("pa,pab,pb->p", out, self.V, out)
        return out, self._sums(lowered, 0.0 * lowered, 0.0 * lowered)[:, 0]

    def _point_system(self, x: Estimate, points: Floats) -> tuple[Floats, ...]:
        """F, Σ ω²|r|², V, g and the nearest camera's distance of each point; F infinite where a
        camera does not see it."""
        K = len(self.w2)
        f, square, near = np.zeros(K), np.zeros(K), np.full(K, np.inf)
        H, g = np.zeros((K, 3, 3)), np.zeros((K, 3))
        for k, (r0, r1, *rows, d2, seen) in self._each("by_point", x._replace(points=points)):
            w2 = self.w2[k]
            s = w2 * (r0 * r0 + r1 * r1)
            value, slope = self._rho(s)
            use = w2 > 0
            a = np.array(rows).T.reshape(-1, 2, 3)
            w = np.where(seen & use, w2 * slope, 0.0)
            a = np.where(w[:, None, None] > 0, a, 0.0)
            r = np.where(w > 0, [r0, r1], 0.0).T
            f[k] = np.where(use, np.where(seen, 0.5 * value, np.inf), 0.0)
            square[k] = np.where(use & seen, s, 0.0)
            near[k] = np.where(use, d2, np.inf)
            H[k] = w[:, None, None] * _crossed(a, a)
            g[k] = w[:, None] * np.einsum("kra,kr->ka", a, r)
        value, prior_H, prior_g = self._prior(points)
        nearest = np.full(len(points), np.inf)
        np.minimum.at(nearest, self.shard.obs.point, near)
        return (
            self._by_point(f) + value,
            self._by_point(square),
            self._by_point(H) + prior_H,
            self._by_point(g) + prior_g,
            np.sqrt(nearest),
        )

    def settle_points(self, x: Estimate, old: Floats, steps: int) -> Floats:
        """Let each of x's points make steps of its own; F and the rest as in `objective`."""
        points, s = x.points, self.shard
        found = self._point_system(x, points)
        hidden = found[0] == np.inf
        if hidden.any():
            points[hidden] = old[hidden]
            found = self._point_system(x, points)
        moving = found[0] < np.inf
        if len(s.fixed_points):
            moving &= ~s.fixed_points
        mu = np.full(len(points), REFINE_DAMPING)
        for _ in range(steps):
            F, _, V, g, nearest = found
            largest = np.diagonal(V, axis1=1, axis2=2).max(axis=1)
            moving = moving & (largest > 0)
            diagonal = np.maximum(
                np.diagonal(V, axis1=1, axis2=2), (REFINE_FLOOR * largest)[:, None]
            )
            damped = V + mu[:, None, None] * diagonal[:, :, None] * np.eye(3)
            damped[~moving] = np.eye(3)
            step = np.linalg.solve(damped, g[:, :, None])[:, :, 0]
            moving = moving & (0.5 * (step * g).sum(axis=1) > ENOUGH * F)
            if not moving.any():
                break
            length = np.linalg.norm(step, axis=1)
            bound = STEP_BOUND * nearest
            clip = np.where(length > bound, bound / np.where(length > 0, length, 1.0), 1.0)
            new = np.where(moving[:, None], points - clip[:, None] * step, points)
            trial = self._point_system(x, new)
            better = moving & (trial[0] < F)
            points[better] = new[better]
            found = tuple(
                np.where(better.reshape(-1, *[1] * (t.ndim - 1)), t, f)
                for t, f in zip(trial, found, strict=True)
            )
            mu = np.where(better, mu / REFINE_GROWTH, mu * REFINE_GROWTH)
        F, squares = found[:2]
        unseen = F == np.inf
        return self._sums(F, squares, unseen)


def _crossed(A: Floats, B: Floats) -> Floats:
    """AᵀB of every observation. For one and the same array NumPy would go a way that takes five
    times as long, and `np.einsum` takes seven times as long."""
    return np.asarray(A.swapaxes(1, 2) @ (B.copy() if B is A else B))


def _times(W: Floats, H: Floats) -> Floats:
    """W H of every point, (·, P, 3): many small products take NumPy three times as long."""
    return np.asarray(sum(W[:, :, b, None] * H[:, b] for b in range(3)))


def _square(A: Floats) -> Floats:
    """Σ AᵀA of some observations."""
    rows = A.reshape(-1, A.shape[2])
    return np.asarray(rows.T @ rows)


def _damped(blocks: Floats, mu: float) -> Floats:
    """Blocks with μ max(diagonal, LEAST_DIAGONAL) added to their diagonals."""
    out = blocks.copy()
    diagonal = np.arange(blocks.shape[1])
    out[:, diagonal, diagonal] += mu * np.maximum(out[:, diagonal, diagonal], LEAST_DIAGONAL)
    return out


def _summed(index: np.ndarray, values: Floats, count: int) -> Floats:
    """The rows of `values` that have the same index, added up in their order: what `np.add.at`
    does, in a fraction of its time."""
    columns = values.reshape(len(values), math.prod(values.shape[1:])).T
    sums = np.array([np.bincount(index, column, count) for column in columns]).T
    return np.ascontiguousarray(sums.reshape(count, *values.shape[1:]))
