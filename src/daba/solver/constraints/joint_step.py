"""One step of all devices that share intrinsics, in which poses and points follow (method, ours).

To move d alone is slow where another focal length asks for another scene: poses and points hold it
back. So each device says how its E^α changes with d if all else follows to first order, which is a
3×3 quadratic again, and the devices that share d go to the minimum of the sum. The step is kept
only if it lowers the sum of their E^α.
"""

from __future__ import annotations

import numpy as np

from daba.backends.cpu.kernels import objective as passes
from daba.backends.cpu.kernels import schur, state
from daba.core.types import Bools, Floats
from daba.solver.constraints.prior_terms import UPPER
from daba.solver.constraints.shared_step import Sharing, minimum
from daba.solver.linear.solvers import product_buffers
from daba.solver.surrogate import Surrogate
from daba.solver.trust_region import Levenberg, Step

MOST_GROUPS = 4
"""Of one device, in one iteration: each takes three solutions of its system. Where a device has
more that it shares with others, they take turns."""
SCALES = (1.0, 0.2)
"""A step that raises E is tried again, shorter."""


class JointStep:
    """Of the groups that live on several devices, as far as they are here."""

    def __init__(self, levenberg: Levenberg, sharing: Sharing) -> None:
        shard = levenberg.shard
        self.levenberg, self.sharing, self.shard = levenberg, sharing, shard
        members, C = sharing.members, shard.num_cameras
        self.turn = 0
        self.slot = np.empty(0, int)
        """Of each member whose turn it is on its device, −1 for others."""
        slots = min(members.most, MOST_GROUPS)
        self.unit, self.S_unit, self.follow = (np.zeros((3 * slots, C, 9)) for _ in range(3))
        self.buffers = product_buffers(shard)
        self.together = np.zeros(C, bool)
        self.together[sharing.chosen] = True
        if levenberg.limits is not None and levenberg.limits.together is not None:
            self.together |= levenberg.limits.together
        self.all = np.ones(shard.num_devices, bool)

    def take(self, step: Step, surrogate: Surrogate, active: Bools) -> Floats:
        """Move step.x on the active devices, of which a cluster has all or none, where that lowers
        the sum of their E^α; returns by how much, booked on the first device of each cluster, (S,).

        Neighbours talk the same number of times whatever is decided."""
        lm, members, booked = self.levenberg, self.sharing.members, np.zeros(len(self.all))
        self._choose()
        quadratics = np.zeros((members.count, 9))
        if active.any():
            quadratics = self._quadratics(active)
        delta = minimum(members.sum(quadratics), self.sharing.free)
        if active.any():
            now = step.intra[:, 0] + surrogate.value(step.x, active)
            step_c, step_l = self._following(delta, active)
            trial = step.x.copy()
        for scale in SCALES:
            change = np.zeros(len(self.all))
            if active.any():
                moves = (scale * step_c, scale * step_l, active)
                state.retract(*step.x, *moves, *self.shard.devices[2:], *trial)
                if lm.limits is not None:
                    lm.limits.keep(step.x, trial)
                value = lm.objective(trial, active)
                change = np.where(active, value[:, 0] + surrogate.value(trial, active) - now, 0.0)
            total, first = self.sharing.sum_clusters(change)
            good = active & (total < 0.0)
            if good.any():
                state.choose(good, *trial, *self.shard.devices[2:], *step.x)
                step.intra[good] = value[good]
                step.moved |= good
                booked += np.where(good & first, total, 0.0)
            active = active & ~good
        return booked

    def _choose(self) -> None:
        """The groups whose turn it is, the same on all their devices, and a slot for each."""
        sharing, members = self.sharing, self.sharing.members
        turns = -(-members.most // MOST_GROUPS)
        if turns == 1 and len(self.slot):
            return
        now = members.rank % turns == self.turn % turns
        slot = self.slot = np.full(members.count, -1)
        for device in np.unique(members.device[now]):
            here = np.flatnonzero(now & (members.device == device))
            slot[here] = np.arange(len(here))
        slots = int(slot.max(initial=-1)) + 1
        if 3 * slots > len(self.unit):
            self.unit, self.S_unit, self.follow = (
                np.zeros((3 * slots, *self.unit.shape[1:])) for _ in range(3)
            )
        self.unit[:] = 0.0
        chosen = np.flatnonzero(now[sharing.member])
        member = sharing.member[chosen]
        for a in range(3):
            at = (3 * slot[member] + a, sharing.chosen[chosen], 6 + a)
            self.unit[at] = sharing.free[member, a]

    def _product(self, v: Floats, active: Bools, out: Floats) -> None:
        lm, devices = self.levenberg, self.shard.devices
        schur.product(
            self.shard.intra, lm.system, lm.D, lm.V_inv, v, active, devices.camera_ptr,
            devices.camera_tasks, devices.point_tasks, *self.buffers, out,
        )  # fmt: skip

    def _quadratics(self, active: Bools) -> Floats:
        """Matrix and gradient of each member along d, all else following, (count, 9). With Z of
        unit d and S Z = 0 elsewhere, ZᵀSZ and −Zᵀrhs, whatever step the device itself has made."""
        lm, ptr = self.levenberg, self.shard.devices.camera_ptr
        for unit, S_unit, follow in zip(self.unit, self.S_unit, self.follow, strict=True):
            self._product(unit, active, S_unit)
            lm.linear.resolve(-S_unit, active, follow)
            follow += unit
        out = np.zeros((self.sharing.members.count, 9))
        for n in np.flatnonzero(self.slot >= 0):
            device, slot = self.sharing.members.device[n], self.slot[n]
            if not active[device]:
                continue
            own, at = slice(ptr[device], ptr[device + 1]), slice(3 * slot, 3 * slot + 3)
            Z, SZ = (v[at, own].reshape(3, -1) for v in (self.follow, self.S_unit))
            A = Z @ SZ.T
            out[n, :6] = (0.5 * (A + A.T))[UPPER]
            out[n, 6:] = -(Z @ lm.rhs[own].ravel())
            if not np.isfinite(out[n]).all():  # its system had no solution: it does not follow
                out[n] = 0.0
                self.follow[at, own] = 0.0
        return out

    def _following(self, delta: Floats, active: Bools) -> tuple[Floats, Floats]:
        """The step of cameras and points, given that of each member's d."""
        lm, devices, members = self.levenberg, self.shard.devices, self.sharing.members
        by_device = np.zeros((len(self.all), len(self.unit)))
        now = np.flatnonzero(self.slot >= 0)
        for a in range(3):
            by_device[members.device[now], 3 * self.slot[now] + a] = delta[now, a]
        owner = np.repeat(np.arange(len(self.all)), np.diff(devices.camera_ptr))
        step_c = np.einsum("ci,cia->ia", by_device[owner].T, self.follow)
        step_c[self.sharing.chosen, 6:] = delta[self.sharing.member]  # alike to the bit
        passes.bound_cameras(
            lm.x.cameras, lm.camera_reach, active, devices.camera_tasks, self.together, step_c
        )
        step_l = np.zeros((self.shard.num_points, 3))
        still = lm.system._replace(g_l=np.zeros_like(lm.system.g_l))
        schur.back_substitute(
            self.shard.intra, still, lm.V_inv, step_c, active, *devices[2:], step_l
        )
        return step_c, step_l
