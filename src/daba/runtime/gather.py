"""Bringing a solution together, or writing it by all processes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daba.distributed.collective import on_first, write_collectively
from daba.distributed.comm.base import Communicator
from daba.problem.problem import Problem
from daba.runtime.result import Result

if TYPE_CHECKING:
    from daba.io.files import PathLike


def gather(result: Result, comm: Communicator | None = None) -> Problem | None:
    """The whole solution on rank 0, None elsewhere. All processes must call.

    Of a store, rank 0 reads everything: ask for it only where one machine can hold the problem.
    """
    comm = comm or Communicator()
    source = result.source
    if isinstance(source, Problem) or source is None:
        return result.solution
    parts = comm.collect(result.local)
    if comm.rank != 0:
        return None
    problem = source.load()
    cameras, points = problem.cameras.copy(), problem.points.copy()
    for part in parts:
        for device, x in part.items():
            cameras[source.array(device, "camera_id")] = x.cameras
            points[source.array(device, "point_id")] = x.points
    return problem.with_estimate(cameras, points)


def save_store(result: Result, path: PathLike, comm: Communicator | None = None) -> None:
    """Write the solution as a store, each process its own devices. All processes must call."""
    from daba.io.store import solution as solved_store
    from daba.io.store import store

    comm = comm or Communicator()
    source = result.source
    if comm.broadcast(source is None or isinstance(source, Problem)):
        options = result.options
        on_first(comm, lambda: store.save(result.problem, path, options.devices, options.seed))
        return
    assert isinstance(source, store.Store)
    write_collectively(
        comm,
        begin=lambda: solved_store.begin_solution(path),
        write=lambda folder: {
            device: solved_store.write_device(source, device, *x, folder)
            for device, x in result.local.items()
        },
        finish=lambda folder, crcs: solved_store.finish_solution(source, folder, path, crcs),
    )
