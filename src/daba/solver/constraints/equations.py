"""The Gauss–Newton system under constraints: priors are added to it, what is fixed is cut out."""

from __future__ import annotations

import numpy as np

from daba.backends.cpu.equations import Equations, LinearSolver, Surrogate
from daba.backends.cpu.kernels import objective as passes
from daba.core.losses import Loss
from daba.core.types import Bools, Floats, State
from daba.distributed.shard import Shard
from daba.solver.constraints.masks import Masks


class ConstrainedEquations(Equations):
    """Of devices some of whose variables are fixed, shared or known beforehand."""

    def __init__(self, shard: Shard, loss: Loss, linear: LinearSolver, masks: Masks) -> None:
        super().__init__(shard, loss, linear)
        self.masks = masks

    def objective(self, x: State, active: Bools) -> Floats:
        value = super().objective(x, active)
        if self.masks.priors is not None:
            value[:, 0] += self.masks.priors.value(x, active)
        return value

    def prior_objective(self, x: State) -> Floats:
        priors = self.masks.priors
        return np.zeros(self.shard.num_devices) if priors is None else priors.value(x)

    def linearize_anew(self, x: State) -> None:
        super().linearize_anew(x)
        if self.masks.priors is not None:
            self.masks.priors.add_to(self.system, x)

    def assemble(self, x: State, surrogate: Surrogate) -> None:
        super().assemble(x, surrogate)
        self.masks.mask(self.system)

    def hold_points(self) -> None:
        self.masks.hold_points(self.reduced.V_inv, self.z)

    def bound_cameras(self, step_c: Floats, active: Bools, shares: Bools | None = None) -> None:
        """`shares` are cameras whose d others share; by default those of their device."""
        tasks = self.shard.devices.camera_tasks
        shares = self.masks.shares if shares is None else shares
        passes.bound_cameras(self.x.cameras, self.camera_bound, active, tasks, shares, step_c)

    def gradient(self) -> Floats:
        return self.masks.gradient(self.system)
