"""One solve: a run of the loop, and others on what has been changed in between; all of it is one
history.

Methods that know rays only are followed by lm in pixels, points are brought in front of their
cameras, what cameras do not see has no weight, and outliers are taken out.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from daba.core.errors import DabaError, GpuMemoryError
from daba.core.options import Options
from daba.partition.partition import Partition
from daba.problem.problem import Problem
from daba.runtime.loop import BY_USER, Loop
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
CORRECTIONS = 2
"""Times that points are brought in front of their cameras after a solve."""


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


def _with_intrinsics_held(problem: Problem) -> tuple[Problem, None]:
    free = np.ones((problem.num_cameras, 9), bool)
    if problem.free_cameras is not None:
        free[:] = problem.free_cameras
    free[:, 6:] = False
    return problem.changed(free_cameras=free), None


def _moved_to(given: Problem, found: Problem) -> tuple[Problem, None]:
    """The given problem, where another solve of it has come to with intrinsics held."""
    cameras = np.hstack([found.cameras[:, :12], given.cameras[:, 12:]])
    optics = given.given_optics
    if optics is not None and optics.rigs:
        optics = replace(optics, frames=found.optics.frames)
    return given.changed(cameras=cameras, points=found.points, given_optics=optics), None


def _constrained(problem: Problem | Store | None) -> bool:
    """Whether anything is fixed, shared or known beside the observations."""
    if isinstance(problem, Problem):
        return not problem.plain
    return problem is not None and problem.constraints(0) is not None


def _moved_setup(setup: Setup, result: Result, options: Options, _: Setup | None) -> Setup:
    """The parts of a store, where another solve of them has come to."""
    from daba.distributed.cheirality import joined

    start = joined(setup.shard, result.local)
    return replace(setup, options=options, shard=replace(setup.shard, start=start))


def _before_pixels(rays: Setup, pixels: Setup) -> Setup:
    """The parts of a store on rays, to be solved with intrinsics held before the same in pixels."""
    from daba.distributed.shard import State
    from daba.distributed.stages import with_intrinsics_held

    shard = with_intrinsics_held(rays.shard)
    start = State(shard.start.cameras, pixels.shard.start.points)
    return replace(rays, shard=replace(shard, start=start))


def _in_pixels(setup: Setup, result: Result, options: Options, pixels: Setup) -> Setup:
    """The parts of a store in pixels, where a solve of them on rays has come to."""
    from daba.distributed.cheirality import joined
    from daba.distributed.scatter import refined
    from daba.distributed.stages import in_pixels

    x, store = joined(setup.shard, result.local), cast("Store", pixels.source)
    return replace(
        pixels, options=options, shard=in_pixels(pixels.shard, refined(store.optics, options), x)
    )


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
    from daba.problem.optics import observe

    return not problem.optics.bundler and not bool(observe(problem)[1].all())


def _count(moved: np.ndarray | None) -> int:
    return 0 if moved is None else len(moved)


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
        from daba.distributed.comm.base import on_first
        from daba.distributed.scatter import options_for
        from daba.runtime.backend import make_backend

        comm, moved = self.comm, None
        given = problem
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
        constrained = comm.broadcast(_constrained(problem))
        self.backend = make_backend(options, comm, constrained)
        self.began = time.perf_counter()
        why = ""
        if options.method == "auto":
            from daba.runtime.choice import choose_method

            method, why = choose_method(options, options.error, comm.size)
            options = replace(options, method=method)
        stages = _stages(options)
        then: Any = problem
        if whole and stages[0].error != options.error:
            problem = self.changed(problem, _with_intrinsics_held)[0]
        setup = self.set_up(problem, stages[0], checksums=checkpoints is not None)
        with self.interrupt:
            if corrects and not whole:
                result = self.in_parts_with_points_in_front(setup, checkpoints, stages[1:])
                return replace(result, chosen=why)
            corrected = _count(moved)
            if not whole and options.error == "pixel":
                alone = len(stages) == 1
                pixels = setup if alone else self.set_up(problem, stages[-1])
                pixels, corrected = self.parts_in_front(pixels)
                setup, then = pixels if alone else _before_pixels(setup, pixels), pixels
            result = replace(self.run(setup, checkpoints), corrected=corrected)
            for stage in stages[1:]:
                result = self.finished(result, stage, then)
            if corrects and options.error == "ray":  # in pixels no step leads behind a camera
                result = self.with_points_in_front(result)
            if options.most_iterations and result.hidden:
                result = self.with_what_is_seen(self.last, result)
            if options.filter is not None:
                result = self.without_outliers(result, options.filter)
        source = given if corrects or len(stages) > 1 else setup.source
        return replace(result, source=source, chosen=why)

    def finished(self, result: Result, options: Options, given: Any) -> Result:
        """Solved on, in another way; `given` is the problem with all that may change in it, or of a
        store its parts in pixels."""
        if result.reason in BY_USER:
            return result
        setup, problem = self.last, result.solution
        if self.comm.broadcast(setup.orders is None):
            apart = result.options.error != options.error
            setup = (_in_pixels if apart else _moved_setup)(setup, result, options, given)
        else:
            if result.options.error != options.error:
                problem = self.changed(problem, lambda found: _moved_to(given, found))[0]
            self.partition = result.partition
            setup = self.set_up(problem, options)
        before = result.options
        how = "on rays with intrinsics held" if before.error != options.error else "first"
        note = (
            f"{before.method} went {result.history[-1].iteration} iterations {how}; lm has "
            f"finished {'in pixels' if options.error == 'pixel' else 'from there'}"
        )
        after = self.run(setup)
        return replace(after, corrected=result.corrected, notes=[note, *after.notes])

    def with_points_in_front(self, result: Result) -> Result:
        """Bring what has come out behind a camera in front of it, and solve on; a few times at
        most."""
        from daba.problem.cheirality import bring_to_front

        for _ in range(CORRECTIONS):
            if result.reason in BY_USER:
                break
            problem, moved = self.changed(result.solution, bring_to_front)
            if self.comm.broadcast(_count(moved)) == 0:
                break
            corrected = result.corrected + _count(moved)
            result = replace(self.solve_on(result, problem), corrected=corrected)
        return result

    def with_what_is_seen(self, setup: Setup, result: Result) -> Result:
        """Solve on with observations whose points their cameras see by now; those that they never
        will are no part of the solution."""
        from daba.distributed.cheirality import joined
        from daba.problem.outliers import drop_hidden

        shard = setup.shard
        for _ in range(CORRECTIONS):
            if result.reason in BY_USER or result.hidden == 0:
                break
            before = result.hidden
            start = joined(shard, result.local)
            result = self.run(replace(setup, shard=replace(shard, start=start)))
            if result.hidden == before:
                break
        if result.hidden == 0:
            return result
        note = f"{result.hidden:,} observations are of points behind their cameras: no weight"
        if self.comm.broadcast(result.solution is not None):
            solution = self.changed(result.solution, drop_hidden)[0]
            note += ", and they are not in the solution"
            result = replace(result, solution=solution)
        return replace(result, notes=[*result.notes, note])

    def in_parts_with_points_in_front(
        self, setup: Setup, checkpoints: Checkpoints | None, stages: list[Options]
    ) -> Result:
        """The same for a store, of which each process corrects its own part; `stages` are those
        that follow the first."""
        from daba.distributed.cheirality import joined, start_in_front

        whole = setup.shard  # a solver may let go of its observations
        shard, corrected = start_in_front(whole, whole.state(), self.comm)
        result = self.run(replace(setup, shard=shard), checkpoints)
        for stage in stages:
            result = self.finished(result, stage, None)
        for _ in range(CORRECTIONS):
            if result.reason in BY_USER:
                break
            shard, moved = start_in_front(whole, joined(whole, result.local), self.comm)
            if moved == 0:
                break
            corrected += moved
            result = self.run(replace(self.last, shard=shard))
        return replace(result, corrected=corrected)

    def parts_in_front(self, setup: Setup) -> tuple[Setup, int]:
        """A store in pixels, with points that cameras do not see brought in front of them by its
        rays, as `bring_to_front` does of a whole problem; and how many."""
        from daba.distributed.cheirality import some_hidden, start_in_front
        from daba.distributed.shard import State

        options, store = setup.options, cast("Store", setup.source)
        chosen, known = options.points_in_front, store.manifest.optics
        solved = known is not None and known.solved  # its rays are those from before that
        if chosen is False or solved or options.most_iterations == 0:
            return setup, 0
        if not chosen and not some_hidden(setup.shard, self.comm):
            return setup, 0
        rays = self.set_up(store, replace(options, error="ray")).shard
        found, moved = start_in_front(rays, rays.state(), self.comm)
        start = State(setup.shard.start.cameras, found.start.points)
        return replace(setup, shard=replace(setup.shard, start=start)), moved

    def without_outliers(self, result: Result, pixels: float) -> Result:
        from daba.problem.outliers import filter_outliers

        if result.reason in BY_USER:
            return result
        try:
            problem, dropped = self.changed(result.solution, lambda p: filter_outliers(p, pixels))
        except DabaError as error:  # on all processes; what was solved for is not lost
            return replace(result, notes=[*result.notes, f"nothing was filtered: {error}"])
        if self.comm.broadcast(dropped is not None and dropped.observations == 0):
            return replace(result, dropped=dropped)
        return replace(self.solve_on(result, problem), corrected=result.corrected, dropped=dropped)

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
            total = problem.extent.observations // self.comm.size
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
