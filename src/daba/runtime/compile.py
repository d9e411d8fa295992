"""Which kernels a solve needs, and compiling them before its clock starts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from daba.core.options import Options

if TYPE_CHECKING:
    from daba.backends.cpu.cache import Job
    from daba.core.lm import Kind
    from daba.problem.problem import Problem


def compile_for(options: Options, constrained: bool, tell: bool = True) -> None:
    """Compile what a solve with these options will run, as far as no earlier one has."""
    from daba.backends.cpu.cache import compile_jobs

    compile_jobs(jobs_for(options, constrained), tell)


def compile_lm(kind: Kind, coarse: bool) -> None:
    """Compile what Levenberg–Marquardt runs on a kind of problem, with a coarse space or
    without."""
    from daba.backends.cpu.cache import compile_jobs

    compile_jobs(lm_jobs(kind, coarse))


def compile_symbolic() -> None:
    """Compile what it finds out about a problem before."""
    from daba.backends.cpu.cache import compile_jobs, job
    from daba.backends.cpu.compiled import compiled

    compile_jobs([job(compiled("lm.tiles").count_pairs)], tell=False)


def lm_jobs(kind: Kind, coarse: bool) -> list[Job]:
    """What `backends/cpu/lm` runs, the longest first."""
    from daba.backends.cpu.cache import job
    from daba.backends.cpu.compiled import compiled

    k = compiled("lm.binding", "kernels", kind)
    a = compiled("lm.binding", "algebra", kind.block, kind.columns)
    used = [k.linearize, k.settle_points, compiled("lm.tiles").factor, a.form, a.substitute]
    used += [a.back_substitute, k.objective, a.linearize_frames, a.push_points, a.push_frames]
    used += [a.pull_own, a.damp_points, a.fill_tiles, a.pull_others]
    used += [a.form_by_point, a.form_frames, k.second_order, a.gradient_points, a.gradient_frames]
    if kind.error == "pixel":
        used += [k.visible]
    if kind.columns:
        used += [a.linearize_shared, a.shared_columns]
    if coarse or kind.columns:
        used += [a.coarse_rows, a.coarse_matrix, a.coarse_dots, a.coarse_correct]
    if coarse:
        used += [a.gap_runs, a.gap_pull, a.gap_push]
    return [job(kernel) for kernel in used]


def compile_kernels() -> None:
    """Compile everything that any solve may need."""
    from daba.backends.cpu.cache import compile_jobs, job
    from daba.backends.cpu.kernels import cholesky, pcg, schur
    from daba.core.lm import Kind

    options = [
        Options(method="daba", devices=2, refine="sweep"),
        Options(devices=2, method="admm"),
        Options(devices=2, method="dr"),
    ]
    jobs = [one for o in options for one in jobs_for(o, constrained=True)]
    linear = [cholesky.factor, cholesky.form, cholesky.substitute, cholesky.borders, cholesky.fix]
    linear += [pcg.solve, pcg.factor_blocks, pcg.share_blocks, schur.schur_diagonal]
    jobs += [job(kernel) for kernel in linear] + [job(pcg.solve, constrained=True)]
    jobs += lm_jobs(Kind("ray", own=3), coarse=True)
    compile_jobs(list(dict.fromkeys(jobs)))


KINDS_OF_SIZE = ((100, 10**5), (700, 10**6), (2000, 10**6), (2000, 10**7), (10**4, 3 * 10**7))
"""Cameras and observations: on a GPU how wide passes are and how many digits they have depends on
them, and so do the kernels."""


def compile_gpu_kernels(problem: Problem) -> None:
    """Compile what solves on a GPU need, but for losses other than the trivial one and for pixels,
    as far as `problem`, which must be small, can stand for all."""
    from daba.backends.gpu.operations import GpuOperations
    from daba.distributed.comm.base import Communicator
    from daba.distributed.shard import make_shard
    from daba.partition.partition import make_partition
    from daba.runtime.backend import Gpu

    comm = Communicator()
    gpu = Gpu(comm)
    with gpu.running():
        for options in (
            Options(method="lm", error="ray"),
            Options(method="daba", devices=8, refine="none"),
            Options(method="daba", devices=8, refine="sweep"),
        ):
            shard = make_shard(problem, make_partition(problem, options.devices))
            for cameras, observations in KINDS_OF_SIZE:
                stretched = np.array([0, cameras])
                ranges = replace(shard.ranges, camera_ptr=stretched, observations=observations)
                like = replace(shard, ranges=ranges)
                ops = GpuOperations(like, options, comm.exchange(shard), gpu.device)
                gpu.compile(ops.launch_all)
        shard = make_shard(problem, make_partition(problem, 2))
        gpu.solver(shard, Options(method="lm", error="ray", devices=2), comm)


def jobs_for(options: Options, constrained: bool) -> list[Job]:
    """What Algorithm 1 and the consensus methods will run but for the linear solver, which is
    chosen later; the longest first: that is how they are shared out best."""
    from daba.backends.cpu.cache import job
    from daba.backends.cpu.kernels import objective, refine, schur, state

    daba = options.accelerated
    consensus = options.copies
    rounds = options.rounds
    used = []
    if "cameras" in rounds or options.method == "dr":
        used += [refine.refine_cameras]
    if rounds or options.method == "admm":
        used += [refine.refine_points]
    if not consensus:
        from daba.backends.cpu.kernels import moments

        used += [moments.evaluate, moments.build_cameras, moments.add_to_cameras]
        used += [moments.build_points, moments.measure, moments.add_to_points]
    used += [objective.objective, schur.back_substitute, state.retract, state.choose]
    if daba and rounds:
        used += [objective.slack_by_point]
    used += [objective.linearize_points, objective.linearize_cameras]
    used += [schur.damp, schur.right_hand_side, objective.bound_cameras]
    if daba:
        used += [state.square_distance, state.extrapolate_cameras, state.extrapolate_points]
        used += [state.reset_momentum] if options.resets else []
    if options.linear_solver != "pcg":  # what the choice of a linear solver looks at
        used += [schur.count_pairs, schur.mark_pairs]
    jobs = [job(kernel) for kernel in used]
    return jobs + (_under_constraints(options) if constrained else [])


def _under_constraints(options: Options) -> list[Job]:
    """Fixed parameters, shared intrinsics, priors: what kernels do then is compiled apart, so that
    nothing costs without them."""
    from daba.backends.cpu.cache import job
    from daba.backends.cpu.kernels import objective, refine, schur, sharing

    rounds = options.rounds
    jobs = [job(refine.refine_cameras, constrained=True)] if "cameras" in rounds else []
    jobs += [job(refine.refine_points, constrained=True)] if rounds else []
    jobs += [job(schur.product), job(sharing.intrinsics_systems)]
    return [*jobs, job(objective.bound_cameras, constrained=True)]
