"""Terms ½ ρ(rᵀΛr) of single variables, r = x − x̂: their value, and what they add to a system."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daba.core.types import Bools, Floats, Known, State, System
from daba.distributed.shard import Shard
from daba.problem.priors import Priors, Targets

UPPER = (np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 2, 1, 2, 2]))
"""Rows and columns of the upper triangle of a 3×3 matrix, as points' blocks are stored."""


class PriorTerms:
    """The priors of the variables owned here. They are nobody else's, like intra observations."""

    def __init__(self, shard: Shard, priors: Priors) -> None:
        devices, self.count = shard.devices, shard.num_devices
        self.positions = _Owned.of(priors.positions, devices.camera_ptr)
        self.intrinsics = _Owned.of(priors.intrinsics, devices.camera_ptr)
        self.points = _Owned.of(priors.points, devices.point_ptr)

    def value(self, x: State, active: Bools | None = None) -> Floats:
        """Σ ½ ρ of each device, (S,); 0 on those that are not active."""
        values = (x.cameras[:, 9:12], x.cameras[:, 12:], x.points)
        total = np.zeros(self.count)
        for (targets, device), at in zip(
            (self.positions, self.intrinsics, self.points), values, strict=True
        ):
            total += np.bincount(device, targets.measure(at)[0], self.count)
        return total if active is None else np.where(active, total, 0.0)

    def add_to(self, system: System, x: State) -> None:
        """Gradient ρ' Λr and Gauss–Newton matrix ρ' Λ."""
        for targets, record, at in (
            (self.positions.targets, 9, slice(3, 6)),
            (self.intrinsics.targets, 12, slice(6, 9)),
        ):
            _, slope, pull = targets.measure(x.cameras[:, record : record + 3])
            system.U[targets.index, at, at] += slope[:, None, None] * targets.information
            system.g_c[targets.index, at] += slope[:, None] * pull
        targets = self.points.targets
        _, slope, pull = targets.measure(x.points)
        system.V[targets.index] += slope[:, None] * targets.information[:, *UPPER]
        system.g_l[targets.index] += slope[:, None] * pull


class _Owned(NamedTuple):
    """Priors of one kind, and the device of each."""

    targets: Targets
    device: np.ndarray

    @staticmethod
    def of(targets: Targets, ptr: np.ndarray) -> _Owned:
        return _Owned(targets, np.searchsorted(ptr, targets.index, side="right") - 1)


def known(targets: Targets | None, count: int) -> Known:
    """Priors in the form that kernels look up by variable."""
    targets = targets or Targets()
    row = np.full(count, -1, np.int32)
    row[targets.index] = np.arange(len(targets), dtype=np.int32)
    loss = targets.loss
    return Known(row, targets.target, targets.information, loss.kind, float(loss.radius))
