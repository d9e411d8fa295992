"""Algorithm 1's operations on a GPU under constraints.

Where devices share intrinsics they communicate in the midst of an iteration, so that the host must
wait for the GPU there: phases are launched one kernel after the other, and only conjugate gradients
are graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from daba.backends.gpu.arrays import Arrays, GpuState
from daba.backends.gpu.consensus import GpuConsensus
from daba.backends.gpu.constrained_launches import ConstrainedLaunches
from daba.backends.gpu.constraints import KernelConstraints
from daba.backends.gpu.operations import GpuOperations
from daba.backends.operations import Base, Block, Phase, Row, Status
from daba.core import decisions
from daba.core.options import Options
from daba.core.types import Bools, Floats
from daba.distributed.comm.base import Blocks, Communicator, Exchange
from daba.distributed.shard import Shard
from daba.distributed.stages import with_intrinsics_held
from daba.problem.priors import Priors
from daba.solver.constraints.following_on_gpu import GpuFollowers
from daba.solver.constraints.groups import GroupParts
from daba.solver.constraints.joint_step import JointStep
from daba.solver.constraints.masks import Masks
from daba.solver.constraints.shared_step import SharedStep


def constrained_gpu_operations(
    shard: Shard, options: Options, comm: Communicator, exchange: Exchange, device: Any
) -> GpuOperations:
    """Of a shard that has constraints."""
    masks = Masks(shard, comm)
    constraints = kernel_constraints(shard, masks)
    if masks.groups is None or masks.groups.parts is None:
        return GpuOperations(shard, options, exchange, device, constraints)
    return GpuSharing(shard, options, exchange, device, (masks, masks.groups.parts))


def held_gpu_consensus(
    alone: Shard, options: Options, comm: Communicator, block: Block, device: Any
) -> GpuConsensus:
    """Of devices with their copies: every copy of a camera keeps the d it has."""
    shard = with_intrinsics_held(replace(alone, constraints=None))
    constraints = kernel_constraints(shard, Masks(shard, comm))
    return GpuConsensus(shard, options, block, device, constraints)


def kernel_constraints(shard: Shard, masks: Masks) -> Callable[[Arrays], KernelConstraints]:
    """Makes constraints as the GPU's kernels take them."""
    priors = (shard.constraints and shard.constraints.priors) or Priors()

    def make(arrays: Arrays) -> KernelConstraints:
        return KernelConstraints(
            arrays, masks.free, masks.fixed, masks.free_cameras, masks.shared.representative,
            masks.free_points, (priors.positions, priors.intrinsics, priors.points),
        )  # fmt: skip

    return make


class GpuSharing(GpuOperations):
    """Devices that share intrinsics move them together: by a joint step after each step of their
    own, and by an exact one at the end."""

    concludes = False
    launches: ConstrainedLaunches
    constraints: KernelConstraints

    def __init__(
        self,
        shard: Shard,
        options: Options,
        exchange: Exchange,
        device: Any,
        shared: tuple[Masks, GroupParts],
    ) -> None:
        masks, parts = shared
        super().__init__(shard, options, exchange, device, kernel_constraints(shard, masks))
        a = self.arrays
        self.all = np.ones(a.S, bool)
        self.damped = a.table[Row.RADIUS].clone()
        """Radius that each device's system was damped by last."""
        jobs = a.sums.jobs
        value = (Row.SUM_VALUE_C, Row.SUM_VALUE_L)
        self.try_jobs = jobs(Row.SUM_INTRA_C, Row.SUM_INTRA_SQUARE_C, *value)
        self.found_jobs = jobs(Row.SUM_VALUE_X_C, Row.SUM_VALUE_X_L, Row.SUM_MOVE_C, Row.SUM_MOVE_L)
        self.gap_jobs = jobs(Row.SUM_GAP_C, Row.SUM_GAP_L)
        self.arrived_jobs = jobs(
            Row.SUM_INTER_C, Row.SUM_INTER_L, Row.SUM_INTER_SQUARE_C, Row.SUM_INTRA_C,
            Row.SUM_INTRA_SQUARE_C,
        )  # fmt: skip
        self.shared_step = GpuSharedStep(shard, masks, parts, self)
        self.joint_step = JointStep(shard, self.shared_step, GpuFollowers(self))

    def launch_all(self) -> None:
        super().launch_all()
        a, launches = self.arrays, self.launches
        launches.move_points(*self.surrogate(Base.X), a.new.points, follow=True)
        launches.settle()
        launches.collect(a.rhs, int(Row.TRYING))
        launches.evaluate(a.new, (a.x, a.at_x), None, Row.ALWAYS)
        launches.objective(a.new, Row.ALWAYS)
        if a.accelerated and not a.refined:
            launches.rebase(a.new, a.at_x, guarded=True, gap=True)
        launches.rebase(a.new, a.at_x, guarded=True, gap=False)
        launches.intrinsics(a.x, self.shared_step.at, self.shared_step.sums)
        launches.finish(shared=True)

    # Running

    def run(self, name: Hashable, phase: Phase) -> None:
        phase()

    def when_done(self, phase: Phase) -> None:
        if self.status() is Status.DONE:
            phase()

    def rows(self, table: Floats, *rows: Row) -> None:
        """Change rows of the table, here and on the GPU."""
        for row in rows:
            self.arrays.table[row] = torch.from_numpy(table[row].copy()).to(self.device)

    def gradient_norm(self) -> float:
        return max(super().gradient_norm(), self.shared_step.gradient_norm(self.arrays.x))

    # A step

    def damp(self, base: Base) -> None:
        table = self.arrays.table
        self.damped = torch.where(table[Row.TRYING] > 0, table[Row.RADIUS], self.damped)
        super().damp(base)

    def judge(self, base: Base) -> None:
        self.weigh(base)
        if self.status() is Status.DONE:
            self.conclude(base)

    def conclude(self, base: Base) -> None:
        """When no device tries any more: the joint step, E^α⁺, and which devices must restart."""
        self.launches.settle()
        if base is Base.BAR or not self.options.accelerated:
            self.take_joint_step(base, self.all)
        if not self.options.accelerated:
            return
        t = self.measure_found()
        here = t[Row.INTRA] + t[Row.AT_X]
        t[Row.E] = decisions.bound(t[Row.NEW] + t[Row.NEW_X], t[Row.F], here)
        restart = self.shared_step.any_in_cluster(np.asarray(t[Row.E] > t[Row.F_BAR]))
        if base is Base.BAR and restart.any():
            t[Row.RESTARTS], t[Row.STATUS], t[Row.ATTEMPT] = restart, Status.RESTART, 0.0
            t[Row.ACTIVE] = t[Row.TRYING] = restart
            for row, value in (
                (Row.MOVED, 0.0), (Row.NEW, t[Row.INTRA]), (Row.NEW_SQUARE, t[Row.INTRA_SQUARE]),
                (Row.NEW_X, t[Row.AT_X]), (Row.NEW_MOVE, 0.0), (Row.START, here),
            ):  # fmt: skip
                t[row] = np.where(restart, value, t[row])
        self.write(t)

    def measure_found(self) -> Floats:
        """The surrogate at x, and |x⁺ − x|², of what was found; a copy of the table."""
        a = self.arrays
        self.launches.evaluate(a.new, (a.x, a.at_x), None, Row.ALWAYS)
        self.launches.add_up(self.found_jobs)
        t = self.read().copy()
        t[Row.NEW_X] = t[Row.AT_X] + t[Row.SUM_VALUE_X_C] + t[Row.SUM_VALUE_X_L]
        t[Row.NEW_MOVE] = t[Row.SUM_MOVE_C] + t[Row.SUM_MOVE_L]
        return t

    def take_joint_step(self, base: Base, active: Bools) -> Floats:
        """Move x⁺ on the active devices; returns the change of E^α."""
        return self.joint_step.take(base, active, int(self.read()[Row.TURN, 0]))

    # The end of an iteration

    def settle(self) -> None:
        """What found no step has been put back; see `SharingOperations` for the rest."""
        if self.options.accelerated:
            restarted = self.read()[Row.RESTARTS] > 0.0
            change = self.take_joint_step(Base.X, restarted)
            t = self.measure_found()
            t[Row.E] += change
            self.write(t)

    def exchange(self, blocks: Blocks, final: bool) -> None:
        self.ghosts.update(self.arrays.new, blocks)

    def finish(self) -> None:
        """Move the intrinsics that devices share, tell whoever has ghosts of their cameras, and
        build the surrogate there."""
        a, launches = self.arrays, self.launches
        if a.accelerated and not a.refined:
            launches.rebase(a.new, a.at_x, guarded=True, gap=True)
            launches.add_up(self.gap_jobs)
        elif a.refined:
            launches.add_up(self.finish_jobs)
        change = self.shared_step.move(a.new)
        self.ghosts.exchange.traffic.add(self.shared_step.parts.exchange.take_traffic())
        self.ghosts.update(a.new, "cameras")
        launches.objective(a.new, Row.ALWAYS)
        launches.rebase(a.new, a.at_x, guarded=True, gap=False)
        launches.add_up(self.arrived_jobs)
        launches.add_priors(a.new, Row.SUM_INTRA_C)
        t = self.read().copy()
        t[Row.CHANGE], t[Row.TURN] = change, t[Row.TURN] + 1
        self.rows(t, Row.CHANGE, Row.TURN)
        launches.finish(shared=True)
        if a.accelerated and self.options.resets:
            launches.reset_momentum()
        launches.shift()
        self.read()


class GpuSharedStep(SharedStep):
    """Estimates are the GPU's."""

    def __init__(
        self, shard: Shard, masks: Masks, parts: GroupParts, operations: GpuSharing
    ) -> None:
        super().__init__(shard, masks, parts, operations.options.loss)
        self.operations, device = operations, operations.device
        self.at = torch.from_numpy(self.chosen.astype(np.int32)).to(device)
        self.sums = torch.zeros((len(self.chosen), 16), dtype=torch.float64, device=device)

    def intrinsics(self, x: GpuState) -> Floats:
        own = x.cameras[: self.shard.num_cameras, 12:15]
        return np.asarray(own.contiguous().cpu().numpy())

    def put(self, x: GpuState, d: Floats) -> None:
        x.cameras[self.at.long(), 12:15] = torch.from_numpy(np.ascontiguousarray(d)).to(x[0].device)

    def quadratics(self, x: GpuState) -> Floats:
        self.sums.zero_()
        self.operations.launches.intrinsics(x, self.at, self.sums)
        return np.asarray(self.sums[:, :10].contiguous().cpu().numpy())
