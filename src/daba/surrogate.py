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

    def rebase(self, base: State) -> Floats:
        """Build at `base`; returns F and squared pixel error of the inter observations, by the
        device of their camera, (S, 2)."""
        devices, obs, loss = self.shard.devices, self.shard.inter, self.loss
        m = self.moments
        kernels.build_points(
            obs,
            *base,
            devices.point_tasks,
            loss.kind,
            loss.radius,
            self.split,
            m.points,
            m.A,
            m.b,
            m.c_l,
        )
        return kernels.build_cameras(
            obs,
            *base,
            devices.camera_tasks,
            loss.kind,
            loss.radius,
            self.split,
            m.cameras,
            m.M,
            m.G,
            m.c,
        )

    def value(self, x: State, active: Bools) -> Floats:
        """Σ P + Σ Q + ½ξ|x − base|² on each device, (S,)."""
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
