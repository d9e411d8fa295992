"""Bringing a solution together, or writing it by all processes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daba.distributed.comm.base import Communicator, on_first, write_collectively
from daba.distributed.shard import State
from daba.problem import image_rows
from daba.problem.problem import Problem
from daba.runtime.result import Result

if TYPE_CHECKING:
    from daba.io.files import PathLike
    from daba.problem.optics import Optics


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
    problem, points = source.load(), np.empty((source.ranges.points, 3))
    cameras = np.empty((source.ranges.cameras, next(iter(result.local.values())).cameras.shape[1]))
    for part in parts:
        for device, x in part.items():
            cameras[source.array(device, "camera_id")] = x.cameras
            points[source.array(device, "point_id")] = x.points
    if result.options.error == "pixel":
        optics = image_rows.optics_of(problem.optics, cameras)
        return problem.with_optics(optics, points, image_rows.poses(cameras))
    return problem.with_estimate(cameras, points)


def save_store(result: Result, path: PathLike, comm: Communicator | None = None) -> None:
    """Write the solution as a store, each process its own devices. All processes must call."""
    from daba.io.store import solution as solved_store
    from daba.io.store import store, writing

    comm = comm or Communicator()
    source = result.source
    if comm.broadcast(source is None or isinstance(source, Problem)):
        options = result.options
        on_first(comm, lambda: writing.save(result.problem, path, options.devices, options.seed))
        return
    assert isinstance(source, store.Store)
    optics = _optics(result, comm)
    write_collectively(
        comm,
        begin=lambda: solved_store.begin_solution(path),
        write=lambda folder: {
            device: solved_store.write_device(source, device, *_records(x), folder)
            for device, x in result.local.items()
        },
        finish=lambda folder, crcs: solved_store.finish_solution(
            source, folder, path, crcs, optics
        ),
    )


def _records(x: State) -> State:
    """What a store keeps of a solution in pixels: poses, and no d, which would be stale."""
    if x.cameras.shape[1] != image_rows.WIDTH:
        return x
    return State(np.pad(image_rows.poses(x.cameras), ((0, 0), (0, 3))), x.points)


def _optics(result: Result, comm: Communicator) -> Optics | None:
    """Of a solution in pixels, on rank 0."""
    source = result.source
    if result.options.error != "pixel":
        return None
    assert not isinstance(source, Problem)
    assert source is not None
    parts = comm.collect({device: x.cameras for device, x in result.local.items()})
    optics = source.optics
    for part in parts:
        for device, rows in part.items():
            optics = image_rows.optics_of(optics, rows, source.array(device, "camera_id"))
    return optics if comm.rank == 0 else None
