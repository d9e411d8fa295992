"""`daba.solve`: the one way in."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.core.options import Options
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
    changes: dict[str, Any] = {}
    device = None
    value: Any
    for name, value in vars(problem).items():  # not the fields: rays may not be needed
        if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor
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
