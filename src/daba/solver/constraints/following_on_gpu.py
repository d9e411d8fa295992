"""What a joint step of intrinsics that devices share asks of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from daba.backends.gpu.arrays import GpuState
from daba.backends.operations import Base, Row
from daba.core.types import Bools, Floats
from daba.solver.constraints.joint_step import Followers

if TYPE_CHECKING:
    from daba.solver.constraints.on_gpu import GpuSharing

SLOTS = [16, 17, 18, 19, 20, 21, 22, 23, 15]
"""Where the linear solver's record of a camera keeps v (`kernels/schur.slot_of`)."""


class GpuFollowers(Followers):
    """Poses and points of the devices of one process."""

    base: Base
    step_c: torch.Tensor
    step_l: torch.Tensor

    def __init__(self, operations: GpuSharing) -> None:
        self.operations = operations
        self.trial = operations.arrays.new.clone()
        self.now = self.value = self.square = np.zeros(operations.arrays.S)

    def right_hand_side(self) -> Floats:
        return np.asarray(self.operations.constraints.raw[:, :9].contiguous().cpu().numpy())

    def _only(self, active: Bools, running: bool) -> torch.Tensor:
        """Let kernels work on these devices, with the system they solved last; returns the table as
        it was."""
        table = self.operations.arrays.table
        before = table.clone()
        flags = torch.from_numpy(active.astype(np.float64)).to(table.device)
        table[Row.TRYING] = flags
        table[Row.RUN] = flags if running else 0.0
        table[Row.RUN_ODD] = 0.0
        table[Row.RADIUS] = self.operations.damped
        return before

    def follow(self, unit: Floats, active: Bools) -> tuple[Floats, Floats]:
        ops, a = self.operations, self.operations.arrays
        before = self._only(active, running=True)
        given = torch.from_numpy(np.ascontiguousarray(unit)).to(a.device)
        a.record_c[:, SLOTS] = given.to(a.record_c.dtype)
        a.Sp.zero_()
        ops.launches.product(0)
        S_unit = a.Sp[:, :9].double().clone()
        a.rhs.copy_(-a.Sp)
        self._solve()
        along = a.step[:, :9].double() + given
        a.table.copy_(before)
        return S_unit.cpu().numpy(), along.cpu().numpy()

    def _solve(self) -> None:
        """Conjugate gradients, with the preconditioner that is there, on another right-hand
        side."""
        ops, a, constraints = self.operations, self.operations.arrays, self.operations.constraints
        ops.launches.collect(a.rhs, int(Row.TRYING))
        a.rhs.mul_(constraints.still == 0)
        a.r.copy_(a.rhs)
        a.step.zero_()
        r = a.r.double()
        a.z.copy_((a.M_inv.view(-1, 16, 16) * r[:, None, :]).sum(2))
        a.dots.copy_((r * a.z).sum(1))
        ops.launches.direction(first=True, parity=0)
        for _ in range(0, ops.launches.tolerances.most, ops.expected):
            if not (ops.read()[Row.RUN] > 0.0).any():
                return
            ops.iterate_gradients(ops.expected)

    def start(self, base: Base, step: Floats, shares: Bools, active: Bools) -> None:
        ops, a, self.base = self.operations, self.operations.arrays, base
        self.now = ops.read()[Row.NEW] + self._surrogate(a.new)
        self.trial.copy_(a.new)
        before, own = self._only(active, running=False), ops.constraints.shares
        a.step[:, :9] = torch.from_numpy(step).to(a.device).to(a.step.dtype)
        ops.constraints.shares = torch.from_numpy(shares.astype(np.int32)).to(a.device)
        ops.launches.move_cameras(a.new.cameras, self.trial.cameras)
        ops.launches.move_points(*ops.surrogate(base), self.trial.points, follow=True)
        ops.constraints.shares = own
        a.table.copy_(before)
        self.step_c = a.record_c[:, SLOTS].clone()
        self.step_l = self.trial.points - a.new.points

    def _surrogate(self, x: GpuState) -> Floats:
        """Σ P + Σ Q + ½ξ|x − base|² on each device."""
        ops = self.operations
        ops.launches.evaluate(x, ops.surrogate(self.base), None, Row.ALWAYS)
        ops.launches.add_up(ops.try_jobs)
        t = ops.read()
        at_base = t[Row.AT_X if self.base is Base.X else Row.AT_BAR]
        return np.asarray(at_base + t[Row.SUM_VALUE_C] + t[Row.SUM_VALUE_L])

    def attempt(self, scale: float, active: Bools) -> Floats:
        ops, a = self.operations, self.operations.arrays
        if scale != 1.0:
            before = self._only(active, running=False)
            a.step[:, :9] = scale * self.step_c
            ops.launches.move_cameras(a.new.cameras, self.trial.cameras)
            a.table.copy_(before)
            self.trial.points.copy_(a.new.points + scale * self.step_l)
        ops.launches.objective(self.trial, Row.ALWAYS)
        surrogate = self._surrogate(self.trial)
        ops.launches.add_priors(self.trial, Row.SUM_INTRA_C)
        t = ops.read()
        self.value, self.square = t[Row.SUM_INTRA_C].copy(), t[Row.SUM_INTRA_SQUARE_C].copy()
        return np.where(active, self.value + surrogate - self.now, 0.0)

    def keep(self, good: Bools) -> None:
        ops, a = self.operations, self.operations.arrays
        flags = torch.from_numpy(good).to(a.device)
        for x, trial, owner in (
            (a.new.cameras, self.trial.cameras, a.owner_c),
            (a.new.points, self.trial.points, a.owner_l),
        ):
            own = len(owner)
            x[:own] = torch.where(flags[owner.long()][:, None], trial[:own], x[:own])
        t = ops.read().copy()
        t[Row.NEW], t[Row.NEW_SQUARE] = (
            np.where(good, self.value, t[Row.NEW]), np.where(good, self.square, t[Row.NEW_SQUARE]),
        )  # fmt: skip
        t[Row.MOVED] = np.maximum(t[Row.MOVED], good)
        ops.rows(t, Row.NEW, Row.NEW_SQUARE, Row.MOVED)
