"""E^α(x | base): the surrogate of every device, built by moments (paper Prop. 1 and 2)."""

from __future__ import annotations

import numpy as np

from daba.kernels.cpu import moments as kernels
from daba.kernels.cpu.types import Bools, Floats, Moments, System
from daba.losses import Loss
from daba.shard import Shard, State


class Surrogate:
    """Σ P + Σ Q + ½ξ|x − base|² of each device; E^α is this plus the intra objective."""

    def __init__(self, shard: Shard, loss: Loss, split: float, xi: float) -> None:
        C, P = shard.num_cameras, shard.num_points
        self.shard, self.loss, self.split, self.xi = shard, loss, split, xi
        self.moments = Moments(
            cameras=np.zeros((C, 15)),
            points=np.zeros((P, 3)),
            M=np.zeros((C, 6, 6)),
            G=np.zeros((C, 3, 6)),
            c=np.zeros(C),
            A=np.zeros(P),
            b=np.zeros((P, 3)),
            c_l=np.zeros(P),
        )
        self.base: State | None = None
        self.at_base = self.gap = np.zeros(shard.num_devices)

    def rebase(self, base: State, last: State | None = None) -> Floats:
        """Build at `base`; returns F and squared pixel error of the inter observations, by the
        device of their camera, (S, 2).

        With `last`, the base before, `gap` is Σ (F_ij − P_ij − Q_ij)(base | last), the slack of the
        surrogate there, of each inter observation one half on each of its devices.
        """
        devices, obs, loss, m = self.shard.devices, self.shard.inter, self.loss, self.moments
        ends = (obs, *base, *(last or base), last is not None)
        fixed = (loss.kind, loss.radius, self.split)
        by_point = kernels.build_points(
            *ends, devices.point_tasks, *fixed, m.points, m.A, m.b, m.c_l
        )
        by_camera = kernels.build_cameras(
            *ends, devices.camera_tasks, *fixed, m.cameras, m.M, m.G, m.c
        )
        self.base = base
        self.at_base = self.split * by_camera[:, 0] + (1.0 - self.split) * by_point[:, 0]
        self.gap = 0.5 * (by_point[:, 1] + by_camera[:, 2])
        return by_camera[:, :2]

    def value(self, x: State, active: Bools) -> Floats:
        """Σ P + Σ Q + ½ξ|x − base|² on each device, (S,)."""
        if x is self.base:
            return self.at_base
        return kernels.evaluate(
            self.moments, *x, self.shard.inter, *self.shard.devices[2:], self.xi, active
        )

    def add_to(self, system: System, x: State) -> None:
        """Add gradient and Gauss–Newton matrix at x."""
        devices, obs = self.shard.devices, self.shard.inter
        kernels.add_to_cameras(
            self.moments, x.cameras, obs, devices.camera_tasks, self.xi, system.U, system.g_c
        )
        kernels.add_to_points(
            self.moments, x.points, devices.point_tasks, self.xi, system.V, system.g_l
        )


class NoSurrogate(Surrogate):
    """Of a device that has no neighbours: E is F itself."""

    def __init__(self, shard: Shard) -> None:
        self.nothing = np.zeros((shard.num_devices, 2))
        self.gap = self.nothing[:, 0]

    def rebase(self, base: State, last: State | None = None) -> Floats:
        return self.nothing

    def value(self, x: State, active: Bools) -> Floats:
        return self.nothing[:, 0]

    def add_to(self, system: System, x: State) -> None:
        pass
