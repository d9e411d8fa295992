"""Douglas–Rachford splitting on points (Eriksson et al. 2016): cameras are split, points copied.

With f(x) = Σ F^α(x^α) and the indicator g of "all copies agree",

    x ← prox_f(s),   z ← prox_g(2x − s) = mean over copies,   s ← s + a (z − x)

where prox_f is a local solve, argmin F^α(x) + ½κ|l − s^α|²_K, and a in (0, 2) the relaxation.
"""

from __future__ import annotations

import numpy as np

from daba.core.decisions import STEP_BOUND
from daba.core.options import Options
from daba.core.types import Floats
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard
from daba.solver.consensus.consensus import Consensus

TETHER = {"matrix": 0.05, "scalar": 0.5}
"""Most that s is away from z, as a share of the distance from the copy to its nearest camera. A
point that a device sees only once is free along its ray there: its s would run away, through the
camera and beyond, and no average would bring it back (safeguarded multipliers)."""


class DouglasRachford(Consensus):
    """Cameras where they are; a copy of each point on every device that sees it."""

    block = "points"

    def __init__(self, shard: Shard, options: Options, comm: Communicator | None = None) -> None:
        super().__init__(shard, options, comm)
        self.memory = self.local.copy()

    def penalty(self) -> float:
        return 0.5 if self.options.metric == "matrix" else 0.1

    def iterate(self) -> None:
        self.minimize(self.memory)
        z = self.agree(2.0 * self.local - self.memory)
        s = self.memory + self.options.relaxation * (z - self.local)
        self.memory = z + self.tethered(s - z)
        self.publish()

    def tethered(self, off: Floats) -> Floats:
        most = TETHER[self.options.metric] / STEP_BOUND * self.equations.system.step_bound
        length = np.linalg.norm(off, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(length > most, most / length, 1.0)[:, None] * off
