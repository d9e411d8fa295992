"""The exact step of intrinsics that cameras on several devices share (docs/how-to/constraints.md).

With poses and points held, F is in d at most a 3×3 quadratic that touches it where d is: the sum of
one quadratic of each camera. Each device adds up its own cameras', devices that share a group tell
each other the sum, and each takes the same step to the minimum. So F never rises.
"""

from __future__ import annotations

import numpy as np

from daba.backends.cpu.kernels import sharing as kernels
from daba.core.losses import Loss
from daba.core.types import Bools, Floats
from daba.distributed.shard import Shard, State
from daba.solver.constraints.groups import Members
from daba.solver.constraints.masks import Limits
from daba.solver.constraints.prior_terms import UPPER

DAMPING = 1e-10
"""Relative, so that coefficients that no observation tells apart stay where they are."""


class Sharing:
    """The groups of this process's cameras that live on several devices."""

    def __init__(self, shard: Shard, limits: Limits, members: Members, loss: Loss) -> None:
        assert limits.groups is not None
        self.shard, self.members, self.loss, self.limits = shard, members, loss, limits
        self.chosen = np.flatnonzero(limits.groups.member >= 0)
        self.member = limits.groups.member[self.chosen]
        self.free = np.zeros((members.count, 3), bool)
        self.free[self.member] = limits.free[self.chosen, 6:]
        self.rows = np.zeros((len(self.chosen), 10))

    def move(self, x: State) -> Floats:
        """Take every d to its group's minimum; returns what that changes F by, booked on the first
        device of each group, (S,). The ghosts in x must be known, and are to be told after."""
        before, last = self._measure(x), x.cameras[self.chosen, 12:]
        step = minimum(self.members.sum(before[:, :9]), self.free)
        x.cameras[self.chosen, 12:] += step[self.member]
        change = self.members.sum(self._measure(x)[:, 9:] - before[:, 9:])[:, 0]
        worse = change > 0.0  # by rounding, where there is nothing left to gain
        if worse.any():
            undone = worse[self.member]
            x.cameras[self.chosen[undone], 12:] = last[undone]
        booked = np.where(self.members.leads & ~worse, change, 0.0)
        return np.asarray(np.bincount(self.members.device, booked, self.shard.num_devices))

    def sum_clusters(self, values: Floats) -> tuple[Floats, Bools]:
        """Of each device's value, the sum over the devices that groups tie together, 0 where there
        is none; and which device comes first among them, (S,)."""
        cluster = self.members.clusters
        out, first = np.zeros(len(values)), np.zeros(len(values), bool)
        out[cluster.device] = cluster.sum(values[cluster.device, None])[:, 0]
        first[cluster.device] = cluster.leads
        return out, first

    def any_in_cluster(self, flags: Bools) -> Bools:
        """Whether any of the devices that groups tie together has its flag set, (S,)."""
        return flags | (self.sum_clusters(flags.astype(float))[0] > 0.0)

    def gradient_norm(self, x: State) -> float:
        """Largest entry of the gradient of F along the d of all groups here."""
        g = self.members.sum(self._measure(x)[:, :9])[:, 6:]
        return float(np.abs(np.where(self.free, g, 0.0)).max(initial=0.0))

    def _measure(self, x: State) -> Floats:
        """Matrix, gradient and value of each part of a group here."""
        loss = self.loss
        kernels.intrinsics_systems(
            self.shard.intra, self.shard.inter, *x, self.chosen, loss.kind, loss.radius, self.rows
        )
        rows = self.rows.copy()
        if self.limits.priors is not None:
            self._add_priors(x, rows)
        columns = [np.bincount(self.member, column, self.members.count) for column in rows.T]
        return np.stack(columns, axis=1)

    def _add_priors(self, x: State, rows: Floats) -> None:
        assert self.limits.priors is not None
        targets = self.limits.priors.intrinsics.targets
        value, slope, pull = targets.measure(x.cameras[:, 12:])
        found = np.flatnonzero(np.isin(targets.index, self.chosen))
        at = np.searchsorted(self.chosen, targets.index[found])
        rows[at, :6] += slope[found, None] * targets.information[found][:, *UPPER]
        rows[at, 6:9] += slope[found, None] * pull[found]
        rows[at, 9] += value[found]


def minimum(numbers: Floats, free: np.ndarray) -> Floats:
    """−A⁻¹ b for each row of A (upper triangle) and b, along what is free."""
    n = len(numbers)
    A = np.zeros((n, 3, 3))
    A[:, *UPPER] = numbers[:, :6]
    A[:, *UPPER[::-1]] = numbers[:, :6]
    b = np.where(free, numbers[:, 6:9], 0.0)
    A *= free[:, :, None] & free[:, None, :]
    a = np.arange(3)
    diagonal = A[:, a, a]
    A[:, a, a] += np.where(free & (diagonal > 0), DAMPING * diagonal, 1.0)
    return np.asarray(-np.linalg.solve(A, b[:, :, None])[:, :, 0])
