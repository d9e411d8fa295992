"""½κ (x − x̂)ᵀK(x − x̂): what draws a device's copies to their targets x̂.

K is block-diagonal: the Gauss–Newton matrix of what the devices see of a variable, in the mean over
its copies. So the penalty κ is a number without units; at κ = 1 a copy is held by its target about
as hard as by its observations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from daba.backends.cpu.surrogate import NoSurrogate
from daba.core.types import Bools, Floats, State, System
from daba.distributed.shard import Shard
from daba.solver.constraints.prior_terms import sum_by, times

UNIT = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 1.0])
"""The unit matrix, as its upper triangle."""
CAMERA_NUMBERS = (9, 3, 1, 1, 1)
"""Of a camera's 15 numbers, how many share one number of its metric: R, t, d1, d2, d3."""
ROUND = 0.03
"""How much of a point's mean eigenvalue goes into its metric."""


class Prior(NoSurrogate, ABC):
    """Of the copies of all devices here; it stands where DABA has a surrogate."""

    def __init__(self, shard: Shard, K: Floats, target: Floats, penalty: float) -> None:
        super().__init__(shard)
        self.shard, self.K, self.target, self.penalty = shard, K, target, penalty

    @staticmethod
    @abstractmethod
    def metric(system: System, kind: str) -> Floats:
        """The numbers that K is made of, from each device's own Gauss–Newton matrix."""

    @staticmethod
    @abstractmethod
    def spread(numbers: Floats) -> Floats:
        """K, made of these numbers."""


class CameraPrior(Prior):
    """½κ Σ K_a (c − ĉ)_a² over the 15 numbers (R, t, d) of a camera: |R − R̂|² is the chordal
    distance, and R̂ need not be a rotation."""

    @staticmethod
    def metric(system: System, kind: str) -> Floats:
        """One number for R, one for t and one for each of d; a turn by ω makes |R − R̂|² = 2|ω|²."""
        diagonal = np.einsum("iaa->ia", system.U)
        turn, move = diagonal[:, :3].mean(axis=1), diagonal[:, 3:6].mean(axis=1)
        return np.column_stack([0.5 * turn, move, diagonal[:, 6:]])

    @staticmethod
    def spread(numbers: Floats) -> Floats:
        return np.repeat(numbers, CAMERA_NUMBERS, axis=1)

    def value(self, x: State, active: Bools) -> Floats:
        terms = (self.K * np.square(x.cameras - self.target)).sum(axis=1)
        return 0.5 * self.penalty * sum_by(terms, self.shard.devices.camera_ptr)

    def add_to(self, system: System, x: State) -> None:
        """½|R − R̂|² has the gradient Σ R̂ₐ × Rₐ (over columns) along ω, and the curvature 2."""
        K = self.penalty * self.K
        R, target = (c[:, :9].reshape(-1, 3, 3) for c in (x.cameras, self.target))
        system.g_c[:, :3] += K[:, :1] * np.cross(target, R, axis=1).sum(axis=2)
        system.g_c[:, 3:] += K[:, 9:] * (x.cameras - self.target)[:, 9:]
        a = np.arange(9)
        system.U[:, a, a] += np.hstack([np.repeat(2.0 * K[:, :1], 3, axis=1), K[:, 9:]])


class PointPrior(Prior):
    """½κ (l − l̂)ᵀK(l − l̂), K a 3×3 matrix per point, as its upper triangle (P, 6)."""

    @staticmethod
    def metric(system: System, kind: str) -> Floats:
        """V, in which depth is uncertain, with some of its mean eigenvalue, because along a ray
        nothing else may hold a copy; or only this eigenvalue."""
        share = ROUND if kind == "matrix" else 1.0
        mean = system.V[:, [0, 3, 5]].mean(axis=1, keepdims=True)
        return (1.0 - share) * system.V + share * mean * UNIT

    @staticmethod
    def spread(numbers: Floats) -> Floats:
        return numbers

    def value(self, x: State, active: Bools) -> Floats:
        off = x.points - self.target
        terms = (off * times(self.K, off)).sum(axis=1)
        return 0.5 * self.penalty * sum_by(terms, self.shard.devices.point_ptr)

    def add_to(self, system: System, x: State) -> None:
        system.V[:] += self.penalty * self.K
        system.g_l[:] += self.penalty * times(self.K, x.points - self.target)
