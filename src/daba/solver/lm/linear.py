"""The reduced system S y = rhs over all devices, for one damping after the other.

S is never formed as a whole; what is formed and factored are its diagonal blocks S_cc, one for each
cluster of frames. Of one cluster S_cc is S, and the solution is direct (`direct.py`), or conjugate
gradients are preconditioned by factors of an earlier system (`renewed.py`). Else conjugate
gradients are preconditioned by S_cc and deflated by a coarse space (`deflated.py`). Of a
small problem all is dense.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from daba.core.lm import Estimate
from daba.core.types import Floats
from daba.distributed.lm_shard import LmShard
from daba.solver.lm.network import Network


@dataclass
class Solution:
    """Steps of own frames, (F, B), and of what is shared, (m,)."""

    frames: Floats
    shared: Floats
    iterations: int = 0
    """Of conjugate gradients."""
    energy: float = 0.0
    """yᵀSy = rhsᵀy, of all devices."""


class FactoredAt(NamedTuple):
    """An earlier system whose factors are used again."""

    x: Estimate
    mu: float


class Reduced(ABC):
    """Solves S y = rhs."""

    def __init__(self, shard: LmShard, ops: Any, network: Network) -> None:
        self.shard, self.ops, self.network = shard, ops, network
        index = shard.images.index[shard.images.group]
        self._index, self._known = ops.put(np.maximum(index, 0)), ops.put(index >= 0)

    def of_images(self, shared: Any) -> Any:
        """Shared parameters as each image has them, (I, G)."""
        if not len(shared):
            return self.ops.zeros(tuple(self._index.shape))
        return self.ops.where(self._known, shared[self._index], 0.0)

    rough = False
    """Whether the estimate is far from any optimum, so that solutions must be close."""

    def linearized(self, x: Estimate) -> None:  # noqa: B027 (not all have something to do)
        """Take up new derivatives, which are those at x."""

    @abstractmethod
    def solve(self, mu: float) -> Solution | None:
        """For damping μ; None if a block is not positive definite."""

    at_hand = False
    """Whether factors of S are there for another gradient."""

    @abstractmethod
    def again(self, mu: float) -> Solution | None:
        """For the same damping, after the gradient has changed."""

    @property
    @abstractmethod
    def description(self) -> str:
        """For people."""

    def state(self) -> dict[str, Floats]:
        """What the next solution depends on, by frame; for checkpoints."""
        return {}

    def restore(self, states: dict[int, dict[str, np.ndarray]]) -> None:  # noqa: B027
        """The reverse, from those of all devices here."""

    made: FactoredAt | None = None
    """Which earlier system the next solution depends on."""

    def common_state(self) -> dict[str, Any]:
        """What else it depends on."""
        return {}

    def remake(self, common: dict[str, Any]) -> None:  # noqa: B027
        """The reverse, with the derivatives of that earlier system at hand."""


class Whole(Reduced):
    """All of S at once, by operations that have it so."""

    description = "dense"

    def solve(self, mu: float) -> Solution | None:
        found = self.ops.solve(mu)
        if found is None:
            return None
        frames, shared, energy = found
        return Solution(frames, shared, energy=energy)

    again = solve
