"""Algorithm 1 of the paper: decentralized, accelerated bundle adjustment.

DABA runs all of it; DUBA leaves out acceleration and restart; LM is DUBA with one device. Where it
is computed is up to its operations (`backends/operations.py`).
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from daba.backends.operations import Base, Operations, Phase, Row, Status
from daba.core.decisions import FIRST_SHRINK
from daba.core.options import Options
from daba.core.types import Floats, State
from daba.distributed.comm.base import Blocks, Communicator, Exchange
from daba.distributed.shard import Shard, boundary_of
from daba.problem.checks import CAMERA_RECORD
from daba.solver.interface import Counts, DeviceObjective
from daba.solver.state import Before, Checkpointed, check
from daba.solver.trust_region import TrustRegion, counts_of, first_limit


class Ending(NamedTuple):
    """A phase at the end of an iteration, and what neighbours are told after it."""

    phase: Phase
    ghosts: Blocks | None
    final: bool = False
    """Whether x⁺ does not move any more."""


class Algorithm1(Checkpointed):
    """The devices of one process and the state of Algorithm 1 on them."""

    def __init__(
        self,
        shard: Shard,
        options: Options,
        comm: Communicator,
        exchange: Exchange,
        operations: Operations,
    ) -> None:
        self.shard, self.options, self.comm = shard, options, comm
        self.exchange, self.operations = exchange, operations
        self.accelerated = options.accelerated
        self.first_base = Base.BAR if self.accelerated else Base.X
        self.endings = self._endings()
        self.sent = self._sent_each_time()
        alone = not exchange.neighbours
        self.region = TrustRegion(operations, [e.phase for e in self.endings] if alone else [])
        self._start()
        self.counts = Counts()
        self.moved = True
        self.checked = Before.of(self)

    def _start(self) -> None:
        ops, options, x = self.operations, self.options, self.shard.state()
        self.exchange.update(x, "both")
        ops.set_estimate(x)
        if self.accelerated and (options.resets or np.isfinite(options.clip)):
            distance, centroid = extrapolation_scales(self.shard, x)
            self.exchange.fill(distance, centroid)
            ops.set_scales(distance[:, 0].copy(), centroid)
        table = ops.read().copy()
        F = table[Row.INTRA] + table[Row.AT_X]
        limit = first_limit(self.shard, options)
        for row, value in (
            (Row.F, F), (Row.E, F), (Row.F_BAR, F * options.restart_ratio), (Row.LIMIT, limit),
            (Row.RADIUS, np.minimum(options.first_radius, limit)), (Row.SHRINK, FIRST_SHRINK),
            (Row.S_POINTS, 1.0), (Row.ETA, options.eta),
        ):  # fmt: skip
            table[row] = value
        ops.write(table)

    def iterate(self) -> None:
        """One pass through the loop of Algorithm 1, for every device α."""
        ops = self.operations
        ops.run("begin", self.begin)
        if self.region.step(self.first_base) is Status.RESTART:  # E^α⁺ > F̄^α somewhere
            ops.run("restart", partial(ops.assemble, Base.X))
            self.region.step(Base.X)
        if self.exchange.neighbours:
            self.end()
        table = ops.table
        self.counts, self.moved = counts_of(table), bool(table[Row.MOVED].any())
        self.counts.add(self.sent)

    def begin(self) -> None:
        """Nesterov's acceleration and majorization."""
        ops = self.operations
        ops.begin()
        if self.accelerated:
            ops.extrapolate()
            ops.rebase()
        ops.linearize()
        ops.assemble(self.first_base)

    def end(self) -> None:
        """The end of an iteration where neighbours must be told what it makes, phase by phase."""
        ops = self.operations
        for n, (phase, ghosts, final) in enumerate(self.endings):
            ops.run(("end", n), phase)
            if ghosts is not None:
                ops.exchange(ghosts, final)
        ops.read()

    def _endings(self) -> list[Ending]:
        """x⁺ where a step was found, refinement of the boundary, and F^α = E^α + ΔE^α(x⁺ | x)."""
        ops, rounds = self.operations, self.options.rounds
        if not rounds:
            return [Ending(ops.settle, "both", final=True), Ending(ops.finish, None)]
        endings = [Ending(ops.settle, "cameras")]
        for n, block in enumerate(rounds):
            last = n == len(rounds) - 1
            endings.append(Ending(partial(self.refine, n, block), block, final=last))
        return [*endings, Ending(ops.finish, None)]

    def _sent_each_time(self) -> Counts:
        """What an iteration sends to other devices."""
        if self.shard.ranges.devices == 1:
            return Counts()
        boundary, rounds = boundary_of(self.shard), [e.ghosts for e in self.endings if e.ghosts]
        sent = sum(
            boundary.bytes(
                cameras=CAMERA_RECORD if blocks != "points" else 0,
                points=3 if blocks != "cameras" else 0,
            )
            for blocks in rounds
        )
        return Counts(rounds=len(rounds) if self.comm.rank == 0 else 0, boundary_bytes=sent)

    def refine(self, n: int, block: Literal["cameras", "points"]) -> None:
        """Round n of refinement."""
        if n == 0 and self.accelerated:
            self.operations.slack()
        self.operations.refine(block, again=block in self.options.rounds[:n])

    # What the run loop looks at

    @property
    def estimate(self) -> State:
        return self.operations.estimate()

    @property
    def linear_solver(self) -> str:
        return self.operations.linear_solver

    def device_objective(self) -> DeviceObjective:
        return DeviceObjective(
            F=self.row(Row.INTRA) + self.row(Row.INTER),
            square=self.row(Row.INTRA_SQUARE) + self.row(Row.INTER_SQUARE),
            priors=self.operations.prior_objective(),
        )

    def gradient_norm(self) -> float:
        here = self.operations.gradient_norm()
        return float(self.comm.gather(np.full((self.shard.num_devices, 1), here)).max())

    def check(self) -> None:
        self.checked = check(self, self.checked)


def extrapolation_scales(shard: Shard, x: State) -> tuple[Floats, Floats]:
    """What momentum is reset and clipped by: the mean distance from each camera to its points, and
    the mean centre of each point's cameras, at the start. Rows of ghosts are for their owners to
    fill."""
    arrays, C, P = shard.arrays, shard.num_cameras, shard.num_points
    distance, center = np.ones((len(x.cameras), 1)), x.points.copy()
    centers, points = arrays.put(x.cameras[:, 9:12].copy()), arrays.put(x.points)
    far, sums = np.zeros((C, 1)), np.zeros((P, 3))
    seen_c, seen_l = np.zeros((C, 1)), np.zeros((P, 1))
    for obs in (shard.intra, shard.inter):
        by_camera = obs.camera_obs  # in the order of all devices, whoever owns the points
        seen_c += np.diff(obs.camera_ptr)[:, None]
        away = arrays.take(centers, obs.camera[by_camera])
        away = away - arrays.take(points, obs.point[by_camera])
        far += arrays.sums(((away**2).sum(1) ** 0.5)[:, None], obs.camera_ptr)
        seen_l += np.diff(obs.point_ptr)[:, None]
        own = obs.camera[: int(obs.point_ptr[-1])]  # those of own points come first
        sums += arrays.sums(arrays.take(centers, own), obs.point_ptr)
    distance[:C] = np.where(far > 0, far / np.maximum(seen_c, 1), 1.0)
    center[:P] = np.where(seen_l > 0, sums / np.maximum(seen_l, 1), x.points[:P])
    return distance, center
