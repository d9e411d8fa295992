"""What ADMM and Douglas–Rachford have in common: rounds of local solves and of averages."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from daba.backends.cpu.kernels import refine
from daba.core.options import Options
from daba.core.types import Floats
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard, State
from daba.solver.consensus.copies import KEPT, Block, make_copies, of
from daba.solver.consensus.prior import CameraPrior, PointPrior, Prior
from daba.solver.interface import Arrays, Counts, DeviceObjective, Solver
from daba.solver.trust_region import Levenberg

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
        self.shard = shard.without_observations()  # the copies have them, in an order of their own
        self.all = np.ones(shard.num_devices, dtype=bool)
        self.exchange = self.comm.exchange(self.shard)
        self.x = shard.state()
        self.exchange.update(self.x, "both")
        self.copies = make_copies(shard, self.x, self.block, self.comm, self.exchange)
        self.levenberg = Levenberg(self.copies.shard, options, self.comm)
        self.y = self.copies.state(self.x)
        self.levenberg.prepare(self.y)
        kind = CameraPrior if self.block == "cameras" else PointPrior
        penalty = self.penalty() if options.penalty is None else options.penalty
        self.prior: Prior = kind(self.copies.shard, self.metric(kind), self.z, penalty)
        self.counts = Counts()
        self.moved = True
        self.evaluate()

    @property
    def linear_solver(self) -> str:
        """What solves the reduced camera system."""
        return type(self.levenberg.linear).__name__.lower()

    def metric(self, kind: type[Prior]) -> Floats:
        """K of each copy, from what all devices see of its variable at their copies."""
        numbers = kind.metric(self.levenberg.system, self.options.metric)
        nothing = State(*(np.empty((len(rows), 0)) for rows in self.x))
        told = np.empty((len(of(self.x, self.block)), numbers.shape[1]))
        told[: self.copies.count] = self.copies.mean(numbers, once=True)
        self.exchange.constants(*nothing._replace(**{self.block: told}))
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
        self.prior.target = target
        y, active, steps = self.y, self.all.copy(), 0
        intra = self.levenberg.objective(y, self.all)
        E = intra[:, 0] + self.prior.value(y, self.all)
        self.counts = Counts()
        self.moved = False
        while active.any() and steps < self.options.inner_steps:
            step = self.levenberg.step(y, intra, self.prior, active)
            y, intra, before = step.x, step.intra, E
            E = intra[:, 0] + self.prior.value(y, self.all)
            active &= step.moved & (before - E > ENOUGH * before)
            self.moved |= bool(step.moved.any())
            self.counts.pcg_iterations += step.pcg_iterations
            self.counts.lm_retries += step.retries
            self.counts.lm_steps += step.accepted
            steps += 1
        self.levenberg.prepare(y)  # here begins the next round
        self.y = y

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
        self.exchange.traffic.add(self.copies.up.take_traffic())
        self.moved |= not np.array_equal(of(x, self.block), of(self.x, self.block))
        self.x = x
        return self.z

    def publish(self) -> None:
        """Complete x: what is not copied follows z, each variable by a few steps of its own that
        lower F from where it was published last. The method itself never looks at it."""
        loss, shard = self.options.loss, self.copies.shard
        x = self.copies.state(self.x)
        ends = (shard.inter, shard.intra, *x)  # all variables are at the "boundary"
        for _ in range(FOLLOWING_STEPS):
            if self.block == "cameras":
                refine.refine_points(
                    *ends, shard.devices.point_tasks, loss.kind, loss.radius, None, None
                )
            else:
                refine.refine_cameras(
                    *ends, shard.devices.camera_tasks, loss.kind, loss.radius, None, None, None
                )
        kept = KEPT[self.block]
        of(self.x, kept)[: len(of(x, kept))] = of(x, kept)
        self.evaluate()

    def evaluate(self) -> None:
        """F(x) of each device's observations."""
        self.intra = self.levenberg.objective(self.copies.state(self.x), self.all)

    @property
    def estimate(self) -> State:
        return self.x

    def device_objective(self) -> DeviceObjective:
        """Without priors, which consensus methods do not take; every observation is intra."""
        F, square = self.intra.T
        return DeviceObjective(F, square, np.zeros_like(F))

    def gradient_norm(self) -> float:
        """Largest entry of the gradient of F at x."""
        self.levenberg.prepare(self.copies.state(self.x))
        system = self.levenberg.system
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
                "radius": self.levenberg.radius[a : a + 1],
                "shrink": self.levenberg.shrink[a : a + 1],
            }
            for a, device in enumerate(x)
        }

    def common_state(self) -> dict[str, float]:
        """What of it is the same on every device: nothing."""
        return {}

    def put_back(self, states: dict[int, Arrays], common: dict[str, float]) -> None:
        """The reverse; neighbours tell their ghosts."""
        x, y = self.shard.by_device(self.x), self.copies.shard.by_device(self.y)
        memory, metric = map(self.copies.by_device, (self.memory, self.prior.K))
        for a, (device, found) in enumerate(states.items()):
            x[device].cameras[:], x[device].points[:] = found["cameras"], found["points"]
            y[device].cameras[:] = found["copied_cameras"]
            y[device].points[:] = found["copied_points"]
            memory[a][:], metric[a][:] = found["memory"], found["metric"]
            self.levenberg.radius[a] = found["radius"][0]
            self.levenberg.shrink[a] = found["shrink"][0]
        self.exchange.update(self.x, "both")
        self.levenberg.prepare(self.y)
        self.evaluate()


def _rotations(M: Floats) -> Floats:
    """The rotation nearest to each of M (n, 9)."""
    A, _, B = np.linalg.svd(M.reshape(-1, 3, 3))
    A[:, :, 2] *= np.linalg.det(A @ B)[:, None]
    return np.asarray((A @ B).reshape(-1, 9))
