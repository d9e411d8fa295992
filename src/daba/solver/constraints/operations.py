"""Algorithm 1's operations on the CPU under constraints."""

from __future__ import annotations

from typing import Literal

from daba.backends.cpu.kernels import refine
from daba.backends.cpu.operations import CpuOperations
from daba.backends.operations import Base, Row
from daba.core.options import Options
from daba.core.types import Bools, Floats, State
from daba.distributed.comm.base import Blocks, Communicator, Exchange
from daba.distributed.shard import Shard
from daba.solver.constraints.equations import ConstrainedEquations
from daba.solver.constraints.following import CpuFollowers
from daba.solver.constraints.joint_step import JointStep
from daba.solver.constraints.masks import Masks
from daba.solver.constraints.shared_step import SharedStep
from daba.solver.make import make_linear_solver


class ConstrainedOperations(CpuOperations):
    """What is fixed stays to the bit, and what is known beforehand counts."""

    def __init__(
        self,
        shard: Shard,
        options: Options,
        exchange: Exchange,
        equations: ConstrainedEquations,
    ) -> None:
        super().__init__(shard, options, exchange, equations)
        self.masks = equations.masks

    def move(self, base: Base) -> None:
        super().move(base)
        self.masks.keep(self.x, self.new)

    def refined(self, x: State, block: Literal["cameras", "points"]) -> Floats:
        m, obs = self.masks, (self.shard.intra, self.shard.inter)
        change: Floats
        if block == "points":
            change = refine.refine_points(
                *obs, x.cameras, x.points, self.devices.point_tasks, self.loss,
                free=m.free_points, known=m.known_points,
            )  # fmt: skip
        else:
            change = refine.refine_cameras(
                *obs, x.cameras, x.points, self.devices.camera_tasks, self.loss,
                free=m.free_cameras, positions=m.known_positions, intrinsics=m.known_intrinsics,
            )  # fmt: skip
        return change


class SharingOperations(ConstrainedOperations):
    """Devices that share intrinsics move them together: by a joint step after each step of their
    own, and by an exact one at the end."""

    def __init__(
        self,
        shard: Shard,
        options: Options,
        exchange: Exchange,
        equations: ConstrainedEquations,
        shared_step: SharedStep,
    ) -> None:
        super().__init__(shard, options, exchange, equations)
        self.shared_step = shared_step
        followers = CpuFollowers(self, equations)
        self.joint_step = JointStep(shard, shared_step, followers)

    def gradient_norm(self) -> float:
        return max(super().gradient_norm(), self.shared_step.gradient_norm(self.x))

    def step_found(self, base: Base) -> None:
        if base is Base.BAR or not self.options.accelerated:
            self.take_joint_step(base, self.all)

    def restarting(self, above: Bools) -> Bools:
        """What devices share they keep or give up together."""
        return self.shared_step.any_in_cluster(above)

    def settle(self) -> None:
        """Whether or not a device here has restarted: neighbours communicate the same number of
        times whatever is decided."""
        if self.options.accelerated:
            restarted = self.flags(Row.RESTARTS)
            self.table[Row.E] += self.take_joint_step(Base.X, restarted)

    def take_joint_step(self, base: Base, active: Bools) -> Floats:
        """Move x⁺ on the active devices; returns the change of E^α."""
        return self.joint_step.take(base, active, int(self.table[Row.TURN, 0]))

    def exchange(self, blocks: Blocks, final: bool) -> None:
        """Nothing is begun meanwhile: cameras will move once more."""
        self.exchanger.update(self.new, blocks)

    def arrive(self) -> None:
        """Move the intrinsics that devices share, tell whoever has ghosts of their cameras, and
        build the surrogate there."""
        t = self.table
        if not self.options.rounds:
            super().arrive()
        t[Row.CHANGE] += self.shared_step.move(self.new)
        self.exchanger.traffic.add(self.shared_step.parts.exchange.take_traffic())
        self.exchanger.update(self.new, "cameras")
        t[Row.NEW], t[Row.NEW_SQUARE] = self.equations.objective(self.new, self.all).T
        surrogate = self.surrogates[Base.X]
        t[Row.INTER], t[Row.INTER_SQUARE] = surrogate.rebase(self.new).T
        t[Row.AT_X] = surrogate.at_base
        t[Row.TURN] += 1


def constrained_operations(
    shard: Shard, options: Options, comm: Communicator, exchange: Exchange
) -> CpuOperations:
    """Of a shard that has constraints."""
    masks = Masks(shard, comm)
    linear = make_linear_solver(shard, options, comm, masks.shared)
    equations = ConstrainedEquations(shard, options.loss, linear, masks)
    if masks.groups is None or masks.groups.parts is None:
        return ConstrainedOperations(shard, options, exchange, equations)
    shared_step = SharedStep(shard, masks, masks.groups.parts, options.loss)
    return SharingOperations(shard, options, exchange, equations, shared_step)
