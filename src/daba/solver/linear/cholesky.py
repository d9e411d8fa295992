"""Direct solution of the reduced camera system: S explicit, in tiles, and factored."""

from __future__ import annotations

import numpy as np

from daba.backends.cpu.cache import Job, job
from daba.backends.cpu.kernels import cholesky
from daba.backends.cpu.kernels.block import aligned
from daba.core.types import Bools, Floats, Plan, Reduced
from daba.distributed.shard import Shard


class Cholesky:
    """Expects BLAS to use one thread (`backends/cpu/threads.py`)."""

    name = "direct"

    def __init__(self, shard: Shard, plan: Plan) -> None:
        self.shard, self.plan = shard, plan
        side = 9 * plan.size
        self.blocks = aligned(len(plan.tile_device) * plan.size**2)
        self.tiles = np.empty((len(plan.tile_device), side, side))
        self.inverses = np.empty((len(plan.tile), side, side))

    def jobs(self) -> list[Job]:
        """To compile what it runs."""
        return [job(cholesky.factor), job(cholesky.form), job(cholesky.substitute)]

    def solve(self, reduced: Reduced, rhs: Floats, active: Bools, y: Floats) -> tuple[Bools, int]:
        cholesky.form(self.shard.intra, reduced, active, self.plan, self.blocks, self.tiles)
        definite = cholesky.factor(self.plan, active, self.tiles, self.inverses)
        self.substitute(rhs, y)
        return active & definite, 0

    def solve_again(self, rhs: Floats, active: Bools, y: Floats) -> None:
        self.substitute(rhs, y)

    def substitute(self, rhs: Floats, y: Floats) -> None:
        """y = S⁻¹ rhs on all devices."""
        cholesky.substitute(self.plan, self.tiles, self.inverses, rhs, y)
