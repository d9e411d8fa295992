"""What ADMM and Douglas–Rachford have in common: rounds of local solves and of averages."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from daba.backends.cpu.equations import Equations
from daba.backends.cpu.kernels import refine
from daba.backends.cpu.operations import CpuOperations
from daba.backends.operations import Base, Row
from daba.core.decisions import FIRST_SHRINK, LARGEST_RADIUS
from daba.core.options import Options
from daba.core.types import Bools, Floats, State
from daba.distributed.comm.base import Communicator, Exchange
from daba.distributed.shard import Shard, boundary_of
from daba.solver.consensus.copies import (
    KEPT,
    Block,
    CameraPrior,
    PointPrior,
    Prior,
    make_copies,
    of,
)
from daba.solver.interface import Arrays, Counts, DeviceObjective, Solver
from daba.solver.make import make_linear_solver
from daba.solver.trust_region import TrustRegion, counts_of

ENOUGH = 0.3
"""A device's local solve ends when a step lowers E^α by less than this share. To go on would cost
more than the next round, and far from the solution devices would run away from each other."""
FOLLOWING_STEPS = 2
"""Steps of each variable that is not copied, in a round, to follow those that are."""


class Consensus(Solver):
    """min Σ_α F^α(x^α) so that all copies of a variable agree: x^α = z.

    F^α are the observations of device α's points, or of its cameras. `x` is what a user would get:
    the mean z of each copied variable, and of the others what is best for z. `y` are the copies.
    """

    block: Block
    """What is copied."""
    memory: Floats
    """What each copy remembers from one round to the next."""

    def __init__(self, shard: Shard, options: Options, comm: Communicator | None = None) -> None:
        self.options, self.comm = options, comm or Communicator()
        self.boundary, self.counts = boundary_of(shard), Counts()
        self.shard = shard.without_observations()  # the copies have them, in an order of their own
        self.all = np.ones(shard.num_devices, dtype=bool)
        self.exchange = self.comm.exchange(self.shard)
        self.x = shard.state()
        self.exchange.update(self.x, "both")
        self.copies = make_copies(shard, self.x, self.block, self.comm, self.exchange)
        self.operations = self._operations()
        self.equations = self.operations.equations
        self.region = TrustRegion(self.operations)
        self.y = self.copies.state(self.x)
        self.equations.linearize(self.y)
        kind = CameraPrior if self.block == "cameras" else PointPrior
        penalty = self.penalty() if options.penalty is None else options.penalty
        self.prior: Prior = kind(self.copies.shard, self.metric(kind), self.z, penalty)
        self.operations.surrogates[Base.X] = self.prior
        self.moved = True
        self.evaluate()

    def _operations(self) -> CpuOperations:
        """Of the devices with their copies, to which every observation is intra."""
        shard, options = self.copies.shard, self.options
        linear = make_linear_solver(shard, options, self.comm)
        equations = Equations(shard, options.loss, linear)
        operations = CpuOperations(shard, options, Exchange(), equations)
        table = operations.table
        table[Row.RADIUS] = min(options.first_radius, LARGEST_RADIUS)
        table[Row.SHRINK], table[Row.LIMIT] = FIRST_SHRINK, LARGEST_RADIUS
        return operations

    @property
    def linear_solver(self) -> str:
        """What solves the reduced camera system."""
        return self.operations.linear_solver

    def metric(self, kind: type[Prior]) -> Floats:
        """K of each copy, from what all devices see of its variable at their copies."""
        numbers = kind.metric(self.equations.system, self.options.metric)
        nothing = State(*(np.empty((len(rows), 0)) for rows in self.x))
        told = np.empty((len(of(self.x, self.block)), numbers.shape[1]))
        told[: self.copies.count] = self.copies.mean(numbers, once=True)
        self.exchange.fill(*nothing._replace(**{self.block: told}))
        self._count_rounds(numbers.shape[1])
        self.exchange.traffic.add(self.copies.up.take_traffic())
        return kind.spread(told[self.copies.source]) * self.copies.shared[:, None]

    @abstractmethod
    def penalty(self) -> float:
        """κ, where the options do not say."""

    @property
    def z(self) -> Floats:
        """The mean, beside each copy of it."""
        return of(self.x, self.block)[self.copies.source]

    @property
    def local(self) -> Floats:
        """The copies."""
        return of(self.y, self.block)

    @abstractmethod
    def iterate(self) -> None:
        """One round: a local solve on every device, and one average."""

    def minimize(self, target: Floats) -> None:
        """x^α ← argmin F^α(x) + ½κ|x − target|²_K, by up to `inner_steps` accepted steps."""
        ops, self.prior.target = self.operations, target
        ops.set_estimate(self.y)
        active, steps = self.all.copy(), 0
        E = ops.table[Row.INTRA] + self.prior.value(self.y, self.all)
        self.counts = Counts()
        self.moved = False
        while active.any() and steps < self.options.inner_steps:
            moved = self.step(active)
            self.y, before = ops.x, E
            E = ops.table[Row.INTRA] + self.prior.value(self.y, self.all)
            active &= moved & (before - E > ENOUGH * before)
            self.moved |= bool(moved.any())
            steps += 1
        self.equations.linearize(self.y)  # here begins the next round

    def step(self, active: Bools) -> Bools:
        """Lower E^α on the active devices by one accepted step; returns those that have moved."""
        ops = self.operations
        ops.begin()
        ops.start_at(Base.X, active)
        ops.assemble(Base.X)
        self.region.step(Base.X)
        ops.advance()
        self.counts.add(counts_of(ops.table))
        return ops.flags(Row.MOVED)

    def agree(self, values: Floats) -> Floats:
        """z ← the mean of `values` over copies, its rotations projected to SO(3). Returns z."""
        alone = ~self.copies.shared[:, None]
        mean = self.copies.mean(np.where(alone, self.local, values))
        x = self.x.copy()
        seen = np.flatnonzero(self.copies.siblings)
        of(x, self.block)[seen] = mean[seen]
        if self.block == "cameras":
            x.cameras[seen, :9] = _rotations(mean[seen, :9])
        self.exchange.update(x, self.block)
        self._count_rounds(values.shape[1])
        self.exchange.traffic.add(self.copies.up.take_traffic())
        self.moved |= not np.array_equal(of(x, self.block), of(self.x, self.block))
        self.x = x
        return self.z

    def _count_rounds(self, numbers: int) -> None:
        """Copies go to the owners of their variables, and a mean comes back."""
        rounds = 2 if self.comm.rank == 0 else 0
        sent = 2 * self.boundary.bytes(**{self.block: numbers})
        self.counts.add(Counts(rounds=rounds, boundary_bytes=sent))

    def publish(self) -> None:
        """Complete x: what is not copied follows z, each variable by a few steps of its own that
        lower F from where it was published last. The method itself never looks at it."""
        kept, x = KEPT[self.block], self.copies.state(self.x)
        for _ in range(FOLLOWING_STEPS):
            self.follow(x)
        of(self.x, kept)[: len(of(x, kept))] = of(x, kept)
        self.evaluate()

    def follow(self, x: State) -> None:
        """A step of each variable that is not copied: as if all observations were of the boundary,
        so that all of them move."""
        shard, loss = self.copies.shard, self.options.loss.parameters
        if self.block == "cameras":
            refine.refine_points(
                shard.inter, shard.intra, x.cameras, x.points, shard.devices.point_tasks, loss,
                free=None, known=None,
            )  # fmt: skip
        else:
            refine.refine_cameras(
                shard.inter, shard.intra, x.cameras, x.points, shard.devices.camera_tasks, loss,
                free=None, positions=None, intrinsics=None,
            )  # fmt: skip

    def evaluate(self) -> None:
        """F(x) of each device's observations."""
        self.intra = self.equations.objective(self.copies.state(self.x), self.all)

    @property
    def estimate(self) -> State:
        return self.x

    def device_objective(self) -> DeviceObjective:
        """Without priors, which consensus methods do not take; every observation is intra."""
        F, square = self.intra.T
        return DeviceObjective(F, square, np.zeros_like(F))

    def gradient_norm(self) -> float:
        """Largest entry of the gradient of F at x."""
        self.equations.linearize(self.copies.state(self.x))
        system = self.equations.system
        g = State(system.g_c, system.g_l)
        copied = self.copies.mean(of(g, self.block), once=True)
        copied *= self.copies.siblings[:, None]  # of all copies of a variable together
        here = max(np.abs(a).max(initial=0.0) for a in (copied, of(g, KEPT[self.block])))
        return float(self.comm.gather(np.full((len(self.all), 1), here)).max())

    def check(self) -> None:
        """Nothing is guaranteed of a single round."""

    def device_states(self) -> dict[int, Arrays]:
        """Everything that the next round depends on, by device; for checkpoints."""
        x, y = self.shard.by_device(self.x), self.copies.shard.by_device(self.y)
        memory, metric = map(self.copies.by_device, (self.memory, self.prior.K))
        return {
            device: {
                "cameras": x[device].cameras,
                "points": x[device].points,
                "copied_cameras": y[device].cameras,
                "copied_points": y[device].points,
                "memory": memory[a],
                "metric": metric[a],
                "radius": self.operations.table[Row.RADIUS, a : a + 1],
                "shrink": self.operations.table[Row.SHRINK, a : a + 1],
            }
            for a, device in enumerate(x)
        }

    def common_state(self) -> dict[str, float]:
        """What of it is the same on every device: nothing."""
        return {}

    def put_back(self, states: dict[int, Arrays], common: dict[str, float]) -> None:
        """The reverse; neighbours send their ghosts."""
        self.y, table = self.y.copy(), self.operations.table
        x, y = self.shard.by_device(self.x), self.copies.shard.by_device(self.y)
        memory, metric = map(self.copies.by_device, (self.memory, self.prior.K))
        for a, (device, found) in enumerate(states.items()):
            x[device].cameras[:], x[device].points[:] = found["cameras"], found["points"]
            y[device].cameras[:] = found["copied_cameras"]
            y[device].points[:] = found["copied_points"]
            memory[a][:], metric[a][:] = found["memory"], found["metric"]
            table[Row.RADIUS, a], table[Row.SHRINK, a] = found["radius"][0], found["shrink"][0]
        self.exchange.update(self.x, "both")
        self.equations.linearize(self.y)
        self.evaluate()


def _rotations(M: Floats) -> Floats:
    """The rotation nearest to each of M (n, 9)."""
    A, _, B = np.linalg.svd(M.reshape(-1, 3, 3))
    A[:, :, 2] *= np.linalg.det(A @ B)[:, None]
    return np.asarray((A @ B).reshape(-1, 9))
