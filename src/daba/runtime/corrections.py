"""What is corrected between two runs of a solve: points are brought in front of their cameras, what
cameras do not see has no weight, and outliers are taken out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.distributed.cheirality import joined, some_hidden, start_in_front
from daba.distributed.shard import State
from daba.problem.cheirality import bring_to_front
from daba.problem.outliers import drop_hidden, filter_outliers
from daba.runtime.loop import BY_USER
from daba.runtime.result import Result
from daba.runtime.runs import Runs

if TYPE_CHECKING:
    from daba.distributed.scatter import Setup
    from daba.io.store.store import Store
    from daba.runtime.checkpoint import Checkpoints

CORRECTIONS = 2
"""Times that points are brought in front of their cameras after a solve."""


def with_points_in_front(runs: Runs, result: Result) -> Result:
    """Bring what has come out behind a camera in front of it, and solve on; a few times at most."""
    for _ in range(CORRECTIONS):
        if result.reason in BY_USER:
            break
        problem, moved = runs.changed(result.solution, bring_to_front)
        if runs.comm.broadcast(count_of(moved)) == 0:
            break
        corrected = result.corrected + count_of(moved)
        result = replace(runs.solve_on(result, problem), corrected=corrected)
    return result


def with_what_is_seen(runs: Runs, setup: Setup, result: Result) -> Result:
    """Solve on with observations whose points their cameras see by now; those that they never will
    are no part of the solution."""
    shard = setup.shard
    for _ in range(CORRECTIONS):
        if result.reason in BY_USER or result.hidden == 0:
            break
        before = result.hidden
        start = joined(shard, result.local)
        result = runs.run(replace(setup, shard=replace(shard, start=start)))
        if result.hidden == before:
            break
    if result.hidden == 0:
        return result
    note = f"{result.hidden:,} observations are of points behind their cameras: no weight"
    if runs.comm.broadcast(result.solution is not None):
        solution = runs.changed(result.solution, drop_hidden)[0]
        note += ", and they are not in the solution"
        result = replace(result, solution=solution)
    return replace(result, notes=[*result.notes, note])


def in_parts_with_points_in_front(
    runs: Runs, setup: Setup, checkpoints: Checkpoints | None, stages: list[Options]
) -> Result:
    """A store solved on rays, whose points each process brings in front for its own part, before
    and after; `stages` are those that follow the first."""
    whole = setup.shard  # a solver may let go of its observations
    shard, corrected = start_in_front(whole, whole.state(), runs.comm)
    result = runs.run(replace(setup, shard=shard), checkpoints)
    for stage in stages:
        from daba.runtime.stages import finished

        result = finished(runs, result, stage, None)
    for _ in range(CORRECTIONS):
        if result.reason in BY_USER:
            break
        shard, moved = start_in_front(whole, joined(whole, result.local), runs.comm)
        if moved == 0:
            break
        corrected += moved
        result = runs.run(replace(runs.last, shard=shard))
    return replace(result, corrected=corrected)


def parts_in_front(runs: Runs, setup: Setup) -> tuple[Setup, int]:
    """A store in pixels, with points that cameras do not see brought in front of them by its rays,
    as `bring_to_front` does of a whole problem; and how many."""
    options, store = setup.options, cast("Store", setup.source)
    chosen, known = options.points_in_front, store.manifest.optics
    solved = known is not None and known.solved  # its rays are those from before that
    if chosen is False or solved or options.most_iterations == 0:
        return setup, 0
    if not chosen and not some_hidden(setup.shard, runs.comm):
        return setup, 0
    rays = runs.set_up(store, replace(options, error="ray")).shard
    found, moved = start_in_front(rays, rays.state(), runs.comm)
    start = State(setup.shard.start.cameras, found.start.points)
    return replace(setup, shard=replace(setup.shard, start=start)), moved


def without_outliers(runs: Runs, result: Result, pixels: float) -> Result:
    """Drop observations that are so many pixels off, and solve on."""
    if result.reason in BY_USER:
        return result
    try:
        problem, dropped = runs.changed(result.solution, lambda p: filter_outliers(p, pixels))
    except DabaError as error:  # on all processes; what was solved for is not lost
        return replace(result, notes=[*result.notes, f"nothing was filtered: {error}"])
    if runs.comm.broadcast(dropped is not None and dropped.observations == 0):
        return replace(result, dropped=dropped)
    return replace(runs.solve_on(result, problem), corrected=result.corrected, dropped=dropped)


def count_of(moved: np.ndarray | None) -> int:
    """How many points were moved; nothing is known of them where the problem is not."""
    return 0 if moved is None else len(moved)
