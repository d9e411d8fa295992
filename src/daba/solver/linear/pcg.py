"""Preconditioned conjugate gradients on the reduced camera system S y = rhs of all devices."""

from __future__ import annotations

import numpy as np

from daba.backends.cpu.cache import Job, job
from daba.backends.cpu.kernels import pcg, schur
from daba.core.options import Options
from daba.core.types import Bools, Floats, Reduced, SharedGroups, starts
from daba.distributed.shard import Shard


class Pcg:
    """Implicit S, preconditioned by its diagonal blocks."""

    name = "pcg"
    reduced: Reduced

    def __init__(self, shard: Shard, options: Options, groups: SharedGroups | None = None) -> None:
        self.shard, self.groups = shard, groups
        self.stop = (options.pcg_forcing, options.pcg_residual, options.pcg_iterations)
        self.buffers = product_buffers(shard)
        self.factors = np.empty((shard.num_cameras, 9, 9))

    def jobs(self) -> list[Job]:
        """To compile what it runs."""
        shares = self.groups is not None
        some = [job(pcg.share_blocks)] if shares else []
        return [job(pcg.solve, shares), job(schur.schur_diagonal), job(pcg.factor_blocks), *some]

    def solve(
        self, reduced: Reduced, rhs: Floats, active: Bools, y: Floats
    ) -> tuple[Bools, Floats]:
        devices, self.reduced = self.shard.devices, reduced
        tasks = devices.camera_tasks
        schur.schur_diagonal(self.shard.intra, reduced, active, tasks, self.factors)
        if self.groups is not None:
            pcg.share_blocks(self.factors, self.groups, active, devices.camera_ptr)
        pcg.factor_blocks(self.factors, tasks, active)
        return active, self._iterate(rhs, active, y)

    def solve_again(self, rhs: Floats, active: Bools, y: Floats) -> None:
        self._iterate(rhs, active, y)

    def _iterate(self, rhs: Floats, active: Bools, y: Floats) -> Floats:
        """Iterations of each device."""
        count: Floats = pcg.solve(
            self.shard.intra, self.reduced, self.factors, rhs, active, self.shard.devices,
            buffers=self.buffers, stop=self.stop, groups=self.groups, x=y,
        )  # fmt: skip
        return count


def product_buffers(shard: Shard) -> tuple[np.ndarray, Floats]:
    """Room for what each task adds to the cameras of its device in S·v, and where it begins."""
    tasks = shard.devices.point_tasks
    rows = np.diff(shard.devices.camera_ptr)[tasks.device]
    ptr = starts(rows)
    return ptr, np.empty((int(ptr[-1]), 9))
