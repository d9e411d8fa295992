"""Priors of images: where their centres are, and what their cameras' parameters are known to be.

Each is a term ½ ρ(rᵀΛr). A centre is c = t + R t_s, of the frame and the sensor: with a = R t_s,
∂c/∂ω = −[a]ₓ, ∂c/∂t = I and ∂c/∂t_s = R. Parameters are those that are refined, in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from daba.core import formulas
from daba.core.lm import Estimate, Loss
from daba.core.types import Floats
from daba.distributed.lm_shard import ImagePriors, LmShard
from daba.solver.lm.network import Network


class ImagePriorTerms:
    """Of the images that a process owns."""

    def __init__(self, shard: LmShard, network: Network) -> None:
        self.shard, self.network = shard, network
        self.centres, self.params = shard.centre_priors, shard.parameter_priors
        self.frame = np.repeat(np.arange(shard.num_frames), np.diff(shard.images.frame_ptr))

    def value(self, x: Estimate) -> Floats:
        """Σ ½ρ of each device, (S,)."""
        out = np.zeros(self.shard.devices)
        for priors, r in ((self.centres, self._centres(x)), (self.params, self._parameters(x))):
            device = self.network.frame_device[self.frame[priors.image]]
            np.add.at(out, device, _measure(priors, r)[0])
        return out

    def add_to(self, ops: Any, x: Estimate) -> None:
        """Add gradient and Gauss–Newton matrix."""
        self._add_centres(ops, x)
        self._add_parameters(ops, x)

    def _centres(self, x: Estimate) -> Floats:
        return x.frames[self.frame[self.centres.image], 9:] + self._arm(x) - self.centres.target

    def _arm(self, x: Estimate) -> Floats:
        image = self.centres.image
        R = x.frames[self.frame[image], :9].reshape(-1, 3, 3)
        return np.einsum("nab,nb->na", R, x.sensors[self.shard.images.sensor[image], 9:])

    def _add_centres(self, ops: Any, x: Estimate) -> None:
        image, kind = self.centres.image, self.shard.kind
        if not len(image):
            return
        frame = self.frame[image]
        _, slope, pull = _measure(self.centres, self._centres(x))
        a = self._arm(x)
        J = np.zeros((len(image), 3, kind.block))
        J[:, 0, 1], J[:, 0, 2], J[:, 1, 2] = a[:, 2], -a[:, 1], a[:, 0]
        J[:, 1, 0], J[:, 2, 0], J[:, 2, 1] = -a[:, 2], a[:, 1], -a[:, 0]
        J[:, :, 3:6] = np.eye(3)
        H = slope[:, None, None] * self.centres.information
        g = slope[:, None] * pull
        np.add.at(ops.U, frame, J.transpose(0, 2, 1) @ H @ J)
        np.add.at(ops.g, frame, np.einsum("nab,na->nb", J, g))
        if kind.sensors == "refined":
            Js = np.zeros((len(image), 3, kind.columns))
            Js[:, :, kind.shared + 3 :] = x.frames[frame, :9].reshape(-1, 3, 3)
            np.add.at(ops.X, image, J.transpose(0, 2, 1) @ H @ Js)
            np.add.at(ops.T, image, Js.transpose(0, 2, 1) @ H @ Js)
            np.add.at(ops.g_s, image, np.einsum("nab,na->nb", Js, g))

    def _parameters(self, x: Estimate) -> Floats:
        image, kind = self.params.image, self.shard.kind
        rows = x.params[self.shard.images.camera[image]]
        if kind.error == "ray":
            return rows[:, :3] - self.params.target
        out = np.zeros_like(self.params.target)
        for n, refined in enumerate(kind.refined):
            of = np.flatnonzero(rows[:, -1] == n)
            out[of, : len(refined)] = rows[of][:, list(refined)]
            out[of, : len(refined)] -= self.params.target[of, : len(refined)]
        return out

    def _add_parameters(self, ops: Any, x: Estimate) -> None:
        image, kind = self.params.image, self.shard.kind
        if not len(image):
            return
        _, slope, pull = _measure(self.params, self._parameters(x))
        H, g = slope[:, None, None] * self.params.information, slope[:, None] * pull
        own = self.shard.images.camera[image] == self.frame[image]
        own &= bool(kind.own)
        i, m, w = self.frame[image[own]], image[~own], kind.shared
        np.add.at(ops.U[:, 6:, 6:], i, H[own][:, : kind.own, : kind.own])
        np.add.at(ops.g[:, 6:], i, g[own][:, : kind.own])
        np.add.at(ops.T[:, :w, :w], m, H[~own][:, :w, :w])
        np.add.at(ops.g_s[:, :w], m, g[~own][:, :w])


def of_points(shard: LmShard, points: Callable[[np.ndarray], Floats]) -> Floats:
    """Σ ½ρ of the priors of points, of each device, (S,); `points` says where some of them are."""
    priors, out = shard.point_priors, np.zeros(shard.devices)
    if len(priors.row):
        j = np.flatnonzero(priors.row >= 0)
        n = priors.row[j]
        off = points(j) - priors.target[n]
        square = np.einsum("na,nab,nb->n", off, priors.information[n], off)
        begins = shard.point_tasks.ptr[shard.point_tasks.device_ptr[:-1]]
        device = np.searchsorted(begins, j, side="right") - 1
        np.add.at(out, device, 0.5 * formulas.rho(priors.kind, priors.radius, square)[0])
    return out


def _measure(priors: ImagePriors, r: Floats) -> tuple[Floats, Floats, Floats]:
    """½ρ(rᵀΛr), ρ' and Λr."""
    pull = np.einsum("nab,nb->na", priors.information, r)
    loss: Loss = priors.loss
    value, slope = formulas.rho(loss.kind, loss.radius, (r * pull).sum(axis=1))
    return 0.5 * value, slope, pull
