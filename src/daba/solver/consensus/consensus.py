"""ADMM and Douglas–Rachford: rounds of local solves and of averages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from daba.backends.operations import Base, Block, ConsensusOperations, Row
from daba.core.decisions import FIRST_SHRINK, LARGEST_RADIUS, STEP_BOUND
from daba.core.options import Options
from daba.core.types import Bools, Floats, State
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard, boundary_of
from daba.solver.consensus.copies import KEPT, PRIORS, make_copies, of
from daba.solver.interface import Arrays, Counts, DeviceObjective, Solver
from daba.solver.trust_region import TrustRegion, counts_of

MakeOperations = Callable[[Shard, Block], ConsensusOperations]
"""Of devices with their copies, and of what is copied."""
ENOUGH = 0.3
"""A device's local solve ends when a step lowers E^α by less than this share. To go on would cost
more than the next round, and far from the solution devices would run away from each other."""
FOLLOWING_STEPS = 2
"""Steps of each variable that is not copied, in a round, to follow those that are."""
RENEWED = 10
"""Rounds of ADMM after which K is measured anew. A camera that comes near to what it sees is held
by its observations hundreds of times harder than at the start: with the first K its copies are as
good as free, and one that falls into another minimum takes all others along."""
TETHER = {"matrix": 0.05, "scalar": 0.5}
"""Most that Douglas–Rachford's s is away from z, as a share of the distance from the copy to its
nearest camera. A point that a device sees only once is free along its ray there: its s would run
away, through the camera and beyond, and no average would bring it back (safeguarded
multipliers)."""


class Consensus(Solver):
    """min Σ_α F^α(x^α) so that all copies of a variable agree: x^α = z.

    F^α are the observations of device α's points, or of its cameras. `x` is what a user would get:
    the mean z of each copied variable, and of the others what is best for z.
    """

    block: Block
    """What is copied."""
    memory: Floats
    """What each copy remembers from one round to the next."""

    def __init__(
        self, shard: Shard, options: Options, comm: Communicator, make: MakeOperations
    ) -> None:
        self.options, self.comm = options, comm
        self.boundary, self.counts = boundary_of(shard), Counts()
        self.shard = shard.without_observations()  # the copies have them, in an order of their own
        self.all = np.ones(shard.num_devices, dtype=bool)
        self.exchange = comm.exchange(self.shard)
        self.x = shard.state()
        self.exchange.update(self.x, "both")
        self.copies = make_copies(shard, self.x, self.block, comm, self.exchange)
        self.operations = make(self.copies.alone, self.block)
        self.region = TrustRegion(self.operations, [self.operations.advance])
        self._start()
        self.moved = True

    def _start(self) -> None:
        ops, options = self.operations, self.options
        ops.set_estimate(self.copies.state(self.x))
        table = ops.read().copy()
        table[Row.RADIUS] = min(options.first_radius, LARGEST_RADIUS)
        table[Row.SHRINK], table[Row.LIMIT] = FIRST_SHRINK, LARGEST_RADIUS
        ops.write(table)
        ops.linearize()
        self.set_metric(self.metric())
        ops.show(self.copies.state(self.x))
        self.evaluate()

    @property
    def linear_solver(self) -> str:
        """What solves the reduced camera system."""
        return self.operations.linear_solver

    def set_metric(self, K: Floats) -> None:
        penalty = self.penalty() if self.options.penalty is None else self.options.penalty
        self.K = K
        self.operations.set_prior(PRIORS[self.block], K, penalty)

    def metric(self) -> Floats:
        """K of each copy, from what all devices see of its variable at their copies, where their
        system has been linearized."""
        kind = PRIORS[self.block]
        numbers = kind.metric(self.operations.blocks(), self.options.metric)
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
    def y(self) -> State:
        """The copies, and what stays where it is."""
        return self.operations.estimate()

    @property
    def local(self) -> Floats:
        """The copies."""
        return self.operations.copied()

    @abstractmethod
    def iterate(self) -> None:
        """One round: a local solve on every device, and one average."""

    def minimize(self, target: Floats) -> Floats:
        """x^α ← argmin F^α(x) + ½κ|x − target|²_K, by up to `inner_steps` accepted steps; returns
        the copies."""
        ops = self.operations
        ops.draw_to(target)
        active, steps, E = self.all.copy(), 0, ops.local_objective()
        self.counts = Counts()
        self.moved = False
        while active.any() and steps < self.options.inner_steps:
            moved, before = self.step(active), E
            E = ops.local_objective()
            active &= moved & (before - E > ENOUGH * before)
            self.moved |= bool(moved.any())
            steps += 1
        ops.run("linearize", ops.linearize)  # here begins the next round
        return self.local

    def step(self, active: Bools) -> Bools:
        """Lower E^α on the active devices by one accepted step; returns those that have moved."""
        ops = self.operations
        ops.run("begin", self.begin)
        ops.only(active)
        self.region.step(Base.X)
        self.counts.add(counts_of(ops.table))
        return np.asarray(ops.table[Row.MOVED] > 0.0)

    def begin(self) -> None:
        """A step from x."""
        ops = self.operations
        ops.begin()
        ops.linearize()
        ops.assemble(Base.X)

    def agree(self, values: Floats, local: Floats) -> Floats:
        """z ← the mean of `values` over copies, of those without siblings what they are; rotations
        are projected to SO(3). Returns z."""
        mean = self.copies.mean(np.where(self.copies.shared[:, None], values, local))
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
        """Complete x: what is not copied follows z. The method itself never looks at it."""
        self.operations.follow(self.z, FOLLOWING_STEPS)
        self.evaluate()

    def evaluate(self) -> None:
        """F(x) of each device's observations."""
        self.intra = self.operations.shown_objective()

    @property
    def estimate(self) -> State:
        kept = KEPT[self.block]
        shown = of(self.operations.shown(), kept)
        of(self.x, kept)[: len(shown)] = shown
        return self.x

    def device_objective(self) -> DeviceObjective:
        """Without priors, which consensus methods do not take; every observation is intra."""
        F, square = self.intra.T
        return DeviceObjective(F, square, np.zeros_like(F))

    def gradient_norm(self) -> float:
        """Largest entry of the gradient of F at x."""
        g = self.operations.shown_gradient()
        copied = self.copies.mean(of(g, self.block), once=True)
        copied *= self.copies.siblings[:, None]  # of all copies of a variable together
        here = max(np.abs(a).max(initial=0.0) for a in (copied, of(g, KEPT[self.block])))
        return float(self.comm.gather(np.full((len(self.all), 1), here)).max())

    def check(self) -> None:
        """Nothing is guaranteed of a single round."""

    def device_states(self) -> dict[int, Arrays]:
        """Everything that the next round depends on, by device; for checkpoints."""
        x, y = self.shard.by_device(self.estimate), self.copies.shard.by_device(self.y)
        memory, metric = map(self.copies.by_device, (self.memory, self.K))
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
        ops, before, table = self.operations, self.y.copy(), self.operations.read().copy()
        x, y = self.shard.by_device(self.x), self.copies.shard.by_device(before)
        memory, metric = map(self.copies.by_device, (self.memory, self.K))
        for a, (device, found) in enumerate(states.items()):
            x[device].cameras[:], x[device].points[:] = found["cameras"], found["points"]
            y[device].cameras[:] = found["copied_cameras"]
            y[device].points[:] = found["copied_points"]
            memory[a][:], metric[a][:] = found["memory"], found["metric"]
            table[Row.RADIUS, a], table[Row.SHRINK, a] = found["radius"][0], found["shrink"][0]
        self.exchange.update(self.x, "both")
        ops.write(table)
        ops.set_estimate(before)
        self.set_metric(self.K)
        ops.show(self.copies.state(self.x))
        self.evaluate()


def _rotations(M: Floats) -> Floats:
    """The rotation nearest to each of M (n, 9)."""
    A, _, B = np.linalg.svd(M.reshape(-1, 3, 3))
    A[:, :, 2] *= np.linalg.det(A @ B)[:, None]
    return np.asarray((A @ B).reshape(-1, 9))


class Admm(Consensus):
    """Consensus ADMM on cameras (Zhang et al. 2017): points are split; a copy of each camera is on
    every device that it sees a point of.

        x^α ← argmin F^α(x) + ½κ|c − (z − u^α)|²_K
        v^α = a c^α + (1 − a) z + u^α,   z ← mean of v^α over copies,   u^α ← v^α − z

    c^α are device α's copies, u^α their scaled duals and a the relaxation. K is renewed now and
    then."""

    block = "cameras"

    def _start(self) -> None:
        super()._start()
        self.memory = np.zeros_like(self.local)
        self.rounds = 0

    def penalty(self) -> float:
        return 0.01

    def iterate(self) -> None:
        z, a = self.z, self.options.relaxation
        local = self.minimize(z - self.memory)
        v = a * local + (1.0 - a) * z + self.memory
        self.memory = (v - self.agree(v, local)) * self.copies.shared[:, None]
        self.rounds += 1
        if self.rounds % RENEWED == 0:
            self.renew()
        self.publish()

    def renew(self) -> None:
        """Measure K at the copies, where the local solve has left its system. The multipliers
        κKu stay what they are."""
        force = self.K * self.memory
        self.set_metric(self.metric())
        self.memory = np.divide(force, self.K, out=np.zeros_like(force), where=self.K > 0)

    def common_state(self) -> dict[str, float]:
        return {"rounds": self.rounds}

    def put_back(self, states: dict[int, Arrays], common: dict[str, float]) -> None:
        super().put_back(states, common)
        self.rounds = int(common["rounds"])


class DouglasRachford(Consensus):
    """Douglas–Rachford splitting on points (Eriksson et al. 2016): cameras are split; a copy of
    each point is on every device that sees it. With f(x) = Σ F^α(x^α) and the indicator g of "all
    copies agree",

        x ← prox_f(s),   z ← prox_g(2x − s) = mean over copies,   s ← s + a (z − x)

    where prox_f is a local solve, argmin F^α(x) + ½κ|l − s^α|²_K, and a in (0, 2) the
    relaxation."""

    block = "points"

    def _start(self) -> None:
        super()._start()
        self.memory = self.local.copy()

    def penalty(self) -> float:
        return 0.5 if self.options.metric == "matrix" else 0.1

    def iterate(self) -> None:
        local = self.minimize(self.memory)
        z = self.agree(2.0 * local - self.memory, local)
        s = self.memory + self.options.relaxation * (z - local)
        self.memory = z + self.tethered(s - z)
        self.publish()

    def tethered(self, off: Floats) -> Floats:
        most = TETHER[self.options.metric] / STEP_BOUND * self.operations.step_bounds()
        length = np.linalg.norm(off, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(length > most, most / length, 1.0)[:, None] * off
