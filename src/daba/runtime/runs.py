"""One solve: a run of the loop, and others on what has been changed in between; all of it is one
history.

Methods that know rays only are followed by lm in pixels (`stages.py`), points are brought in front
of their cameras, what cameras do not see has no weight, and outliers are taken out
(`corrections.py`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from daba.core.errors import DabaError, GpuMemoryError
from daba.core.options import Options
from daba.partition.partition import Partition
from daba.problem.problem import Problem
from daba.runtime.loop import Loop
from daba.runtime.observers import Interrupt, Observers
from daba.runtime.result import Iteration, RankReport, Result

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator
    from daba.distributed.scatter import Setup
    from daba.io.store.store import Store
    from daba.runtime.checkpoint import Checkpoints
    from daba.solver.interface import Solver

T = TypeVar("T")

STALL = 0.1
STALL_WINDOW = 10
"""A method that lm follows is left when it lowers F by less than this share in so many iterations.
Rounds to 1.001 of the optimum with 8 devices, for 0.1, 0.03, 0.01 and 0.001: ladybug-49 77, 81,
101, 226; city-300 290, 390, 430, 430; kitti-vo-250, for the first two, 322, 431. lm from the start
takes 19, 60 and 161."""


def error_of(problem: Problem | Store | None, options: Options) -> Literal["pixel", "ray"]:
    """What is minimised, where the options leave it to the problem."""
    if options.error != "auto":
        return options.error
    return "pixel" if problem is not None and "colmap" in problem.info else "ray"


def _with_refined(problem: Problem, options: Options) -> tuple[Problem, None]:
    """What may change as the options say it."""
    from daba.distributed.scatter import refined

    return problem.changed(given_optics=refined(problem.optics, options)), None


def _stages(options: Options) -> list[Options]:
    """One solve after the other, on the same devices: what daba, duba, admm and dr have begun, lm
    finishes in pixels, or where it is asked to."""
    if options.centralized:
        return [options]
    if options.error == "ray" and options.finish == "none":
        return [options]
    first = replace(
        options,
        error="ray",
        patience=STALL_WINDOW,
        function_tolerance=max(options.function_tolerance, STALL),
    )
    return [first, replace(options, method="lm")]


def _constrained(problem: Problem | Store | None) -> bool:
    """Whether anything is fixed, shared or known beside the observations."""
    if isinstance(problem, Problem):
        return not problem.plain
    return problem is not None and problem.constraints(0) is not None


def _corrects_cheirality(problem: Problem | Store | None, options: Options) -> bool:
    """Whether points are to be brought in front of their cameras."""
    if problem is None or options.most_iterations == 0:
        return False
    chosen = options.points_in_front
    if options.error == "pixel":  # of a store `parts_in_front` sees to it
        if not isinstance(problem, Problem):
            return False
        return _some_hidden(problem) if chosen is None else chosen
    return "colmap" in problem.info if chosen is None else chosen


def _some_hidden(problem: Problem) -> bool:
    """Whether cameras do not see some of their points."""
    from daba.problem.optics import well_seen

    return not problem.optics.bundler and not bool(well_seen(problem).all())


class Runs:
    """One solve: a run of the loop, and others on what has been changed in between."""

    def __init__(
        self, comm: Communicator, partition: Partition | None, observers: Observers
    ) -> None:
        self.comm, self.partition, self.observers = comm, partition, observers
        self.interrupt = Interrupt()
        self.history: list[Iteration] = []
        self.rank_report: RankReport | None = None

    def solve(
        self, problem: Problem | Store | None, options: Options, checkpoints: Checkpoints | None
    ) -> Result:
        """All that the options ask for, one run after the other."""
        from daba.distributed.comm.base import on_first
        from daba.distributed.scatter import options_for
        from daba.runtime.backend import make_backend

        comm, given, corrected = self.comm, problem, 0
        whole = comm.broadcast(isinstance(problem, Problem))
        if not whole and problem is not None:
            options = options_for(cast("Store", problem), options)
        error = on_first(comm, lambda: error_of(problem, options))
        options = replace(options, error=comm.broadcast(error))
        corrects = comm.broadcast(_corrects_cheirality(problem, options))
        if options.filter is not None and not whole:
            raise DabaError("filter needs the whole problem, and a store is solved in parts")
        if options.error == "pixel" and whole:
            problem = self.changed(problem, lambda p: _with_refined(p, options))[0]
        if corrects and whole:
            from daba.problem.cheirality import bring_to_front

            problem, moved = self.changed(problem, bring_to_front)
            corrected = 0 if moved is None else len(moved)
        constrained = comm.broadcast(_constrained(problem))
        self.backend = make_backend(options, comm, constrained)
        self.began = time.perf_counter()
        why = ""
        if options.method == "auto":
            from daba.runtime.choice import choose_method

            method, why = choose_method(options, options.error, comm.size)
            options = replace(options, method=method)
        first, *later = _stages(options)
        last: Any = problem  # what the stages after the first are of
        if whole and first.error != options.error:
            from daba.runtime.stages import with_intrinsics_held

            problem = self.changed(problem, with_intrinsics_held)[0]
        setup = self.set_up(problem, first, checksums=checkpoints is not None)
        with self.interrupt:
            if corrects and not whole:
                from daba.runtime.corrections import in_parts_with_points_in_front

                result = in_parts_with_points_in_front(self, setup, checkpoints, later)
                return replace(result, chosen=why)
            if not whole and options.error == "pixel":
                from daba.runtime.corrections import parts_in_front

                last = self.set_up(problem, later[-1]) if later else setup
                last, corrected = parts_in_front(self, last)
                if later:
                    from daba.runtime.stages import before_pixels

                    setup = before_pixels(setup, last)
                else:
                    setup = last
            result = replace(self.run(setup, checkpoints), corrected=corrected)
            for stage in later:
                from daba.runtime.stages import finished

                result = finished(self, result, stage, last)
            result = self._corrected(result, options, corrects)
        source = given if corrects or later else setup.source
        return replace(result, source=source, chosen=why)

    def _corrected(self, result: Result, options: Options, corrects: bool) -> Result:
        """The result, and what corrections of it come to; mostly there is nothing to correct."""
        if corrects and options.error == "ray":  # in pixels no step leads behind a camera
            from daba.runtime.corrections import with_points_in_front

            result = with_points_in_front(self, result)
        if options.most_iterations and result.hidden:
            from daba.runtime.corrections import with_what_is_seen

            result = with_what_is_seen(self, self.last, result)
        if options.filter is not None:
            from daba.runtime.corrections import without_outliers

            result = without_outliers(self, result, options.filter)
        return result

    def changed(self, problem: Any, change: Callable[[Problem], tuple[Problem, T]]) -> Any:
        """The problem with a change, and what it was; on rank 0, which holds it."""
        from daba.distributed.comm.base import on_first

        return on_first(self.comm, lambda: change(problem)) or (None, None)

    def solve_on(self, result: Result, problem: Problem | None) -> Result:
        """Solve a problem that begins where another has ended, on the same devices."""
        self.partition = result.partition
        return self.run(self.set_up(problem, result.options))

    def set_up(
        self, problem: Problem | Store | None, options: Options, checksums: bool = False
    ) -> Setup:
        """`checksums` are for checkpoints."""
        from daba.distributed.scatter import make_setup

        total = 0  # where another process has the problem, and sends a part of it
        if isinstance(problem, Problem):
            total = problem.num_observations
        elif problem is not None:
            total = problem.ranges.observations // self.comm.size
        arrays = self.backend.arrays(total)
        return make_setup(problem, options, self.partition, self.comm, arrays, checksums)

    def run(self, setup: Setup, checkpoints: Checkpoints | None = None) -> Result:
        """One run of the loop, counted on from those before it."""
        self.last = setup
        observers = self.observers.active
        observers += [] if checkpoints is None else [checkpoints]
        with contextlib.ExitStack() as running:
            solver = self.solver_of(setup, running)
            self.began += self.backend.compiling
            self.backend.compiling = 0.0
            setup = replace(setup, shard=solver.shard)  # what it has no use for can go
            progress = None
            if checkpoints is not None and checkpoints.resume is not None:
                progress = checkpoints.restore(solver, setup.fingerprint)
                self.began -= progress.seconds
            loop = Loop(
                solver, setup.fingerprint, self.observers, self.interrupt, self.clock,
                progress, self.history[-1] if self.history else None,
            )  # fmt: skip
            outcome = loop.run()
        if checkpoints in observers:  # they are of the first run
            observers.remove(checkpoints)
        self.history = self.history + outcome.history[1:] if self.history else outcome.history
        loop.rank_report.conclude(self.rank_report)
        self.rank_report = loop.rank_report
        x = outcome.estimate
        return Result(
            solution=setup.gather(x),
            source=setup.source,
            options=setup.options,
            history=self.history,
            reason=outcome.reason,
            converged=outcome.converged,
            linear_solver=solver.linear_solver,
            sizes=setup.sizes,
            ranks=self.comm.collect(self.rank_report),
            local=solver.shard.by_device(x),
            hidden=solver.hidden,
            notes=outcome.notes,
            partition=setup.partition(),
        )

    def solver_of(self, setup: Setup, running: contextlib.ExitStack) -> Solver:
        """On the backend; on the CPU where `auto` has chosen a GPU that has too little memory."""
        shard, options = setup.shard, setup.options
        running.enter_context(self.backend.running())
        try:
            return self.backend.solver(shard, options, self.comm)
        except GpuMemoryError as error:
            if options.backend != "auto":
                raise
            from daba.runtime.backend import cpu_instead

            running.close()
            constrained = shard.constraints is not None
            self.backend = cpu_instead(options, self.comm, constrained, str(error))
        running.enter_context(self.backend.running())
        return self.backend.solver(shard.on_host(), options, self.comm)

    def clock(self) -> float:
        """Seconds since the solve began."""
        return time.perf_counter() - self.began
