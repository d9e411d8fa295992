"""Consensus ADMM on cameras (Zhang et al. 2017): points are split, cameras are copied.

    x^α ← argmin F^α(x) + ½κ|c − (z − u^α)|²_K
    v^α = a c^α + (1 − a) z + u^α,   z ← mean of v^α over copies,   u^α ← v^α − z

c^α are device α's copies, u^α their scaled duals and a the relaxation. K is renewed now and then.
"""

from __future__ import annotations

import numpy as np

from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard
from daba.solver.consensus.consensus import Consensus
from daba.solver.consensus.copies import CameraPrior
from daba.solver.interface import Arrays

RENEWED = 10
"""Rounds after which K is measured anew. A camera that comes near to what it sees is held by its
observations hundreds of times harder than at the start: with the first K its copies are as good as
free, and one that falls into another minimum takes all others along."""


class Admm(Consensus):
    """Points where they are; a copy of each camera on every device that it sees a point of."""

    block = "cameras"

    def __init__(self, shard: Shard, options: Options, comm: Communicator | None = None) -> None:
        super().__init__(shard, options, comm)
        self.memory = np.zeros_like(self.local)
        self.rounds = 0

    def penalty(self) -> float:
        return 0.01

    def iterate(self) -> None:
        z, a = self.z, self.options.relaxation
        self.minimize(z - self.memory)
        v = a * self.local + (1.0 - a) * z + self.memory
        self.memory = (v - self.agree(v)) * self.copies.shared[:, None]
        self.rounds += 1
        if self.rounds % RENEWED == 0:
            self.renew()
        self.publish()

    def renew(self) -> None:
        """Measure K at the copies, where the local solve has left its system. The multipliers
        κKu stay what they are."""
        before, self.prior.K = self.prior.K, self.metric(CameraPrior)
        K, force = self.prior.K, before * self.memory
        self.memory = np.divide(force, K, out=np.zeros_like(force), where=K > 0)

    def common_state(self) -> dict[str, float]:
        return {"rounds": self.rounds}

    def put_back(self, states: dict[int, Arrays], common: dict[str, float]) -> None:
        super().put_back(states, common)
        self.rounds = int(common["rounds"])
