"""The exact step of intrinsics that cameras on several devices share (docs/how-to/constraints.md).

With poses and points held, F is in d at most a 3×3 quadratic that touches it where d is: the sum of
one quadratic of each camera. Each device adds up its own cameras', devices that share a group
exchange the sum, and each takes the same step to the minimum. So F never rises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.losses import Loss
from daba.core.types import Bools, Floats
from daba.distributed.shard import Shard
from daba.solver.constraints.groups import GroupParts
from daba.solver.constraints.masks import Masks
from daba.solver.constraints.prior_terms import UPPER

DAMPING = 1e-10
"""Relative, so that coefficients that no observation tells apart stay where they are."""


class SharedStep:
    """The groups of this process's cameras that live on several devices. Estimates x are those of
    the backend."""

    def __init__(self, shard: Shard, masks: Masks, parts: GroupParts, loss: Loss) -> None:
        assert masks.groups is not None
        self.shard, self.parts, self.masks = shard, parts, masks
        self.loss = loss.parameters
        self.chosen = np.flatnonzero(masks.groups.part >= 0)
        self.part = masks.groups.part[self.chosen]
        self.free = np.zeros((parts.count, 3), bool)
        self.free[self.part] = masks.free[self.chosen, 6:]
        self.rows = np.zeros((len(self.chosen), 10))

    def intrinsics(self, x: Any) -> Floats:
        """d of the cameras in x, (C, 3)."""
        return np.asarray(x.cameras[:, 12:])

    def put(self, x: Any, d: Floats) -> None:
        """Give the cameras of all groups here another d."""
        x.cameras[self.chosen, 12:] = d

    def quadratics(self, x: Any) -> Floats:
        """Matrix, gradient and value of each of these cameras, (n, 10)."""
        from daba.backends.cpu.kernels import sharing as kernels  # a GPU has its own

        kernels.intrinsics_systems(
            self.shard.intra, self.shard.inter, x, self.chosen, self.loss, self.rows
        )
        return self.rows.copy()

    def move(self, x: Any) -> Floats:
        """Take every d to its group's minimum; returns what that changes F by, charged to the first
        device of each group, (S,). The ghosts in x must be known, and are to be exchanged after."""
        before, last = self._measure(x), self.intrinsics(x)[self.chosen]
        step = minimum(self.parts.sum(before[:, :9]), self.free)
        self.put(x, last + step[self.part])
        change = self.parts.sum(self._measure(x)[:, 9:] - before[:, 9:])[:, 0]
        worse = change > 0.0  # by rounding, where there is nothing left to gain
        if worse.any():
            self.put(x, np.where(worse[self.part, None], last, last + step[self.part]))
        charged = np.where(self.parts.charged & ~worse, change, 0.0)
        return np.asarray(np.bincount(self.parts.device, charged, self.shard.num_devices))

    def sum_clusters(self, values: Floats) -> tuple[Floats, Bools]:
        """Of each device's value, the sum over the devices that groups connect, 0 where there
        is none; and which device comes first among them, (S,)."""
        cluster = self.parts.clusters
        out, first = np.zeros(len(values)), np.zeros(len(values), bool)
        out[cluster.device] = cluster.sum(values[cluster.device, None])[:, 0]
        first[cluster.device] = cluster.charged
        return out, first

    def any_in_cluster(self, flags: Bools) -> Bools:
        """Whether any of the devices that groups connect has its flag set, (S,)."""
        return flags | (self.sum_clusters(flags.astype(float))[0] > 0.0)

    def gradient_norm(self, x: Any) -> float:
        """Largest entry of the gradient of F along the d of all groups here."""
        g = self.parts.sum(self._measure(x)[:, :9])[:, 6:]
        return float(np.abs(np.where(self.free, g, 0.0)).max(initial=0.0))

    def _measure(self, x: Any) -> Floats:
        """Matrix, gradient and value of each part of a group here."""
        rows = self.quadratics(x)
        if self.masks.priors is not None:
            self._add_priors(x, rows)
        columns = [np.bincount(self.part, column, self.parts.count) for column in rows.T]
        return np.stack(columns, axis=1)

    def _add_priors(self, x: Any, rows: Floats) -> None:
        assert self.masks.priors is not None
        targets = self.masks.priors.intrinsics.targets
        value, slope, pull = targets.measure(self.intrinsics(x))
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
