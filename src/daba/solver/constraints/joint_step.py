"""One step of all devices that share intrinsics, in which poses and points follow (method, ours).

To move d alone is slow where another focal length asks for another scene: poses and points hold it
back. So each device says how its E^α changes with d if all else follows to first order, which is a
3×3 quadratic again, and the devices that share d go to the minimum of the sum. The step is kept
only if it lowers the sum of their E^α.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from daba.backends.operations import Base
from daba.core.types import Bools, Floats, distinct
from daba.distributed.shard import Shard
from daba.solver.constraints.prior_terms import UPPER
from daba.solver.constraints.shared_step import SharedStep, minimum

MOST_GROUPS = 4
"""Of one device, in one iteration: each takes three solutions of its system. Where a device has
more that it shares with others, they take turns."""
SCALES = (1.0, 0.2)
"""A step that raises E is tried again, shorter."""


class Followers(Protocol):
    """What a joint step asks of a backend, about x⁺ and the system that each device solved last."""

    def right_hand_side(self) -> Floats:
        """Of the reduced camera system, (C, 9), whatever is fixed or shared."""

    def follow(self, unit: Floats, active: Bools) -> tuple[Floats, Floats]:
        """S u for cameras' steps u, (C, 9), and u with what solves S z = 0 elsewhere."""

    def start(self, base: Base, step: Floats, shares: Bools, active: Bools) -> None:
        """Try a step of cameras, shortened where it goes too far, which points follow; cameras that
        share d with any other are told apart."""

    def attempt(self, scale: float, active: Bools) -> Floats:
        """What so much of it changes E^α by on each active device, (S,)."""

    def keep(self, good: Bools) -> None:
        """Take what was attempted for x⁺ on these devices."""


class JointStep:
    """Of the groups that live on several devices, as far as they are here."""

    def __init__(self, shard: Shard, shared_step: SharedStep, followers: Followers) -> None:
        self.shard, self.shared_step, self.followers = shard, shared_step, followers
        parts, C = shared_step.parts, shard.num_cameras
        self.slot = np.empty(0, int)
        """Of each part whose turn it is on its device, −1 for others."""
        slots = min(parts.most, MOST_GROUPS)
        self.unit, self.S_unit, self.along = (np.zeros((3 * slots, C, 9)) for _ in range(3))
        self.shares = np.zeros(C, bool)
        """Cameras that share d with others, here or elsewhere."""
        self.shares[shared_step.chosen] = True
        if shared_step.masks.shares is not None:
            self.shares |= shared_step.masks.shares

    def take(self, base: Base, active: Bools, turn: int) -> Floats:
        """Move x⁺ on the active devices, of which a cluster has all or none, where that lowers the
        sum of their E^α(· | base). Returns its change, charged to the first device of each cluster,
        (S,).

        Devices communicate the same number of times whatever is decided."""
        parts, followers = self.shared_step.parts, self.followers
        charged = np.zeros(len(active))
        self._choose(turn)
        quadratics = np.zeros((parts.count, 9))
        if active.any():
            quadratics = self._quadratics(active)
        delta = minimum(parts.sum(quadratics), self.shared_step.free)
        if active.any():
            followers.start(base, self._step(delta), self.shares, active)
        for scale in SCALES:
            change = followers.attempt(scale, active) if active.any() else np.zeros(len(active))
            total, first = self.shared_step.sum_clusters(change)
            good = active & (total < 0.0)
            if good.any():
                followers.keep(good)
                charged += np.where(good & first, total, 0.0)
            active = active & ~good
        return charged

    def _choose(self, turn: int) -> None:
        """The groups whose turn it is, the same on all their devices, and a slot for each."""
        shared, parts = self.shared_step, self.shared_step.parts
        turns = -(-parts.most // MOST_GROUPS)
        if turns == 1 and len(self.slot):
            return
        now = parts.rank % turns == turn % turns
        slot = self.slot = np.full(parts.count, -1)
        for device in distinct(parts.device[now]):
            here = np.flatnonzero(now & (parts.device == device))
            slot[here] = np.arange(len(here))
        slots = int(slot.max(initial=-1)) + 1
        if 3 * slots > len(self.unit):
            self.unit, self.S_unit, self.along = (
                np.zeros((3 * slots, *self.unit.shape[1:])) for _ in range(3)
            )
        self.unit[:] = 0.0
        chosen = np.flatnonzero(now[shared.part])
        part = shared.part[chosen]
        for a in range(3):
            at = (3 * slot[part] + a, shared.chosen[chosen], 6 + a)
            self.unit[at] = shared.free[part, a]

    def _quadratics(self, active: Bools) -> Floats:
        """Matrix and gradient of each part along d, all else following, (count, 9). With Z of unit
        d and S Z = 0 elsewhere, ZᵀSZ and −Zᵀrhs, whatever step the device itself has made."""
        parts, ptr = self.shared_step.parts, self.shard.devices.camera_ptr
        rhs = self.followers.right_hand_side()
        for column, unit in enumerate(self.unit):
            self.S_unit[column], self.along[column] = self.followers.follow(unit, active)
        out = np.zeros((parts.count, 9))
        for n in np.flatnonzero(self.slot >= 0):
            device, slot = parts.device[n], self.slot[n]
            if not active[device]:
                continue
            own, at = slice(ptr[device], ptr[device + 1]), slice(3 * slot, 3 * slot + 3)
            Z, SZ = (v[at, own].reshape(3, -1) for v in (self.along, self.S_unit))
            A = Z @ SZ.T
            out[n, :6] = (0.5 * (A + A.T))[UPPER]
            out[n, 6:] = -(Z @ rhs[own].ravel())
            if not np.isfinite(out[n]).all():  # its system had no solution: it does not follow
                out[n] = 0.0
                self.along[at, own] = 0.0
        return out

    def _step(self, delta: Floats) -> Floats:
        """Of cameras, given that of each part's d."""
        shared, S = self.shared_step, self.shard.num_devices
        by_device = np.zeros((S, len(self.unit)))
        now = np.flatnonzero(self.slot >= 0)
        for a in range(3):
            by_device[shared.parts.device[now], 3 * self.slot[now] + a] = delta[now, a]
        owner = np.repeat(np.arange(S), np.diff(self.shard.devices.camera_ptr))
        step = np.einsum("ci,cia->ia", by_device[owner].T, self.along)
        step[shared.chosen, 6:] = delta[shared.part]  # alike to the bit
        return np.asarray(step)
