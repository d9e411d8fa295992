"""What a joint step of intrinsics that devices share asks of the CPU."""

from __future__ import annotations

import numpy as np

from daba.backends.cpu.equations import Surrogate
from daba.backends.cpu.kernels import schur, state
from daba.backends.cpu.operations import CpuOperations
from daba.backends.operations import Base, Row
from daba.core.types import Bools, Floats, State
from daba.solver.constraints.equations import ConstrainedEquations
from daba.solver.constraints.joint_step import Followers
from daba.solver.linear.pcg import product_buffers


class CpuFollowers(Followers):
    """Poses and points of the devices of one process."""

    surrogate: Surrogate
    step_c: Floats
    trial: State
    value: Floats

    def __init__(self, operations: CpuOperations, equations: ConstrainedEquations) -> None:
        self.operations, self.equations, self.shard = operations, equations, equations.shard
        self.buffers = product_buffers(self.shard)
        self.step_l = np.zeros((self.shard.num_points, 3))
        self.now = np.zeros(self.shard.num_devices)

    def right_hand_side(self) -> Floats:
        return self.equations.rhs

    def follow(self, unit: Floats, active: Bools) -> tuple[Floats, Floats]:
        S_unit, along = np.zeros_like(unit), np.zeros_like(unit)
        (buffer_ptr, buffer), devices = self.buffers, self.shard.devices
        schur.product(
            self.shard.intra, self.equations.reduced, unit, active, devices.camera_ptr,
            tasks_c=devices.camera_tasks, tasks=devices.point_tasks,
            buffer_ptr=buffer_ptr, buffer=buffer, out=S_unit,
        )  # fmt: skip
        self.equations.linear.solve_again(-S_unit, active, along)
        along += unit
        return S_unit, along

    def start(self, base: Base, step: Floats, shares: Bools, active: Bools) -> None:
        equations, devices, ops = self.equations, self.shard.devices, self.operations
        self.surrogate, self.step_c = ops.surrogates[base], step
        self.now = ops.table[Row.NEW] + self.surrogate.value(ops.new, active)
        equations.bound_cameras(step, active, shares)
        self.step_l[:] = 0.0
        still = equations.system._replace(g_l=np.zeros_like(equations.system.g_l))
        schur.back_substitute(
            self.shard.intra, still, equations.reduced.V_inv, step, active,
            tasks_c=devices.camera_tasks, tasks=devices.point_tasks, step_l=self.step_l,
        )  # fmt: skip
        self.trial = ops.new.copy()

    def attempt(self, scale: float, active: Bools) -> Floats:
        equations, devices, x, trial = (
            self.equations, self.shard.devices, self.operations.new, self.trial,
        )  # fmt: skip
        state.retract(
            x, scale * self.step_c, scale * self.step_l, active,
            tasks=devices.camera_tasks, tasks_l=devices.point_tasks,
            out_c=trial.cameras, out_l=trial.points,
        )  # fmt: skip
        equations.masks.keep(x, trial)
        self.value = equations.objective(trial, active)
        E = self.value[:, 0] + self.surrogate.value(trial, active)
        return np.where(active, E - self.now, 0.0)

    def keep(self, good: Bools) -> None:
        ops, devices, t = self.operations, self.shard.devices, self.operations.table
        state.choose(
            good, self.trial, devices.camera_tasks, devices.point_tasks,
            out_c=ops.new.cameras, out_l=ops.new.points,
        )  # fmt: skip
        t[Row.NEW, good], t[Row.NEW_SQUARE, good] = self.value[good].T
        t[Row.MOVED, good] = np.maximum(t[Row.MOVED, good], 1.0)
