"""One step of all devices that share intrinsics, in which poses and points follow (method, ours).

To move d alone is slow where another focal length asks for another scene: poses and points hold it
back. So each device says how its E^α changes with d if all else follows to first order, which is a
3×3 quadratic again, and the devices that share d go to the minimum of the sum. The step is kept
only if it lowers the sum of their E^α.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daba.backends.cpu.equations import Surrogate
from daba.backends.cpu.kernels import schur, state
from daba.core.types import Bools, Floats, State
from daba.solver.constraints.equations import ConstrainedEquations
from daba.solver.constraints.prior_terms import UPPER
from daba.solver.constraints.shared_step import SharedStep, minimum
from daba.solver.linear.pcg import product_buffers

MOST_GROUPS = 4
"""Of one device, in one iteration: each takes three solutions of its system. Where a device has
more that it shares with others, they take turns."""
SCALES = (1.0, 0.2)
"""A step that raises E is tried again, shorter."""


class Taken(NamedTuple):
    """What a joint step has done on each device, (S,)."""

    change: Floats
    """Of E^α, charged to the first device of each cluster."""
    moved: Bools


class JointStep:
    """Of the groups that live on several devices, as far as they are here."""

    def __init__(self, equations: ConstrainedEquations, shared_step: SharedStep) -> None:
        shard = equations.shard
        self.equations, self.shared_step, self.shard = equations, shared_step, shard
        parts, C = shared_step.parts, shard.num_cameras
        self.slot = np.empty(0, int)
        """Of each part whose turn it is on its device, −1 for others."""
        slots = min(parts.most, MOST_GROUPS)
        self.unit, self.S_unit, self.follow = (np.zeros((3 * slots, C, 9)) for _ in range(3))
        self.buffers = product_buffers(shard)
        self.shares = np.zeros(C, bool)
        """Cameras that share d with others, here or elsewhere."""
        self.shares[shared_step.chosen] = True
        if equations.masks.shares is not None:
            self.shares |= equations.masks.shares

    def take(
        self, x: State, values: Floats, surrogate: Surrogate, active: Bools, turn: int
    ) -> Taken:
        """Move x on the active devices, of which a cluster has all or none, where that lowers the
        sum of their E^α; `values` are F and squared pixel error of the intra observations at x,
        (S, 2), and are kept so.

        Devices communicate the same number of times whatever is decided."""
        equations, parts, devices = self.equations, self.shared_step.parts, self.shard.devices
        taken = Taken(np.zeros(len(active)), np.zeros(len(active), bool))
        self._choose(turn)
        quadratics = np.zeros((parts.count, 9))
        if active.any():
            quadratics = self._quadratics(active)
        delta = minimum(parts.sum(quadratics), self.shared_step.free)
        if active.any():
            now = values[:, 0] + surrogate.value(x, active)
            step_c, step_l = self._following(delta, active)
            trial = x.copy()
        for scale in SCALES:
            change = np.zeros(len(active))
            if active.any():
                state.retract(
                    x, scale * step_c, scale * step_l, active,
                    tasks=devices.camera_tasks, tasks_l=devices.point_tasks,
                    out_c=trial.cameras, out_l=trial.points,
                )  # fmt: skip
                equations.masks.keep(x, trial)
                value = equations.objective(trial, active)
                change = np.where(active, value[:, 0] + surrogate.value(trial, active) - now, 0.0)
            total, first = self.shared_step.sum_clusters(change)
            good = active & (total < 0.0)
            if good.any():
                state.choose(
                    good, trial, devices.camera_tasks, devices.point_tasks,
                    out_c=x.cameras, out_l=x.points,
                )  # fmt: skip
                values[good] = value[good]
                taken.moved[good] = True
                taken.change[:] += np.where(good & first, total, 0.0)
            active = active & ~good
        return taken

    def _choose(self, turn: int) -> None:
        """The groups whose turn it is, the same on all their devices, and a slot for each."""
        shared, parts = self.shared_step, self.shared_step.parts
        turns = -(-parts.most // MOST_GROUPS)
        if turns == 1 and len(self.slot):
            return
        now = parts.rank % turns == turn % turns
        slot = self.slot = np.full(parts.count, -1)
        for device in np.unique(parts.device[now]):
            here = np.flatnonzero(now & (parts.device == device))
            slot[here] = np.arange(len(here))
        slots = int(slot.max(initial=-1)) + 1
        if 3 * slots > len(self.unit):
            self.unit, self.S_unit, self.follow = (
                np.zeros((3 * slots, *self.unit.shape[1:])) for _ in range(3)
            )
        self.unit[:] = 0.0
        chosen = np.flatnonzero(now[shared.part])
        part = shared.part[chosen]
        for a in range(3):
            at = (3 * slot[part] + a, shared.chosen[chosen], 6 + a)
            self.unit[at] = shared.free[part, a]

    def _product(self, v: Floats, active: Bools, out: Floats) -> None:
        (buffer_ptr, buffer), devices = self.buffers, self.shard.devices
        schur.product(
            self.shard.intra, self.equations.reduced, v, active, devices.camera_ptr,
            tasks_c=devices.camera_tasks, tasks=devices.point_tasks,
            buffer_ptr=buffer_ptr, buffer=buffer, out=out,
        )  # fmt: skip

    def _quadratics(self, active: Bools) -> Floats:
        """Matrix and gradient of each part along d, all else following, (count, 9). With Z of unit
        d and S Z = 0 elsewhere, ZᵀSZ and −Zᵀrhs, whatever step the device itself has made."""
        equations, ptr = self.equations, self.shard.devices.camera_ptr
        parts = self.shared_step.parts
        for unit, S_unit, follow in zip(self.unit, self.S_unit, self.follow, strict=True):
            self._product(unit, active, S_unit)
            equations.linear.solve_again(-S_unit, active, follow)
            follow += unit
        out = np.zeros((parts.count, 9))
        for n in np.flatnonzero(self.slot >= 0):
            device, slot = parts.device[n], self.slot[n]
            if not active[device]:
                continue
            own, at = slice(ptr[device], ptr[device + 1]), slice(3 * slot, 3 * slot + 3)
            Z, SZ = (v[at, own].reshape(3, -1) for v in (self.follow, self.S_unit))
            A = Z @ SZ.T
            out[n, :6] = (0.5 * (A + A.T))[UPPER]
            out[n, 6:] = -(Z @ equations.rhs[own].ravel())
            if not np.isfinite(out[n]).all():  # its system had no solution: it does not follow
                out[n] = 0.0
                self.follow[at, own] = 0.0
        return out

    def _following(self, delta: Floats, active: Bools) -> tuple[Floats, Floats]:
        """The step of cameras and points, given that of each part's d."""
        equations, devices, shared = self.equations, self.shard.devices, self.shared_step
        S = self.shard.num_devices
        by_device = np.zeros((S, len(self.unit)))
        now = np.flatnonzero(self.slot >= 0)
        for a in range(3):
            by_device[shared.parts.device[now], 3 * self.slot[now] + a] = delta[now, a]
        owner = np.repeat(np.arange(S), np.diff(devices.camera_ptr))
        step_c = np.einsum("ci,cia->ia", by_device[owner].T, self.follow)
        step_c[shared.chosen, 6:] = delta[shared.part]  # alike to the bit
        equations.bound_cameras(step_c, active, self.shares)
        step_l = np.zeros((self.shard.num_points, 3))
        still = equations.system._replace(g_l=np.zeros_like(equations.system.g_l))
        schur.back_substitute(
            self.shard.intra, still, equations.reduced.V_inv, step_c, active,
            tasks_c=devices.camera_tasks, tasks=devices.point_tasks, step_l=step_l,
        )  # fmt: skip
        return step_c, step_l
