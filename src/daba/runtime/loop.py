"""The run loop: iterate a solver, report, and stop where there is a reason to."""

from __future__ import annotations

import itertools
import math
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.core.types import Floats
from daba.runtime.observers import REASONS, Interrupt, Observers
from daba.runtime.result import Iteration, RankReport
from daba.solver.interface import Counts, Solver

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator, Traffic
    from daba.distributed.network_model import NetworkModel
    from daba.distributed.shard import State

BY_CALLBACK = "the callback asked to stop"
BY_USER = {*REASONS.values(), BY_CALLBACK}
"""Reasons after which a solve does not go on, whatever is left to do."""


@dataclass
class LoopProgress:
    """How far a loop has come: what a checkpoint keeps beside the solver's state."""

    iteration: int = 0
    idle: int = 0
    """Iterations in a row in which nothing has moved."""
    seconds: float = 0.0
    history: list[Iteration] = field(default_factory=list)


class Outcome(NamedTuple):
    """How a loop has ended."""

    estimate: State
    history: list[Iteration]
    reason: str
    converged: bool
    notes: list[str]
    """What a user should know beside it."""


class LocalReport(NamedTuple):
    """What this process alone has done since the report before."""

    objective: float
    """F of its own devices."""
    traffic: Traffic
    computing: float
    """Seconds."""


class Loop:
    """Iterates a solver; observers are called at every report."""

    def __init__(
        self,
        solver: Solver,
        fingerprint: dict[str, Any],
        observers: Observers,
        interrupt: Interrupt,
        clock: Callable[[], float],
        progress: LoopProgress | None = None,
        earlier: Iteration | None = None,
    ) -> None:
        """fingerprint   tells one problem and partition from another
        clock         seconds since the solve began
        progress      of a solve that is resumed; the solver stands there already
        earlier       where the loop before this one has ended, to count on from there
        """
        self.solver, self.fingerprint, self.earlier = solver, fingerprint, earlier
        self.observers, self.interrupt, self.clock = observers, interrupt, clock
        self.options, self.comm = solver.options, solver.comm
        self.network = _simulated(solver.options)
        self.first = 0 if earlier is None else earlier.iteration
        progress = progress or LoopProgress(self.first)
        self.iteration, self.idle = progress.iteration, progress.idle
        self.history = list(progress.history)
        self.counts = Counts()
        self.compute = 0.0
        self.interrupted = 0  # the signal that has reached any of the processes
        shard = solver.shard
        self.rank_report = RankReport(
            self.comm.rank, range(shard.first, shard.first + shard.num_devices)
        )
        solver.exchange.take_traffic()  # setting up is no iteration's
        now = self.record()
        self.check_finite(now)
        if not self.history:
            self.history.append(now)

    def run(self) -> Outcome:
        """Iterate until there is a reason to stop."""
        every, most = self.options.report_every, self.options.most_iterations
        alone = self.comm.size == 1
        self.observers.begin(self)
        while True:
            if self.history[-1].iteration == self.iteration:
                requested = self.notify_observers()
                if (stop := self.reason_to_stop(requested)) is not None:
                    break
            self.advance()
            hurry = alone and self.interrupt.reason
            made = self.iteration - self.first
            if made % every == 0 or made >= most or hurry:
                self.report()
        self.observers.end(self)
        return self.outcome(*stop)

    def advance(self) -> None:
        began = time.perf_counter()
        solver = self.solver
        solver.iterate()
        if self.options.check:
            solver.check()
        self.iteration += 1
        self.idle = 0 if solver.moved else self.idle + 1
        self.counts.add(solver.counts)
        self.compute += time.perf_counter() - began

    def report(self) -> None:
        entry = self.record()
        self.check_finite(entry)
        self.history.append(entry)

    def check_finite(self, entry: Iteration) -> None:
        if not np.isfinite(entry.objective):
            name = self.fingerprint.get("name", "the problem")
            where = "at the start" if not self.history else f"at iteration {self.iteration}"
            raise DabaError(
                f"{name}: the objective is not finite {where}: a point lies on the centre of a "
                "camera that sees it, or numbers are far too large; daba info tells what is odd"
            )

    def record(self) -> Iteration:
        """What has happened since the last report, everywhere."""
        solver = self.solver
        traffic = solver.exchange.take_traffic()
        computing = max(self.compute - traffic.exchanging - traffic.waiting, 0.0)
        by_device = solver.device_objective()
        by_process = {
            **asdict(self.counts),
            "sent": traffic.sent,
            "computing": computing,
            "waiting": traffic.waiting,
            "exchanging": traffic.exchanging,
            "moving": self.idle < 2,
            "interrupted": self.interrupt.number,
            "seconds": self.clock() if self.comm.rank == 0 else 0.0,
        }
        total, largest = _gather(self.comm, by_device._asdict(), by_process)
        self.local = LocalReport(float(by_device.F.sum()), traffic, computing)
        self.rank_report.add(traffic, computing)
        self.counts, self.compute = Counts(), 0.0
        self.moving = total["moving"] > 0
        self.interrupted = int(largest["interrupted"])
        F, K, ranks = total["F"], solver.shard.ranges.observations, self.comm.size
        return Iteration(
            iteration=self.iteration,
            seconds=total["seconds"],
            objective=F,
            prior_objective=total["priors"],
            mean_objective=(F - total["priors"]) / K,
            rms_pixels=math.sqrt(total["square"] / K),
            **{name: int(total[name]) for name in asdict(self.counts)},
            bytes_sent=int(total["sent"]),
            compute_seconds=total["computing"] / ranks,
            waiting_seconds=total["waiting"] / ranks,
            exchange_seconds=total["exchanging"] / ranks,
            network_seconds=self.network_seconds(total),
        )

    def network_seconds(self, total: dict[str, float]) -> float:
        """What a network that is simulated would add to what was counted, and to this report."""
        if (network := self.network) is None:
            return 0.0
        names = ("rounds", "all_reduces", "boundary_bytes", "summed_bytes")
        return network.seconds(*(total[name] for name in names)) + network.report_seconds()

    def notify_observers(self) -> bool:
        """Whether one of them asks to stop, on any process."""
        requested = False
        try:
            requested = self.observers.report(self)
        except KeyboardInterrupt:
            if self.comm.size > 1:  # the others know nothing of it
                raise
            self.interrupted = signal.SIGINT
        return self.comm.any(requested)

    def reason_to_stop(self, requested: bool) -> tuple[bool, str] | None:
        """Whether the solve has converged and why it ends here; None to go on. The same on every
        process, since all that it looks at is."""
        options, last = self.options, self.history[-1]
        if requested:
            return False, BY_CALLBACK
        if self.comm.size == 1:
            self.interrupted = self.interrupted or self.interrupt.number
        if self.interrupted:
            return False, REASONS[signal.Signals(self.interrupted)]
        if (met := self.tolerance_met()) is not None:
            return True, met
        if not self.moving:
            return True, "no step lowers the objective any further"
        if last.iteration - self.first >= options.most_iterations:
            return False, f"reached the limit of {options.most_iterations} iterations"
        if options.max_seconds is not None and last.seconds >= options.max_seconds:
            return False, f"reached the time limit of {options.max_seconds:g} s"
        return None

    def tolerance_met(self) -> str | None:
        options, history = self.options, self.history
        last = history[-1].objective
        if last == 0.0:
            return "the objective is zero"
        if self.solver.settled:
            return "converged: the last step lowered F by next to nothing, and so would any other"
        since = self.iteration - options.window
        if options.function_tolerance > 0 and since >= self.first:
            entries = itertools.takewhile(lambda i: i.iteration >= since, reversed(history))
            recent = [entry.objective for entry in entries]
            change = (max(recent) - min(recent)) / last
            if len(recent) > 1 and change <= options.function_tolerance:
                return (
                    f"converged: F changed by {change:.1e} over {options.window} iterations "
                    f"(function tolerance {options.function_tolerance:g})"
                )
        if options.gradient_tolerance > 0:
            largest = self.solver.gradient_norm()
            if largest <= options.gradient_tolerance:
                return (
                    f"converged: largest gradient entry {largest:.1e} "
                    f"(gradient tolerance {options.gradient_tolerance:g})"
                )
        return None

    def outcome(self, converged: bool, reason: str) -> Outcome:
        """What has been reached, or the start where that is better: F̄ begins far above F and lets
        accelerated steps climb, and not every climb has come down again when a solve ends."""
        first, last = self.history[0], self.history[-1]
        if last.objective <= first.objective:
            return Outcome(self.solver.estimate, self.history, reason, converged, [])
        rise = last.objective / first.objective - 1.0
        note = (
            f"F had risen by {100 * rise:.3g} % when the solve ended; the start, which is better, "
            "is returned"
        )
        back = replace(first, iteration=last.iteration, seconds=last.seconds)
        converged = converged and rise <= self.options.function_tolerance
        return Outcome(self.solver.shard.state(), [*self.history, back], reason, converged, [note])


def _simulated(options: Options) -> NetworkModel | None:
    if options.simulate_latency is None:
        return None
    from daba.distributed.network_model import NetworkModel

    latency, bandwidth = 1e-3 * options.simulate_latency, 1e9 / 8 * options.simulate_bandwidth
    return NetworkModel(options.devices, latency, bandwidth)


def _gather(
    comm: Communicator, by_device: dict[str, Floats], by_process: dict[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Sum and maximum over all devices and processes, by name. What is known by process stands in
    the row of its first device; rows are added in the order of devices, whoever owns them."""
    own = np.column_stack([*by_device.values()])
    here = np.hstack([own, np.zeros((len(own), len(by_process)))])
    here[0, len(by_device) :] = [*by_process.values()]
    rows = comm.gather(here)
    names = (*by_device, *by_process)
    total, largest = rows.sum(axis=0).tolist(), rows.max(axis=0).tolist()
    return dict(zip(names, total, strict=True)), dict(zip(names, largest, strict=True))
