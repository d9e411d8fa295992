"""A solve in two stages: what one method has begun, on rays, lm finishes, in pixels or where it is
asked to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from daba.core.options import Options
from daba.distributed import stages as parts
from daba.distributed.cheirality import joined
from daba.distributed.scatter import Setup, refined
from daba.distributed.shard import State
from daba.problem.problem import Problem
from daba.runtime.loop import BY_USER
from daba.runtime.result import Result
from daba.runtime.runs import Runs

if TYPE_CHECKING:
    from daba.io.store.store import Store


def finished(runs: Runs, result: Result, options: Options, given: Any) -> Result:
    """A result solved on, in another way; `given` is the problem with all that may change in it, or
    of a store its parts in pixels."""
    if result.reason in BY_USER:
        return result
    setup, problem = runs.last, result.solution
    if runs.comm.broadcast(setup.orders is None):
        apart = result.options.error != options.error
        setup = (_in_pixels if apart else _moved_setup)(setup, result, options, given)
    else:
        if result.options.error != options.error:
            problem = runs.changed(problem, lambda found: _moved_to(given, found))[0]
        runs.partition = result.partition
        setup = runs.set_up(problem, options)
    before = result.options
    how = "on rays with intrinsics held" if before.error != options.error else "first"
    note = (
        f"{before.method} went {result.history[-1].iteration} iterations {how}; lm has "
        f"finished {'in pixels' if options.error == 'pixel' else 'from there'}"
    )
    after = runs.run(setup)
    return replace(after, corrected=result.corrected, notes=[note, *after.notes])


def with_intrinsics_held(problem: Problem) -> tuple[Problem, None]:
    """A problem for the first stage of two, which knows rays only."""
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


def _moved_setup(setup: Setup, result: Result, options: Options, _: Setup | None) -> Setup:
    """The parts of a store, where another solve of them has come to."""
    start = joined(setup.shard, result.local)
    return replace(setup, options=options, shard=replace(setup.shard, start=start))


def before_pixels(rays: Setup, pixels: Setup) -> Setup:
    """The parts of a store on rays, to be solved with intrinsics held before the same in pixels."""
    shard = parts.with_intrinsics_held(rays.shard)
    start = State(shard.start.cameras, pixels.shard.start.points)
    return replace(rays, shard=replace(shard, start=start))


def _in_pixels(setup: Setup, result: Result, options: Options, pixels: Setup) -> Setup:
    """The parts of a store in pixels, where a solve of them on rays has come to."""
    x, store = joined(setup.shard, result.local), cast("Store", pixels.source)
    shard = parts.in_pixels(pixels.shard, refined(store.optics, options), x)
    return replace(pixels, options=options, shard=shard)
