"""What ADMM and Douglas–Rachford ask of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.backends.cpu.equations import Equations, NoSurrogate
from daba.backends.cpu.kernels import refine
from daba.backends.cpu.operations import CpuOperations
from daba.backends.operations import Base, Block, ConsensusOperations, Row
from daba.core.options import Options
from daba.core.types import Bools, Floats, State, System
from daba.distributed.comm.base import Exchange
from daba.distributed.shard import Shard


class CpuConsensus(CpuOperations, ConsensusOperations):
    """The devices of one process with their copies."""

    def __init__(self, shard: Shard, options: Options, equations: Equations, block: Block) -> None:
        super().__init__(shard, options, Exchange(), equations)
        self.block = block
        self.drawn = Drawn(shard, block)
        self.surrogates[Base.X] = self.drawn
        self.visible = shard.start

    def set_prior(self, kind: Any, K: Floats, penalty: float) -> None:
        self.drawn.prior = kind(K, np.zeros(()), penalty)

    def draw_to(self, target: Floats) -> None:
        self.drawn.prior.target = target

    def local_objective(self) -> Floats:
        return self.table[Row.INTRA] + self.drawn.value(self.x, self.all)

    def only(self, active: Bools) -> None:
        self.start_at(Base.X, active)

    def copied(self) -> Floats:
        return getattr(self.x, self.block)

    def blocks(self) -> Floats:
        system = self.equations.system
        return np.einsum("iaa->ia", system.U) if self.block == "cameras" else system.V

    def step_bounds(self) -> Floats:
        return self.equations.system.step_bound

    def show(self, x: State) -> None:
        self.visible = x

    def follow(self, z: Floats, steps: int) -> None:
        x = self.visible = self.visible._replace(**{self.block: z})
        for _ in range(steps):
            self._follow(x)

    def _follow(self, x: State) -> None:
        """As if all observations were of the boundary, so that all variables move."""
        intra, inter, devices = self.shard.intra, self.shard.inter, self.devices
        if self.block == "cameras":
            refine.refine_points(
                inter, intra, x.cameras, x.points, devices.point_tasks, self.loss, free=None,
                known=None,
            )  # fmt: skip
        else:
            refine.refine_cameras(
                inter, intra, x.cameras, x.points, devices.camera_tasks, self.loss, free=None,
                positions=None, intrinsics=None,
            )  # fmt: skip

    def shown(self) -> State:
        return self.visible

    def shown_objective(self) -> Floats:
        return self.equations.objective(self.visible, self.all)

    def shown_gradient(self) -> State:
        self.equations.linearize(self.visible)
        return State(self.equations.system.g_c, self.equations.system.g_l)


class Drawn(NoSurrogate):
    """The prior on copies, in place of a surrogate."""

    prior: Any

    def __init__(self, shard: Shard, block: Block) -> None:
        super().__init__(shard)
        self.block = block
        devices = shard.devices
        self.ptr = devices.camera_ptr if block == "cameras" else devices.point_ptr

    def value(self, x: State, active: Bools) -> Floats:
        squares = self.prior.squares(getattr(x, self.block))
        each = [squares[lo:hi].sum() for lo, hi in zip(self.ptr[:-1], self.ptr[1:], strict=True)]
        return 0.5 * self.prior.penalty * np.array(each)

    def add_to(self, system: System, x: State) -> None:
        if self.block == "cameras":
            self.prior.add_to(np.einsum("iaa->ia", system.U), system.g_c, x.cameras)
        else:
            self.prior.add_to(system.V, system.g_l, x.points)
