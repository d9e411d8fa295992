"""ADMM and Douglas–Rachford with intrinsics held, as they go before lm in pixels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daba.backends.cpu.consensus import CpuConsensus
from daba.backends.cpu.kernels import refine
from daba.backends.operations import Block
from daba.core.options import Options
from daba.core.types import State
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard
from daba.distributed.stages import with_intrinsics_held
from daba.solver.constraints.equations import ConstrainedEquations
from daba.solver.constraints.masks import Masks
from daba.solver.make import make_linear_solver


class HeldConsensus(CpuConsensus):
    """Every copy of a camera keeps the d it has, so that nothing has to be agreed on about it."""

    def __init__(
        self, shard: Shard, options: Options, equations: ConstrainedEquations, block: Block
    ) -> None:
        super().__init__(shard, options, equations, block)
        self.masks = equations.masks

    def _follow(self, x: State) -> None:
        if self.block == "cameras":
            return super()._follow(x)
        m, obs = self.masks, (self.shard.inter, self.shard.intra)
        refine.refine_cameras(
            *obs, x.cameras, x.points, self.devices.camera_tasks, self.loss,
            free=m.free_cameras, positions=m.known_positions, intrinsics=m.known_intrinsics,
        )  # fmt: skip

    def shown_gradient(self) -> State:
        g_c, g_l = super().shown_gradient()
        return State(np.where(self.masks.fixed, 0.0, g_c), g_l)


def held_consensus(
    alone: Shard, options: Options, comm: Communicator, block: Block
) -> HeldConsensus:
    """Of devices with their copies."""
    shard = with_intrinsics_held(replace(alone, constraints=None))
    masks = Masks(shard, comm)
    linear = make_linear_solver(shard, options, comm, masks.shared)
    equations = ConstrainedEquations(shard, options.loss, linear, masks)
    return HeldConsensus(shard, options, equations, block)
