"""`daba.solve`: set up, iterate until there is a reason to stop, and tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.errors import DabaError
from daba.options import Options
from daba.partition import Partition, make_partition
from daba.problem import Problem
from daba.result import Iteration, Result
from daba.threads import one_blas_thread, set_threads
from daba.warmup import compile_kernels

if TYPE_CHECKING:
    from daba.shard import State
    from daba.solver import Solver

Callback = Callable[[Iteration], Any]


def solve(
    problem: Problem,
    options: Options | None = None,
    *,
    partition: Partition | None = None,
    callback: Callback | None = None,
    **changes: Any,
) -> Result:
    """Solve a bundle adjustment problem.

    problem    from `daba.load`, `Problem.from_arrays` or `daba.generate`
    options    an `Options`; single options can be given by name instead, or to change some:
               `daba.solve(problem, devices=8, loss=daba.Huber(32.0), iterations=1000)`
    partition  which device owns what; by default `make_partition(problem, devices)`
    callback   called with each `Iteration`; the solve stops when it returns True

    Ctrl-C stops the solve and returns what was reached.
    """
    options = _options(options, changes, partition)
    problem.validated()
    set_threads(options.threads)
    compile_kernels()
    from daba.shard import make_shard
    from daba.solver import Solver

    begin = time.perf_counter()
    if options.centralized:
        options = replace(options, devices=1)
        partition = None
    if partition is None:
        partition = make_partition(problem, options.devices, options.seed)
    with one_blas_thread():
        solver = Solver(make_shard(problem, partition), options)
        history = [_record(solver, 0, begin)]
        x, converged, reason = _loop(solver, history, begin, callback)
    return Result(
        problem=solver.shard.to_problem(x),
        start=problem,
        options=options,
        history=history,
        reason=reason,
        converged=converged,
        linear_solver=type(solver.levenberg.linear).__name__.lower(),
        inter_share=len(solver.shard.inter.camera) / problem.num_observations,
    )


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


def _loop(
    solver: Solver, history: list[Iteration], begin: float, callback: Callback | None
) -> tuple[State, bool, str]:
    """Iterate until there is a reason to stop; returns the estimate that belongs to the last entry
    of the history, whether it has converged, and the reason."""
    x = solver.x
    idle = 0
    try:
        while (stop := _reason_to_stop(solver, history, idle, callback)) is None:
            solver.iterate()
            if solver.options.check:
                solver.check()
            idle = 0 if solver.moved else idle + 1
            entry = _record(solver, len(history), begin)
            if not np.isfinite(entry.objective):
                raise DabaError("the objective is not finite: the problem is numerically broken")
            history.append(entry)
            x = solver.x
    except KeyboardInterrupt:
        stop = False, "interrupted"
    return x, *stop


def _reason_to_stop(
    solver: Solver, history: list[Iteration], idle: int, callback: Callback | None
) -> tuple[bool, str] | None:
    """Whether the solve has converged and why it ends here; None to go on."""
    options, last = solver.options, history[-1]
    if callback is not None and callback(last) is True:
        return False, "the callback asked to stop"
    if (met := _tolerance_met(solver, history)) is not None:
        return True, met
    if idle == 2:
        return True, "no step lowers the objective any further"
    if last.iteration >= options.most_iterations:
        return False, f"reached the limit of {options.most_iterations} iterations"
    if options.max_seconds is not None and last.seconds >= options.max_seconds:
        return False, f"reached the time limit of {options.max_seconds:g} s"
    return None


def _tolerance_met(solver: Solver, history: list[Iteration]) -> str | None:
    options = solver.options
    last = history[-1].objective
    if last == 0.0:
        return "the objective is zero"
    recent = [i.objective for i in history[-1 - options.window :]]
    if options.function_tolerance > 0 and len(recent) > options.window:
        change = (max(recent) - min(recent)) / last
        if change <= options.function_tolerance:
            return (
                f"converged: F changed by {change:.1e} over {options.window} iterations "
                f"(function tolerance {options.function_tolerance:g})"
            )
    if options.gradient_tolerance > 0:
        largest = solver.gradient_norm()
        if largest <= options.gradient_tolerance:
            return (
                f"converged: largest gradient entry {largest:.1e} "
                f"(gradient tolerance {options.gradient_tolerance:g})"
            )
    return None


def _record(solver: Solver, iteration: int, begin: float) -> Iteration:
    K = solver.shard.problem.num_observations
    F = solver.objective
    return Iteration(
        iteration=iteration,
        seconds=time.perf_counter() - begin,
        objective=F,
        mean_objective=F / K,
        rms_pixels=float(np.sqrt(solver.square / K)),
        restarts=solver.restarts,
        pcg_iterations=solver.pcg_iterations,
        lm_retries=solver.retries,
    )
