"""One solve, and others after it: with points in front of their cameras, and without outliers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.partition.partition import Partition
from daba.problem.problem import Problem
from daba.runtime.log import open_log
from daba.runtime.result import Iteration, Result
from daba.runtime.signals import Interrupt

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator
    from daba.io.files import PathLike
    from daba.io.store.store import Store
    from daba.runtime.checkpoint import Checkpoints
    from daba.runtime.loop import Callback
    from daba.runtime.recording import Recorder

TURNS = 2
"""Times that points are brought in front of their cameras after a solve."""


def _turned(result: Result) -> tuple[Problem, np.ndarray]:
    from daba.problem.cheirality import bring_to_front

    return bring_to_front(result.problem)


def turns(problem: Problem | Store | None, options: Options) -> bool:
    """Whether points are to be brought in front of their cameras."""
    if not isinstance(problem, Problem) or options.most_iterations == 0:
        return False
    asked = options.points_in_front
    return "colmap" in problem.info if asked is None else asked


@dataclass
class Again:
    """One solve, and others after it on what has been changed in between."""

    partition: Partition | None
    callback: Callback | None
    comm: Communicator
    log: PathLike | None
    recorder: Recorder | None = None
    past: Iteration | None = None
    """Where the solve before this one ended."""

    def from_points_in_front(
        self, problem: Any, options: Options, checkpoints: Checkpoints | None
    ) -> Result:
        """A solve that begins with all points in front of their cameras."""
        from daba.problem.cheirality import bring_to_front

        begin, moved = self.on_first(lambda: bring_to_front(problem))
        result = self.solve(begin, options, checkpoints)
        return replace(result, source=problem, turned=0 if moved is None else len(moved))

    def with_points_in_front(self, result: Result) -> Result:
        """Turn what has come out behind a camera, and solve on; a few times at most."""
        for _ in range(TURNS):
            problem, moved = self.on_first(partial(_turned, result))
            if not self.comm.broadcast(0 if moved is None else len(moved)):
                break
            turned = result.turned + (0 if moved is None else len(moved))
            result = replace(self.go_on(result, problem), turned=turned)
        return result

    def without_outliers(self, result: Result, pixels: float) -> Result:
        from daba.problem.outliers import filter_outliers

        problem, dropped = self.on_first(lambda: filter_outliers(result.problem, pixels))
        if self.comm.broadcast(dropped is not None and dropped.observations == 0):
            return replace(result, dropped=dropped)
        return replace(self.go_on(result, problem), turned=result.turned, dropped=dropped)

    def go_on(self, result: Result, problem: Problem | None) -> Result:
        """Solve a problem that begins where another has ended, on the same devices, and tell both
        as one."""
        self.past = result.history[-1]
        if not result.options.centralized:
            self.partition = result.partition
        options = result.options
        if options.max_seconds is not None:
            options = replace(options, max_seconds=max(options.max_seconds - self.past.seconds, 0))
        new = self.solve(problem, options)
        later = [self.shifted(entry) for entry in new.history[1:]]
        return replace(
            new, options=result.options, source=result.source, history=result.history + later
        )

    def on_first(self, make: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
        """What rank 0 makes, on rank 0; an error reaches all."""
        made: tuple[Any, Any] = None, None
        failure = ""
        if self.comm.rank == 0:
            try:
                made = make()
            except DabaError as error:
                failure = str(error)
        if failure := self.comm.broadcast(failure):
            raise DabaError(failure)
        return made

    def told(self, entry: Iteration) -> Any:
        return None if self.callback is None else self.callback(self.shifted(entry))

    def shifted(self, entry: Iteration) -> Iteration:
        """An entry of the history, counted on from where the solve before has ended."""
        return entry if self.past is None else entry.after(self.past)

    def solve(
        self,
        problem: Problem | Store | None,
        options: Options,
        checkpoints: Checkpoints | None = None,
    ) -> Result:
        from daba.distributed.scatter import make_setup
        from daba.runtime.backend import make_backend
        from daba.runtime.loop import Run

        comm = self.comm
        constrained = comm.broadcast(isinstance(problem, Problem) and not problem.plain)
        backend = make_backend(options, comm, constrained)
        begin = time.perf_counter()
        setup = make_setup(problem, options, self.partition, comm)
        options = setup.options
        with backend.running(), Interrupt() as interrupt, open_log(self.log, comm.rank) as lines:
            solver = backend.solver(setup.shard, options, comm)
            setup = replace(setup, shard=solver.shard)  # what it has no use for can go
            told = None if self.callback is None else self.told
            run = Run(
                solver, setup.fingerprint, told, checkpoints, interrupt, begin, lines, self.recorder
            )
            converged, reason = run.loop()
        x = solver.estimate
        return Result(
            solution=setup.gather(x),
            source=setup.source,
            options=options,
            history=run.history,
            reason=reason,
            converged=converged,
            linear_solver=solver.linear_solver,
            sizes=setup.sizes,
            ranks=run.rank_reports(),
            local=solver.shard.by_device(x),
            partition=setup.partition(),
        )
