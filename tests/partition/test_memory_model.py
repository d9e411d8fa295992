"""Predicted memory against the arrays that a solver really holds."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import daba
from daba.backends.operations import Block
from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import join, make_shard
from daba.partition.memory_model import PROGRAM
from daba.partition.ordering import lay_out
from daba.partition.partition import make_partition
from daba.partition.statistics import statistics
from daba.solver.make import cpu_solver, make_solver
from daba.tools.bench import footprint
from helpers import synthetic

pytestmark = pytest.mark.usefixtures("compiled")


def held(thing: Any, seen: dict[int, int]) -> None:
    """Bytes of every array that can be reached from an object, each counted once."""
    if isinstance(thing, np.ndarray):
        seen[thing.__array_interface__["data"][0]] = thing.nbytes
    elif isinstance(thing, tuple | list):
        for part in thing:
            held(part, seen)
    elif isinstance(thing, dict):
        held(list(thing.values()), seen)
    elif type(thing).__module__.startswith("daba.") and hasattr(thing, "__dict__"):
        held(vars(thing), seen)


@pytest.mark.parametrize("refine", ["none", "sweep"])
def test_memory_is_what_the_arrays_take(refine: Any) -> None:
    problem = daba.generate(synthetic("city", cameras=120, points=12_000)).start
    partition = make_partition(problem, 4)
    predicted = statistics(problem, partition).memory
    layout = lay_out(problem, partition)
    options = Options(method="daba", devices=4, refine=refine, linear_solver="pcg")
    for device in range(4):
        shard = join([layout.device_block(device)], device, layout.ranges)
        for array, order, ghosts, values in (
            (shard.start.cameras, layout.camera_order, shard.ghost_cameras, problem.cameras),
            (shard.start.points, layout.point_order, shard.ghost_points, problem.points),
        ):
            array[len(array) - len(ghosts) :] = values[order[ghosts]]
        solver = cpu_solver(shard, options)
        solver.iterate()
        # x⁺ is made anew in each iteration
        seen = {0: solver.estimate.cameras.nbytes + solver.estimate.points.nbytes}
        held(solver, seen)
        assert predicted[device] - PROGRAM == pytest.approx(sum(seen.values()), rel=0.1)


@pytest.mark.parametrize(("method", "block"), [("admm", "cameras"), ("dr", "points")])
def test_memory_of_copies_is_what_a_solve_takes(method: Any, block: Block) -> None:
    """All devices in one process: the most that two rounds take at any time."""
    problem = daba.generate(synthetic("city", cameras=120, points=12_000)).start
    partition = make_partition(problem, 4)
    predicted = footprint._consensus_memory(problem, partition, block).sum()
    options = Options(method=method, devices=4)
    tracemalloc.start()
    try:
        solver = make_solver(make_shard(problem, partition), options, Communicator())
        tracemalloc.reset_peak()
        for _ in range(2):
            solver.iterate()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert predicted == pytest.approx(most, rel=0.15)
