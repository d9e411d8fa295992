"""What ADMM and Douglas–Rachford ask of a GPU: the kernels of Algorithm 1, and a prior in torch's
arithmetic in the place of the surrogate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from daba.backends.gpu.arrays import Arrays, GpuState
from daba.backends.gpu.constraints import KernelConstraints
from daba.backends.gpu.lm.segments import Segments
from daba.backends.gpu.operations import GpuOperations
from daba.backends.gpu.tensors import Tensor
from daba.backends.operations import Base, Block, ConsensusOperations, Row, Status
from daba.core.options import Options
from daba.core.types import Bools, Floats, State
from daba.distributed.comm.base import Exchange
from daba.distributed.shard import Shard


class GpuConsensus(GpuOperations, ConsensusOperations):
    """The devices of one process with their copies, on one GPU."""

    prior: Any = None

    def __init__(
        self,
        shard: Shard,
        options: Options,
        block: Block,
        device: torch.device | str = "cuda",
        constraints: Callable[[Arrays], KernelConstraints] | None = None,
    ) -> None:
        super().__init__(shard, options, Exchange(), device, constraints)
        a, self.block = self.arrays, block
        self.kept: Block = "points" if block == "cameras" else "cameras"
        ptr = shard.devices.camera_ptr if block == "cameras" else shard.devices.point_ptr
        self.of_devices = Segments(torch.from_numpy(ptr.astype(np.int64)).to(self.device))
        self.visible = a.x.clone()

    def launch_all(self) -> None:
        a = self.arrays
        self.launches.objective(a.x, Row.ALWAYS)
        self.begin()
        self.linearize()
        self.assemble(Base.X)
        self.damp(Base.X)
        self.gradients(2)
        self.move(Base.X)
        self.judge(Base.X)
        self.advance()
        self.of_devices.sum(a.camera_bound[:, None])
        self.launches.refine(self.visible, self.kept, again=False)

    # The prior

    def _put(self, values: Floats) -> Tensor:
        """Rows of copies, in the GPU's order."""
        rows = torch.from_numpy(np.ascontiguousarray(values)).to(self.device)
        return rows if self.block == "cameras" else rows[self.arrays.order]

    def _rows(self, x: GpuState) -> Tensor:
        """The copies in an estimate."""
        return x.cameras[:, :15] if self.block == "cameras" else x.points[:, :3]

    def set_prior(self, kind: Any, K: Floats, penalty: float) -> None:
        if self.prior is None:  # where it lies is recorded in graphs
            self.prior = kind(self._put(K), self._rows(self.arrays.x).clone(), penalty)
        else:
            self.prior.K.copy_(self._put(K))

    def draw_to(self, target: Floats) -> None:
        self.prior.target.copy_(self._put(target))
        self.run("draw", self._draw)

    def _draw(self) -> None:
        self.arrays.table[Row.AT_X] = self._value(self.arrays.x)

    def _value(self, x: GpuState) -> Tensor:
        """Of the prior, (S,)."""
        squares = self.prior.squares(self._rows(x))
        return 0.5 * self.prior.penalty * self.of_devices.sum(squares[:, None])[:, 0]

    def local_objective(self) -> Floats:
        table = self.read()
        return np.asarray(table[Row.INTRA] + table[Row.AT_X])

    # A step

    def only(self, active: Bools) -> None:
        flags = torch.from_numpy(active.astype(np.float64)).to(self.device)
        self.arrays.table[Row.ACTIVE] = flags
        self.arrays.table[Row.TRYING] = flags

    def assemble(self, base: Base) -> None:
        a = self.arrays
        super().assemble(base)
        if self.prior is None:
            return
        if self.block == "cameras":
            tiles = a.system.view(-1, 16, 16)
            matrix, gradient = tiles.diagonal(dim1=1, dim2=2)[:, :9], tiles[:, :9, 9]
        else:
            matrix, gradient = a.V[:6].T, a.g.T
        self.prior.add_to(matrix, gradient, self._rows(a.x))
        if self.constraints is not None:
            a.system.mul_(self.constraints.inside)

    def judge(self, base: Base) -> None:
        a, launches = self.arrays, self.launches
        launches.objective(a.new, Row.TRYING)
        launches.add_up(self.step_jobs)
        if self.prior is not None:
            a.table[Row.SUM_VALUE_X_C] = self._value(a.new) - a.table[Row.AT_X]
        launches.judge(here=True)

    def advance(self) -> None:
        table = self.arrays.table
        self.launches.settle()
        self.launches.shift()
        done = table[Row.STATUS, :1] == float(Status.DONE)
        for row, new in (
            (Row.INTRA, Row.NEW), (Row.INTRA_SQUARE, Row.NEW_SQUARE), (Row.AT_X, Row.NEW_X),
        ):  # fmt: skip
            table[row] = torch.where(done, table[new], table[row])

    # What is looked at in between

    def copied(self) -> Floats:
        return self._host(self._rows(self.arrays.x), self.block)

    def _host(self, rows: Tensor, block: Block) -> Floats:
        """Rows of cameras or points, in the shard's order."""
        ordered = rows if block == "cameras" else rows[self.arrays.index]
        return np.asarray(ordered.contiguous().cpu().numpy(), np.float64)

    def blocks(self) -> Floats:
        a = self.arrays
        if self.block == "points":
            return self._host(a.V[:6].T, "points")
        return self._host(a.U.view(-1, 16, 16).diagonal(dim1=1, dim2=2)[:, :9], "cameras")

    def step_bounds(self) -> Floats:
        return self._host(self.arrays.V[6], "points")

    # What is shown

    def show(self, x: State) -> None:
        self.visible.copy_(self.arrays.upload(x))
        self._measure()

    def follow(self, z: Floats, steps: int) -> None:
        self._rows(self.visible).copy_(self._put(z))
        self.run(("follow", steps), partial(self._follow, steps))

    def _follow(self, steps: int) -> None:
        for _ in range(steps):
            self.launches.refine(self.visible, self.kept, again=False)
        self._measure()

    def _measure(self) -> None:
        self.launches.objective(self.visible, Row.ALWAYS)
        self.launches.add_up(self.place_jobs)

    def shown(self) -> State:
        return self.arrays.download(self.visible)

    def shown_objective(self) -> Floats:
        table = self.read()
        return np.stack([table[Row.SUM_INTRA_C], table[Row.SUM_INTRA_SQUARE_C]], axis=1)

    def shown_gradient(self) -> State:
        a = self.arrays
        self.launches.linearize(self.visible)
        by_camera = a.U.view(-1, 16, 16)[:, :9, 9]
        if self.constraints is not None:
            by_camera = self.along_steps(by_camera)[:, :9]
        return State(self._host(by_camera, "cameras"), self._host(a.g.T, "points"))
