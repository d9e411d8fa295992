"""E^α(x | base): the surrogate of every device, built by moments (paper Prop. 1 and 2)."""

from __future__ import annotations

import numpy as np

from daba.backends.cpu.kernels import moments as kernels
from daba.core.losses import Loss
from daba.core.types import Bools, Floats, Moments, State, System
from daba.distributed.shard import Shard


class Surrogate:
    """Σ P + Σ Q + ½ξ|x − base|² of each device; E^α is this plus the intra objective."""

    def __init__(
        self, shard: Shard, loss: Loss, split: float, xi: float, records: Floats | None = None
    ) -> None:
        """`records` is room for what is measured at a base; two surrogates may share it, unless
        one of them is asked for its gap."""
        C, P = shard.num_cameras, shard.num_points
        self.shard, self.loss, self.split, self.xi = shard, loss.parameters, split, xi
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
        self.records = np.empty((len(shard.inter.camera), 8)) if records is None else records
        self.base: State | None = None
        self.at_base = self.gap = np.zeros(shard.num_devices)

    def rebase(self, base: State, gap: bool = False) -> Floats:
        """Build at `base`; returns F and squared pixel error of the inter observations, by the
        device of their camera, (S, 2).

        With `gap`, that is Σ (F_ij − P_ij − Q_ij)(base | base before), the slack of the surrogate
        there, of each inter observation one half on each of its devices.
        """
        devices, obs, m, theta = self.shard.devices, self.shard.inter, self.moments, self.split
        last = self.base if gap and self.base else base
        kernels.measure(obs, base, last, gap, self.loss, theta, self.records)
        by_point = kernels.build_points(
            obs, base.points, devices.point_tasks, theta, self.records,
            base=m.points, all_A=m.A, all_b=m.b, all_c=m.c_l,
        )  # fmt: skip
        by_camera = kernels.build_cameras(
            obs, base.cameras, devices.camera_tasks, theta, self.records,
            base=m.cameras, all_M=m.M, all_G=m.G, all_c=m.c,
        )  # fmt: skip
        self.base = base
        self.at_base = theta * by_camera[:, 0] + (1.0 - theta) * by_point[:, 0]
        self.gap = 0.5 * (by_point[:, 1] + by_camera[:, 1])
        return by_camera[:, ::2]

    def value(self, x: State, active: Bools) -> Floats:
        """Σ P + Σ Q + ½ξ|x − base|² on each device, (S,)."""
        if x is self.base:
            return self.at_base
        devices = self.shard.devices
        return kernels.evaluate(
            self.moments,
            x,
            self.shard.inter,
            devices.camera_tasks,
            devices.point_tasks,
            xi=self.xi,
            active=active,
        )

    def add_to(self, system: System, x: State) -> None:
        """Add gradient and Gauss–Newton matrix at x."""
        devices, obs, m = self.shard.devices, self.shard.inter, self.moments
        kernels.add_to_cameras(
            m, x.cameras, obs, devices.camera_tasks, self.xi, all_U=system.U, all_g=system.g_c
        )
        kernels.add_to_points(m, x.points, devices.point_tasks, self.xi, V=system.V, g_l=system.g_l)


class NoSurrogate(Surrogate):
    """Of a device that has no neighbours: E is F itself."""

    def __init__(self, shard: Shard) -> None:
        self.nothing = np.zeros((shard.num_devices, 2))
        self.at_base = self.gap = self.nothing[:, 0]

    def rebase(self, base: State, gap: bool = False) -> Floats:
        return self.nothing

    def value(self, x: State, active: Bools) -> Floats:
        return self.nothing[:, 0]

    def add_to(self, system: System, x: State) -> None:
        pass
