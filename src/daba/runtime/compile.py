"""Compile every kernel once, before any clock starts.

Numba compiles on one core. A second process takes the linear solvers and the refinement, which do
not need the other kernels, and both leave what they compiled in the same cache.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from daba.backends.cpu.threads import one_blas_thread
from daba.core.options import Options
from daba.distributed.shard import Shard, make_shard
from daba.partition.partition import partition_from_arrays
from daba.problem.problem import Problem

_done: list[bool] = []


def compile_kernels() -> None:
    """Compile what no earlier run has; says so on stderr."""
    from daba.backends.cpu.kernels.binding import COMPLETE

    if _done or COMPLETE.exists():
        return
    print("daba: compiling the kernels, once; this takes about a minute", file=sys.stderr)
    other = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import daba.runtime.compile; daba.runtime.compile.compile_second_half()",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        _compile_first_half()
        other.wait()
    finally:
        other.kill()
    _run_everything()  # finds all of it in the cache, or compiles what the other process did not
    _done.append(True)
    with contextlib.suppress(OSError):  # nowhere to keep them: they last as long as the process
        COMPLETE.touch()


def _run_constrained() -> None:
    """What kernels do under constraints is compiled apart, so that nothing costs without them."""
    from daba.solver.algorithm import Algorithm1

    for group in ([0, 0, 1], [0, 1, 0]):  # on one device, and across
        shard = _tiny_shard(np.array(group))
        for linear in ("direct", "pcg"):
            options = replace(Options(devices=2), linear_solver=linear)
            with one_blas_thread():
                Algorithm1(shard, options).iterate()


def _tiny_shard(shared: np.ndarray | None = None) -> Shard:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(12, 3)) + [0.0, 0.0, 8.0]
    camera, point = (i.ravel() for i in np.mgrid[:3, :12])
    centers = rng.normal(size=(3, 3))
    ray = points[point] - centers[camera]
    problem = Problem.from_arrays(
        rotations=np.tile(np.eye(3), (3, 1, 1)),
        centers=centers,
        points=points + 0.01,
        camera_index=camera,
        point_index=point,
        pixels=500 * ray[:, :2] / ray[:, 2:],
        focal=500.0,
        shared=shared,
    )
    return make_shard(problem, partition_from_arrays(problem, np.array([0, 0, 1])))


def _compile_first_half() -> None:
    """Passes over observations, surrogate, and moving the estimate."""
    from daba.backends.cpu.kernels import objective, schur, state
    from daba.solver.acceleration import Nesterov
    from daba.solver.surrogate import Surrogate
    from daba.solver.trust_region import Levenberg

    shard = _tiny_shard()
    options = Options(devices=2, linear_solver="pcg")
    x, every, devices = shard.state(), np.ones(2, dtype=bool), shard.devices
    lm = Levenberg(shard, options)
    surrogate = Surrogate(shard, options.loss, options.split, options.xi)
    lm.objective(x, every)
    surrogate.rebase(x)
    lm.linearize(x, surrogate)
    surrogate.value(x, every)
    tasks = devices[2:]
    objective.bound_cameras(x.cameras, lm.camera_reach, every, tasks[0], None, lm.step_c)
    schur.damp(lm.system, 1.0 / lm.radius, every, *tasks, lm.D, lm.V_inv, lm.z)
    schur.right_hand_side(shard.intra, lm.system, lm.z, every, tasks[0], lm.rhs)
    schur.back_substitute(shard.intra, lm.system, lm.V_inv, lm.step_c, every, *tasks, lm.step_l)
    state.retract(*x, lm.step_c, lm.step_l, every, *tasks, *x.copy())
    state.choose(every, *x, *tasks, *x.copy())
    nesterov = Nesterov(shard, x, np.inf, reset=True)
    nesterov.extrapolate(x)
    nesterov.advance(x, x)
    state.square_distance(*x, *x, *tasks)
    fixed = (options.loss.kind, options.loss.radius, options.split)
    objective.slack_by_point(shard.inter, *x, *x, devices.point_tasks, *fixed)


def compile_second_half() -> None:
    """Linear solvers and refinement."""
    from daba.backends.cpu.kernels import refine
    from daba.solver.trust_region import Levenberg

    shard = _tiny_shard()
    loss = Options().loss
    every, x = np.ones(2, dtype=bool), shard.state()
    for linear_solver in ("direct", "pcg"):
        options = replace(Options(devices=2), linear_solver=linear_solver)
        lm = Levenberg(shard, options)
        for array in lm.system:
            array[:] = 0.0
        lm.D[:] = np.eye(9)
        with one_blas_thread():
            lm.linear.solve(lm.system, lm.D, lm.V_inv, lm.rhs, every, lm.step_c)
    both = (shard.intra, shard.inter, *x)
    refine.refine_points(*both, shard.devices.point_tasks, loss.kind, loss.radius, None, None)
    refine.refine_cameras(*both, shard.devices.camera_tasks, loss.kind, loss.radius, *(None,) * 3)


def _run_everything() -> None:
    from daba.solver.algorithm import Algorithm1

    shard = _tiny_shard()
    base = Options(devices=2, restart_ratio=1.0)
    _run_constrained()
    changes: list[dict[str, Any]] = [
        {"linear_solver": "direct"},
        {"linear_solver": "pcg"},
        {"refine": "none"},
    ]
    for change in changes:
        with one_blas_thread():
            Algorithm1(shard, replace(base, **change)).iterate()
