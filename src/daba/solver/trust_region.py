"""One accepted Levenberg–Marquardt step on E^α of every device, by as many attempts as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from daba.backends.operations import Base, Operations, Phase, Row, Status
from daba.core.decisions import CAUTIOUS_RADIUS, FEW_OBSERVATIONS, LARGEST_RADIUS
from daba.core.options import Options
from daba.core.types import Floats
from daba.distributed.shard import Shard
from daba.solver.interface import Counts


class TrustRegion:
    """Attempts of all devices at once; those that have found a step wait for the others."""

    def __init__(self, operations: Operations, afterwards: Sequence[Phase] = ()) -> None:
        """`afterwards` are phases that follow at once when all devices are done: they are told
        before the status is known, so that a GPU need not wait for the host."""
        self.operations, self.afterwards = operations, afterwards

    def step(self, base: Base) -> Status:
        """Lower E^α(· | base) on each active device, or leave it where it is; whether that is all,
        or some devices must restart."""
        status = self.attempt(base)
        while status in (Status.RETRY, Status.MORE):
            if status is Status.RETRY:
                status = self.attempt(base)
            else:
                self.operations.solve_on()
                status = self.decide(base)
        return status

    def attempt(self, base: Base) -> Status:
        """Solve the damped system, and see what the step is worth."""
        ops = self.operations
        ops.run(("damp", base), partial(ops.damp, base))
        ops.solve()
        return self.decide(base)

    def decide(self, base: Base) -> Status:
        ops = self.operations

        def phase() -> None:
            ops.move(base)
            ops.judge(base)
            for following in self.afterwards:
                ops.when_done(following)

        ops.run(("decide", base), phase)
        return ops.status()


def counts_of(table: Floats) -> Counts:
    """What an iteration has done, from the device table."""
    return Counts(
        restarts=int(table[Row.RESTARTS].sum()),
        pcg_iterations=int(table[Row.PCG].sum()),
        lm_retries=int(table[Row.RETRIES].sum()),
        lm_steps=int(table[Row.STEPS].sum()),
    )


def first_limit(shard: Shard, options: Options) -> Floats:
    """Limit of the radius of each device at the start: cautious ones have a badly observed camera,
    where nothing else keeps momentum in check."""
    limit = np.full(shard.num_devices, LARGEST_RADIUS)
    if options.limited_by_objective:
        seen = np.diff(shard.intra.camera_ptr) + np.diff(shard.inter.camera_ptr)
        few = np.flatnonzero((seen > 0) & (seen < FEW_OBSERVATIONS))
        limit[np.searchsorted(shard.devices.camera_ptr, few, side="right") - 1] = CAUTIOUS_RADIUS
    return limit
