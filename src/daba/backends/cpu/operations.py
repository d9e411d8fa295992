"""Algorithm 1's operations on the CPU: Numba kernels, and NumPy on the device table."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

import numpy as np

from daba.backends.cpu.equations import Equations, NoSurrogate, Surrogate
from daba.backends.cpu.kernels import objective as passes
from daba.backends.cpu.kernels import refine, state
from daba.backends.operations import Base, Operations, Phase, Row, Status
from daba.core import decisions
from daba.core.options import Options
from daba.core.types import Bools, Floats, State
from daba.distributed.comm.base import Blocks, Exchange
from daba.distributed.shard import Shard

EPSILON = 1e-16
"""Share of E^α below which a promised decrease is none."""


class CpuOperations(Operations):
    """The devices of one process. A phase is a plain call."""

    tolerance = 1e-9

    def __init__(
        self, shard: Shard, options: Options, exchange: Exchange, equations: Equations
    ) -> None:
        self.shard, self.options, self.exchanger = shard, options, exchange
        self.equations, self.devices = equations, shard.devices
        self.linear_solver = equations.linear.name
        self.loss = options.loss.parameters
        self.all = np.ones(shard.num_devices, bool)
        self.table = np.zeros((len(Row), shard.num_devices))
        self.surrogates = self._surrogates()
        self.x = self.new = self.last = self.bar = shard.start
        if options.accelerated:
            self.bar = shard.state()
        cameras, points = shard.start
        self.camera_s = np.ones(len(cameras))
        self.distance, self.centroid = np.ones(len(cameras)), np.zeros_like(points)
        self.predicted = np.zeros(shard.num_devices)

    def _surrogates(self) -> dict[Base, Surrogate]:
        shard, o = self.shard, self.options
        if o.centralized or o.copies:
            nothing = NoSurrogate(shard)
            return {Base.X: nothing, Base.BAR: nothing}
        at_x = Surrogate(shard, o.loss, o.split, o.xi)
        if not o.accelerated:
            return {Base.X: at_x, Base.BAR: at_x}
        records = at_x.records if o.rounds else None
        return {Base.X: at_x, Base.BAR: Surrogate(shard, o.loss, o.split, o.xi, records)}

    # Running

    def run(self, name: Hashable, phase: Phase) -> None:
        phase()

    def when_done(self, phase: Phase) -> None:
        if self.status() is Status.DONE:
            phase()

    def status(self) -> Status:
        return Status(int(self.table[Row.STATUS, 0]))

    def read(self) -> Floats:
        return self.table

    def write(self, table: Floats) -> None:
        self.table[:] = table

    def flags(self, row: Row) -> Bools:
        return np.asarray(self.table[row] > 0.0)

    # The state

    def set_estimate(self, x: State) -> None:
        t = self.table
        self.x = self.last = x
        t[Row.INTRA], t[Row.INTRA_SQUARE] = self.equations.objective(x, self.all).T
        t[Row.INTER], t[Row.INTER_SQUARE] = self.surrogates[Base.X].rebase(x).T
        t[Row.AT_X] = self.surrogates[Base.X].at_base

    def set_momentum(self, last: State, camera_s: Floats) -> None:
        self.last, self.camera_s = last, camera_s

    def set_scales(self, distance: Floats, centroid: Floats) -> None:
        self.distance, self.centroid = distance, centroid

    def estimate(self) -> State:
        return self.x

    def momentum(self) -> tuple[State, Floats]:
        return self.last, self.camera_s

    def prior_objective(self) -> Floats:
        return self.equations.prior_objective(self.x)

    def gradient_norm(self) -> float:
        """The surrogate's gradient is F's at its base (Prop. 1)."""
        self.equations.assemble(self.x, self.surrogates[Base.X])
        parts = (self.equations.gradient(), self.equations.system.g_l)
        return float(max(np.abs(g).max(initial=0.0) for g in parts))

    # Nesterov's acceleration and majorization

    def begin(self) -> None:
        t = self.table
        t[Row.GAMMA], t[Row.S_POINTS] = decisions.nesterov(t[Row.S_POINTS])
        self.new = self.x.copy()
        for row in (Row.CHANGE, Row.PCG, Row.RETRIES, Row.RESTARTS, Row.STEPS):
            t[row] = 0.0
        self.start_at(Base.X, self.all)

    def start_at(self, base: Base, active: Bools) -> None:
        """Begin a step on E^α(· | base) from x, on some devices."""
        t = self.table
        t[Row.ATTEMPT] = 0.0
        t[Row.ACTIVE] = t[Row.TRYING] = active
        for row, value in (
            (Row.MOVED, 0.0), (Row.NEW, t[Row.INTRA]), (Row.NEW_SQUARE, t[Row.INTRA_SQUARE]),
            (Row.START, t[Row.INTRA] + self.surrogates[base].value(self.x, active)),
        ):  # fmt: skip
            t[row] = np.where(active, value, t[row])

    def extrapolate(self) -> None:
        gamma, self.camera_s = decisions.nesterov(self.camera_s)
        x, last, bar = self.x, self.last, self.bar
        state.extrapolate_cameras(gamma, x.cameras, last.cameras, bar.cameras)
        state.extrapolate_points(
            float(self.table[Row.GAMMA, 0]), x.points, last.points, self.centroid,
            clip=self.options.clip, out=bar.points,
        )  # fmt: skip

    def rebase(self) -> None:
        self.surrogates[Base.BAR].rebase(self.bar)
        self.start_at(Base.BAR, self.all)

    def linearize(self) -> None:
        self.equations.linearize(self.x)

    def assemble(self, base: Base) -> None:
        self.equations.assemble(self.x, self.surrogates[base])

    # Minimization

    def damp(self, base: Base) -> None:
        self.equations.damp(self.table[Row.RADIUS], self.flags(Row.TRYING))

    def solve(self) -> None:
        self.predicted, iterations = self.equations.solve(self.flags(Row.TRYING))
        self.table[Row.PCG] += iterations

    def solve_on(self) -> None:
        raise AssertionError("a solution on the CPU is complete")

    def move(self, base: Base) -> None:
        e, d, trying = self.equations, self.devices, self.flags(Row.TRYING)
        state.retract(
            self.x, e.step_c, e.step_l, trying, d.camera_tasks, d.point_tasks,
            out_c=self.new.cameras, out_l=self.new.points,
        )  # fmt: skip

    def judge(self, base: Base) -> None:
        t, trying = self.table, self.flags(Row.TRYING)
        value = self.equations.objective(self.new, trying)
        actual = t[Row.START] - value[:, 0] - self.surrogates[base].value(self.new, trying)
        good, gain = decisions.accept(trying, actual, self.predicted, self.options.lm_gain)
        stalled = decisions.stalled(trying, good, self.predicted, t[Row.START], EPSILON)
        failed = trying & ~good & ~stalled
        t[Row.RADIUS], t[Row.SHRINK] = decisions.next_radius(
            good, failed, gain, t[Row.RADIUS], t[Row.SHRINK], t[Row.LIMIT]
        )
        t[Row.NEW] = np.where(good, value[:, 0], t[Row.NEW])
        t[Row.NEW_SQUARE] = np.where(good, value[:, 1], t[Row.NEW_SQUARE])
        t[Row.MOVED] += good
        t[Row.STEPS] += good
        t[Row.RETRIES] += trying & (t[Row.ATTEMPT] > 0)
        t[Row.ATTEMPT] += 1
        again = failed & (t[Row.RADIUS] > decisions.SMALLEST_RADIUS)
        again &= t[Row.ATTEMPT] < self.options.lm_tries
        t[Row.TRYING], t[Row.STATUS] = again, Status.RETRY
        if not again.any():
            self.conclude(base)

    def conclude(self, base: Base) -> None:
        """When no device tries any more: x⁺ = x on those that have found no step, E^α⁺, and which
        devices must restart."""
        t = self.table
        stayed = self.flags(Row.ACTIVE) & ~self.flags(Row.MOVED)
        t[Row.SHRINK, stayed] = decisions.FIRST_SHRINK  # the next base is another: begin gently
        state.choose(
            ~self.flags(Row.MOVED), self.x, self.devices.camera_tasks, self.devices.point_tasks,
            out_c=self.new.cameras, out_l=self.new.points,
        )  # fmt: skip
        t[Row.STATUS] = Status.DONE
        self.step_found(base)
        if not self.options.accelerated:
            return
        t[Row.NEW_X] = self.surrogates[Base.X].value(self.new, self.all)
        here = t[Row.INTRA] + t[Row.AT_X]
        t[Row.E] = decisions.bound(t[Row.NEW] + t[Row.NEW_X], t[Row.F], here)
        if base is Base.BAR:
            restart = self.restarting(np.asarray(t[Row.E] > t[Row.F_BAR]))
            if restart.any():
                t[Row.RESTARTS] = restart
                self.start_at(Base.X, restart)
                t[Row.STATUS] = Status.RESTART

    def step_found(self, base: Base) -> None:
        """What follows a step of all devices: here nothing."""

    def restarting(self, above: Bools) -> Bools:
        """Devices that restart, given those that are above their level: the same."""
        return above

    # The end of an iteration

    def settle(self) -> None:
        """It was done when the step was found."""

    def slack(self) -> None:
        tasks = self.devices.point_tasks
        gap = passes.slack_by_point(
            self.shard.inter, self.new, self.x, tasks, self.loss, self.options.split
        )
        self.table[Row.CHANGE] += gap - self.proximal()

    def proximal(self) -> Floats:
        """½ξ|x⁺ − x|² of each device."""
        square: Floats = state.square_distance(
            self.new, self.x, self.devices.camera_tasks, self.devices.point_tasks
        )
        return 0.5 * self.options.xi * square

    def refine(self, block: Literal["cameras", "points"], again: bool) -> None:
        self.table[Row.CHANGE] += self.refined(self.new, block)

    def refined(self, x: State, block: Literal["cameras", "points"]) -> Floats:
        """Move cameras or points of the boundary of x; returns the change of F, (S,)."""
        change: Floats
        if block == "points":
            change = refine.refine_points(
                self.shard.intra, self.shard.inter, x.cameras, x.points, self.devices.point_tasks,
                self.loss, free=None, known=None,
            )  # fmt: skip
        else:
            change = refine.refine_cameras(
                self.shard.intra, self.shard.inter, x.cameras, x.points, self.devices.camera_tasks,
                self.loss, free=None, positions=None, intrinsics=None,
            )  # fmt: skip
        return change

    def exchange(self, blocks: Blocks, final: bool) -> None:
        self.exchanger.start(self.new, blocks)
        if final:  # meanwhile begin what needs no ghosts
            self.measure()
            self.equations.linearize(self.new)
        self.exchanger.finish(self.new)

    def measure(self) -> None:
        """The objective of the intra observations at x⁺, which refinement has moved."""
        t = self.table
        if self.options.rounds:
            t[Row.NEW], t[Row.NEW_SQUARE] = self.equations.objective(self.new, self.all).T

    def finish(self) -> None:
        t, o, new = self.table, self.options, self.new
        if not self.exchanger.neighbours:
            self.measure()
        self.arrive()
        if o.accelerated:
            F = t[Row.E] + t[Row.CHANGE]
            if o.limited_by_objective:
                t[Row.RADIUS], t[Row.LIMIT] = decisions.limit_by_objective(
                    t[Row.F], F, t[Row.RADIUS], t[Row.LIMIT]
                )
            t[Row.F] = F
            t[Row.F_BAR] = decisions.restart_level(t[Row.F_BAR], F, t[Row.ETA])
            t[Row.ETA] = decisions.next_eta(t[Row.ETA], o.eta_growth)
            if o.resets:
                state.reset_momentum(
                    self.bar.cameras, new.cameras, self.x.cameras, self.distance, self.camera_s
                )
        self.advance()

    def advance(self) -> None:
        """x_last ← x, x ← x⁺."""
        t = self.table
        t[Row.INTRA], t[Row.INTRA_SQUARE] = t[Row.NEW], t[Row.NEW_SQUARE]
        self.last, self.x = self.x, self.new

    def arrive(self) -> None:
        """The surrogate at x⁺ and, without refinement, its slack there: of each inter observation
        one half on each of its devices, as in the paper."""
        t, o, surrogate = self.table, self.options, self.surrogates[Base.X]
        gap = o.accelerated and not o.rounds
        t[Row.INTER], t[Row.INTER_SQUARE] = surrogate.rebase(self.new, gap).T
        t[Row.AT_X] = surrogate.at_base
        if gap:
            t[Row.CHANGE] = surrogate.gap - self.proximal()
