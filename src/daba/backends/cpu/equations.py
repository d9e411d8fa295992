"""E^α of every device: its surrogate E^α(x | base), built by moments (paper Prop. 1 and 2), and its
Gauss–Newton system, linearized, damped, solved (method §4)."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from daba.backends.cpu.cache import Job
from daba.backends.cpu.kernels import objective as passes
from daba.backends.cpu.kernels import schur
from daba.core.losses import Loss
from daba.core.types import Bools, Floats, Moments, Reduced, State, System
from daba.distributed.shard import Shard


class Surrogate:
    """Σ P + Σ Q + ½ξ|x − base|² of each device; E^α is this plus the intra objective."""

    def __init__(
        self, shard: Shard, loss: Loss, split: float, xi: float, records: Floats | None = None
    ) -> None:
        """`records` is room for what is measured at a base; two surrogates may share it, unless
        one of them is asked for its gap."""
        from daba.backends.cpu.kernels import moments  # devices without neighbours need none

        self.kernels = moments
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
        self.kernels.measure(obs, base, last, gap, self.loss, theta, self.records)
        by_point = self.kernels.build_points(
            obs, base.points, devices.point_tasks, theta, self.records,
            base=m.points, all_A=m.A, all_b=m.b, all_c=m.c_l,
        )  # fmt: skip
        by_camera = self.kernels.build_cameras(
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
        return self.kernels.evaluate(
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
        self.kernels.add_to_cameras(
            m, x.cameras, obs, devices.camera_tasks, self.xi, all_U=system.U, all_g=system.g_c
        )
        self.kernels.add_to_points(
            m, x.points, devices.point_tasks, self.xi, V=system.V, g_l=system.g_l
        )


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


class LinearSolver(Protocol):
    """Of the reduced camera system S y = rhs of all devices."""

    name: str

    def jobs(self) -> list[Job]:
        """To compile what it runs."""

    def solve(
        self, reduced: Reduced, rhs: Floats, active: Bools, y: Floats
    ) -> tuple[Bools, Floats | int]:
        """Fill y; returns the devices that have a solution, and the iterations of each."""

    def solve_again(self, rhs: Floats, active: Bools, y: Floats) -> None:
        """The same for another right-hand side of the system that each device solved last."""


class Equations:
    """System, workspace and step, of all devices at once."""

    def __init__(self, shard: Shard, loss: Loss, linear: LinearSolver) -> None:
        C, P = shard.num_cameras, shard.num_points
        self.shard, self.loss, self.linear = shard, loss.parameters, linear
        self.system = System(
            J=np.empty((len(shard.intra.camera), 20)),
            U=np.empty((C, 9, 9)),
            V=np.empty((P, 6)),
            g_c=np.empty((C, 9)),
            g_l=np.empty((P, 3)),
            step_bound=np.full(P, np.inf),
        )
        self.reduced = Reduced(self.system.J, D=np.zeros((C, 9, 9)), V_inv=np.zeros((P, 6)))
        self.z = np.zeros((P, 3))
        self.rhs = np.zeros((C, 9))
        self.camera_bound = np.full(C, np.inf)
        self.step_c = np.zeros((C, 9))
        self.step_l = np.zeros((P, 3))
        self.x = shard.start
        self.of_intra = False
        """Whether the system is that of the intra observations, without a surrogate's part."""

    def objective(self, x: State, active: Bools) -> Floats:
        """F of the intra observations (and priors), and squared pixel error, (S, 2)."""
        tasks = self.shard.devices.point_tasks
        value: Floats = passes.objective(self.shard.intra, x, tasks, self.loss, active)
        return value

    def prior_objective(self, x: State) -> Floats:
        """The priors' part of F, (S,): here nothing."""
        return np.zeros(self.shard.num_devices)

    def linearize(self, x: State) -> None:
        """The system of the intra observations at x, which needs no ghosts: neighbours may still
        be sending theirs."""
        if not (self.of_intra and self.x is x):
            self.linearize_anew(x)
            self.x, self.of_intra = x, True

    def linearize_anew(self, x: State) -> None:
        obs, devices, s = self.shard.intra, self.shard.devices, self.system
        passes.linearize_points(
            obs, x, devices.point_tasks, self.loss, J=s.J, V=s.V, g_l=s.g_l, bound=s.step_bound
        )
        passes.linearize_cameras(
            obs, x, devices.camera_tasks, J=s.J, U=s.U, g_c=s.g_c, bound=self.camera_bound
        )

    def assemble(self, x: State, surrogate: Surrogate) -> None:
        """The system of E^α at x."""
        self.linearize(x)
        surrogate.add_to(self.system, x)
        self.of_intra = False

    def damp(self, radius: Floats, active: Bools) -> None:
        """U' and V'⁻¹, and the right-hand side of S."""
        obs, devices, S = self.shard.intra, self.shard.devices, self.reduced
        schur.damp(
            self.system,
            1.0 / radius,
            active,
            devices.camera_tasks,
            devices.point_tasks,
            D=S.D,
            V_inv=S.V_inv,
            z=self.z,
        )
        self.hold_points()
        schur.right_hand_side(obs, self.system, self.z, active, devices.camera_tasks, self.rhs)

    def solve(self, active: Bools) -> tuple[Floats, Floats | int]:
        """Fill step_c and step_l; returns the model's decrease (S,), which is −∞ where there is no
        solution, and the iterations of conjugate gradients."""
        devices = self.shard.devices
        solved, iterations = self.linear.solve(self.reduced, self.rhs, active, self.step_c)
        self.bound_cameras(self.step_c, solved)
        decrease = schur.back_substitute(
            self.shard.intra,
            self.system,
            self.reduced.V_inv,
            self.step_c,
            solved,
            tasks_c=devices.camera_tasks,
            tasks=devices.point_tasks,
            step_l=self.step_l,
        )
        return np.where(solved, decrease, -np.inf), iterations

    def bound_cameras(self, step_c: Floats, active: Bools) -> None:
        """Shorten the steps of cameras that would go too far."""
        tasks = self.shard.devices.camera_tasks
        passes.bound_cameras(self.x.cameras, self.camera_bound, active, tasks, None, step_c)

    def hold_points(self) -> None:
        """Leave points that do not move out of the elimination: here there are none."""

    def gradient(self) -> Floats:
        """Of cameras, along what they move by."""
        return self.system.g_c
