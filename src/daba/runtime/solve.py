"""`daba.solve`: the one way in; and whether what comes out is worse than its start by the measure
that users judge by: pixel errors.

F cannot tell. The ray error, weights, priors and robust losses all make it another measure than the
reprojection error by which a file is judged, and on weak geometry F falls while a model is
destroyed.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.core.options import Options
from daba.core.types import Floats, median
from daba.partition.partition import Partition
from daba.problem.problem import Problem
from daba.runtime.observers import Callback, CallbackObserver, Observer, Observers
from daba.runtime.result import Result

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator
    from daba.io.files import PathLike
    from daba.io.store.store import Store
    from daba.runtime.checkpoint import Checkpoints
    from daba.runtime.recording import Recorder

RISE = 1.05
"""Share of the start's error from which on a result is clearly worse. Solves of rays, which weigh
pixels a little differently, have ended up to 1 % above a start that was optimal in pixels."""
RISE_WITH_PRIORS = 1.5
"""The same where priors pull at the model: surveyed positions honestly cost pixels."""
FLOOR = 0.05
"""Pixels that nobody calls clearly worse: a model without noise, and priors that have some."""
SAMPLE = 100_000
"""Observations that are compared: enough for a mean, and quick where there are many more."""
HIDDEN = 1e-3
"""Share of observations that may come out behind their cameras, beyond those at the start."""


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

    Args:
        problem: from `daba.load`, `Problem.from_arrays` or `daba.generate`; or a `Store`, of which
            each process reads its own part; arrays may be torch tensors, and the solution is
            returned where cameras and points were given
        options: an `Options`; single options can be given by name instead, or to change some:
            `daba.solve(problem, devices=8, loss=daba.Huber(32.0), iterations=1000)`
        partition: which device owns what; by default `make_partition(problem, devices)`
        callback: called with each `Iteration` reported; the solve stops when it returns True
        comm: `daba.communicator()` to share the work with the other processes of an MPI job, all of
            which must call; a `Problem` is taken from rank 0 and may be None elsewhere
        checkpoints: a `daba.Checkpoints`: where and when to save, and what to resume from
        log: folder in which each process keeps a log of its own
        recorder: a `daba.Recorder`: takes snapshots of cameras and points on the way

    Ctrl-C, SIGTERM and SIGUSR1 stop the solve after the iteration at hand; what was reached is
    returned. A log, a recording or a callback that fails is switched off with a warning. An
    estimate worse than the start is never returned: the start is, and `Result.notes` says so.
    """
    from daba.distributed.comm.base import Communicator
    from daba.runtime.runs import Runs

    if problem is not None and not isinstance(problem, Problem):
        from daba.io.store.store import Store

        if not isinstance(problem, Store):
            raise DabaError(
                f"a {type(problem).__name__} is no problem: daba.load(...) reads one from a file, "
                "Problem.from_arrays(...) makes one of arrays"
            )
    options = _options(options, changes, partition)
    comm = comm or Communicator()
    observers: list[Observer | None] = [recorder]
    if log is not None:
        from daba.runtime.log import Log

        observers.insert(0, Log(log, comm.rank))
    if callback is not None:
        observers.append(CallbackObserver(callback))
    given = problem
    problem, device = _to_host(problem)
    runs = Runs(comm, partition, Observers(observers))
    result = runs.solve(problem, options, checkpoints)
    if comm.rank == 0 and result.worse:
        warnings.warn(
            f"the result is worse than the start: {result.worse}", DabaWarning, stacklevel=2
        )
    if device is not None and result.solution is not None:
        solution = _to_device(result.solution, cast("Problem", given), device)
        result = replace(result, solution=solution)
    return result


def _to_host(problem: Any) -> tuple[Any, Any]:
    """A problem with NumPy's arrays, and the torch device its estimate was on, None if on none."""
    if not isinstance(problem, Problem):
        return problem, None
    torch = sys.modules.get("torch")
    if torch is None:  # nobody has made a tensor
        return problem, None
    changes: dict[str, Any] = {}
    device = None
    for name, value in vars(problem).items():  # not the fields: rays may not be needed
        if isinstance(value, torch.Tensor):
            kind = np.int32 if name.endswith("_index") else np.float64
            changes[name] = np.ascontiguousarray(value.detach().cpu().numpy(), dtype=kind)
            if name == "cameras":
                device = value.device
    return (problem.changed(**changes) if changes else problem), device


def _to_device(solution: Problem, given: Problem, device: Any) -> Problem:
    """The solution as the problem was given: its estimate on the device, all else untouched."""
    import torch

    return given.with_estimate(
        torch.from_numpy(solution.cameras).to(device),  # type: ignore[arg-type]
        torch.from_numpy(solution.points).to(device),  # type: ignore[arg-type]
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


def verdict(result: Result) -> str:
    """How a result is clearly worse than its start; empty where it is not.

    Mean and rms must both have risen: least squares lowers the rms, and may raise the mean where a
    start was robust. With a robust loss or a filter mean and median must: letting go of outliers
    raises mean and rms, while the median falls.
    """
    from daba.problem.optics import reprojection_errors

    if result.solution is None:
        return _by_rms(result)
    robust = result.options.loss.name != "trivial" or result.options.filter is not None
    start, end = (
        reprojection_errors(_sample(problem))[0] for problem in (result.start, result.solution)
    )
    hidden = [int(np.count_nonzero(~np.isfinite(errors))) for errors in (start, end)]
    if hidden[1] > hidden[0] + HIDDEN * len(end):
        return (
            f"{hidden[1]:,} observations are of points that their images do not see, "
            f"{hidden[0]:,} at the start"
        )
    was, now = (_measures(errors, robust) for errors in (start, end))
    rise = RISE_WITH_PRIORS if result.history[-1].prior_objective > 0 else RISE
    if all(after > rise * before + FLOOR for before, after in zip(was, now, strict=True)):
        return f"the mean reprojection error has risen from {was[0]:.4g} to {now[0]:.4g} px"
    return ""


def _sample(problem: Problem) -> Problem:
    """All of it, or evenly chosen observations of a large one."""
    step = -(-problem.num_observations // SAMPLE)
    if step == 1:
        return problem
    return problem.with_observations(np.arange(0, problem.num_observations, step))


def _measures(errors: Floats, robust: bool) -> tuple[float, float]:
    seen = errors[np.isfinite(errors)]
    if not len(seen):
        return 0.0, 0.0
    other = median(seen) if robust else np.sqrt(np.mean(seen**2))
    return float(np.mean(seen)), float(other)


def _by_rms(result: Result) -> str:
    """Where nobody holds the whole problem, by what the solve itself has summed up."""
    was, now = result.history[0].rms_pixels, result.history[-1].rms_pixels
    if result.options.loss.name == "trivial" and now > RISE * was:
        return f"the rms of pixel errors has risen from {was:.4g} to {now:.4g} px"
    return ""
