"""`daba.solve`: set up, iterate until there is a reason to stop, and tell."""

from __future__ import annotations

import itertools
import math
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TextIO, cast

import numpy as np

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.partition.partition import Partition
from daba.problem.problem import Floats, Problem
from daba.runtime.log import write_line
from daba.runtime.memory import peak_memory
from daba.runtime.result import Iteration, RankReport, Result
from daba.runtime.signals import REASONS, Interrupt
from daba.solver.interface import Counts

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator
    from daba.io.files import PathLike
    from daba.io.store.store import Store
    from daba.runtime.checkpoint import Checkpoints
    from daba.runtime.recording import Recorder
    from daba.solver.interface import Solver

Callback = Callable[[Iteration], Any]

ASKED = "the callback asked to stop"
ENDS = {*REASONS.values(), ASKED}
"""Reasons after which a solve does not go on, whatever is left to do."""


def solve(
    problem: Problem | Store | None,
    options: Options | None = None,
    *,
    partition: Partition | None = None,
    callback: Callback | None = None,
    comm: Communicator | None = None,
    checkpoints: Checkpoints | None = None,
    log: PathLike | None = None,
    recorder: Recorder | None = None,
    **changes: Any,
) -> Result:
    """Solve a bundle adjustment problem.

    problem      from `daba.load`, `Problem.from_arrays` or `daba.generate`; or a `Store`, of which
                 each process reads its own part; arrays may be torch tensors, and the solution is
                 returned where cameras and points were given
    options      an `Options`; single options can be given by name instead, or to change some:
                 `daba.solve(problem, devices=8, loss=daba.Huber(32.0), iterations=1000)`
    partition    which device owns what; by default `make_partition(problem, devices)`
    callback     called with each `Iteration` reported; the solve stops when it returns True
    comm         `daba.communicator()` to share the work with the other processes of an MPI job,
                 all of which must call; a `Problem` is taken from rank 0 and may be None elsewhere
    checkpoints  a `daba.Checkpoints`: where and when to save, and what to resume from
    log          folder in which each process keeps a log of its own
    recorder     a `daba.Recorder`: takes snapshots of cameras and points on the way

    Ctrl-C, SIGTERM and SIGUSR1 stop the solve after the iteration at hand; what was reached is
    returned.
    """
    from daba.backends.gpu.problem_tensors import to_device, to_host
    from daba.distributed.comm.base import Communicator
    from daba.runtime.solve import Again, turns

    options = _options(options, changes, partition)
    comm = comm or Communicator()
    given = problem
    problem, device = to_host(problem)
    whole, turn = comm.broadcast((isinstance(problem, Problem), turns(problem, options)))
    if (options.filter is not None or options.points_in_front) and not whole:
        raise DabaError(
            "filter and points_in_front need the whole problem, and a store is solved in parts"
        )
    again = Again(partition, callback, comm, log, recorder)
    if turn:
        result = again.from_points_in_front(problem, options, checkpoints)
    else:
        result = again.solve(problem, options, checkpoints)
    if turn and result.reason not in ENDS:
        result = again.with_points_in_front(result)
    if options.filter is not None and result.reason not in ENDS:
        result = again.without_outliers(result, options.filter)
    if device is not None and result.solution is not None:
        result = replace(
            result, solution=to_device(result.solution, cast("Problem", given), device)
        )
    return result


def _options(
    options: Options | None, changes: dict[str, Any], partition: Partition | None
) -> Options:
    if partition is not None:
        changes = {"devices": partition.devices, **changes}
    unknown = sorted(set(changes) - set(Options.__dataclass_fields__))
    if unknown:
        raise DabaError(
            f"unknown option '{unknown[0]}'; the options are "
            f"{', '.join(Options.__dataclass_fields__)}"
        )
    options = replace(options or Options(), **changes)
    if partition is not None and options.devices != partition.devices:
        raise DabaError(
            f"the partition has {partition.devices} devices, the options say {options.devices}"
        )
    return options


class Run:
    """The loop around Algorithm 1: reports, reasons to stop, checkpoints."""

    def __init__(
        self,
        solver: Solver,
        fingerprint: dict[str, Any],
        callback: Callback | None,
        checkpoints: Checkpoints | None,
        interrupt: Interrupt,
        begin: float,
        log: TextIO | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.log, self.recorder = log, recorder
        self.solver, self.callback, self.interrupt, self.begin = solver, callback, interrupt, begin
        self.fingerprint, self.checkpoints = fingerprint, checkpoints
        self.options, self.comm = solver.options, solver.comm
        self.iteration = 0
        self.idle = 0
        self.compute = 0.0
        self.totals = RankReport(
            self.comm.rank, range(solver.shard.first, solver.shard.first + solver.shard.num_devices)
        )
        self.history: list[Iteration] = []
        self.counts = Counts()
        self.moving = True
        self.interrupted = 0  # the signal that has reached any of the processes
        if checkpoints is not None and checkpoints.resume is not None:
            saved = checkpoints.restore(solver, fingerprint)
            self.iteration, self.idle = saved["iteration"], saved["idle"]
            self.history = saved["history"]
            self.begin -= saved["seconds"]
        solver.exchange.take_traffic()  # setting up is no iteration's
        now = self.record()
        if not self.history:
            self.history.append(now)

    def loop(self) -> tuple[bool, str]:
        """Iterate until there is a reason to stop; whether it has converged, and the reason."""
        every, most = self.options.report_every, self.options.most_iterations
        alone = self.comm.size == 1
        while True:
            if self.history[-1].iteration == self.iteration:
                if self.recorder is not None:
                    self.recorder.take(self)
                if (stop := self.reason_to_stop()) is not None:
                    break
                if self.checkpoints is not None:
                    self.checkpoints.save_if_due(self)
            self.advance()
            hurry = alone and self.interrupt.reason
            if self.iteration % every == 0 or self.iteration >= most or hurry:
                self.report()
        if self.recorder is not None:
            self.recorder.finish(self)
        if self.checkpoints is not None:
            self.checkpoints.save(self)
        return stop

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
        if not np.isfinite(entry.objective):
            raise DabaError("the objective is not finite: the problem is numerically broken")
        self.history.append(entry)

    def record(self) -> Iteration:
        """What has happened since the last report, everywhere."""
        solver = self.solver
        traffic = solver.exchange.take_traffic()
        computing = self.compute - traffic.exchanging - traffic.waiting
        by_device = solver.device_objective()
        by_process = {
            **asdict(self.counts),
            "sent": traffic.sent,
            "computing": max(computing, 0.0),
            "waiting": traffic.waiting,
            "exchanging": traffic.exchanging,
            "moving": self.idle < 2,
            "interrupted": self.interrupt.number,
            "seconds": time.perf_counter() - self.begin if self.comm.rank == 0 else 0.0,
        }
        total, largest = _gather(self.comm, by_device._asdict(), by_process)
        self.totals.add(traffic, computing)
        if self.log is not None:
            own = by_device.F.sum()
            write_line(
                self.log, self.iteration, own, solver.exchange.neighbours, traffic, computing
            )
        self.compute = 0.0
        K = solver.shard.extent.observations
        self.moving = total["moving"] > 0
        self.interrupted = int(largest["interrupted"])
        F, ranks = total["F"], self.comm.size
        counts, self.counts = self.counts, Counts()
        return Iteration(
            iteration=self.iteration,
            seconds=total["seconds"],
            objective=F,
            prior_objective=total["priors"],
            mean_objective=(F - total["priors"]) / K,
            rms_pixels=math.sqrt(total["square"] / K),
            **{name: int(total[name]) for name in asdict(counts)},
            bytes_sent=int(total["sent"]),
            compute_seconds=total["computing"] / ranks,
            waiting_seconds=total["waiting"] / ranks,
            exchange_seconds=total["exchanging"] / ranks,
        )

    def reason_to_stop(self) -> tuple[bool, str] | None:
        """Whether the solve has converged and why it ends here; None to go on. The same on every
        process, since all that it looks at is."""
        options, last = self.options, self.history[-1]
        asked = False
        try:
            asked = self.callback is not None and self.callback(last) is True
        except KeyboardInterrupt:
            if self.comm.size > 1:  # the others know nothing of it
                raise
            self.interrupted = signal.SIGINT
        if self.comm.any(asked):
            return False, ASKED
        if self.comm.size == 1:
            self.interrupted = self.interrupted or self.interrupt.number
        if self.interrupted:
            return False, REASONS[signal.Signals(self.interrupted)]
        if (met := self.tolerance_met()) is not None:
            return True, met
        if not self.moving:
            return True, "no step lowers the objective any further"
        if last.iteration >= options.most_iterations:
            return False, f"reached the limit of {options.most_iterations} iterations"
        if options.max_seconds is not None and last.seconds >= options.max_seconds:
            return False, f"reached the time limit of {options.max_seconds:g} s"
        return None

    def tolerance_met(self) -> str | None:
        options, history = self.options, self.history
        last = history[-1].objective
        if last == 0.0:
            return "the objective is zero"
        if options.function_tolerance > 0 and self.iteration >= options.window:
            since = self.iteration - options.window
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

    def rank_reports(self) -> list[RankReport]:
        """What each process did; on rank 0."""
        self.totals.peak_memory = peak_memory()
        return self.comm.collect(self.totals)


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
