"""The solver of a method, on a backend, and that of its linear systems; only those are loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.core.types import Plan, SharedGroups
from daba.distributed.comm.base import Communicator, Exchange
from daba.distributed.shard import Shard
from daba.solver.interface import Solver

if TYPE_CHECKING:
    from daba.backends.cpu.equations import LinearSolver
    from daba.backends.cpu.operations import CpuOperations
    from daba.backends.gpu.consensus import GpuConsensus
    from daba.backends.gpu.operations import GpuOperations
    from daba.backends.operations import Block, ConsensusOperations
    from daba.solver.algorithm import Algorithm1
    from daba.solver.consensus.consensus import Consensus, MakeOperations

MOST_GROUPS_FOR_DIRECT = 12
"""Of cameras on a device that share d: each adds three right-hand sides to a direct solution."""


def make_solver(shard: Shard, options: Options, comm: Communicator | None = None) -> Solver:
    """On the CPU; on one device consensus methods have nothing to agree on."""
    comm = comm or Communicator()
    if not options.copies:
        return cpu_solver(shard, options, comm)

    held = intrinsics_held(shard, comm)

    def operations(shard: Shard, block: Block) -> ConsensusOperations:
        if held:
            from daba.solver.constraints.consensus import held_consensus

            return held_consensus(shard, options, comm, block)
        from daba.backends.cpu.consensus import CpuConsensus
        from daba.backends.cpu.equations import Equations

        equations = Equations(shard, options.loss, make_linear_solver(shard, options, comm))
        return CpuConsensus(shard, options, equations, block)

    return consensus_solver(shard, options, comm, operations, held)


def intrinsics_held(shard: Shard, comm: Communicator) -> bool:
    """Whether all intrinsics are fixed, on every process, and nothing else is asked for: then it
    does not matter who shares them."""
    asked = shard.constraints
    only = asked is not None and asked.priors is None and asked.free_cameras is not None
    if only:
        free, points = asked.free_cameras, asked.free_points  # type: ignore[union-attr]
        only = bool(free[:, :6].all() and not free[:, 6:].any())  # type: ignore[index]
        only = only and (points is None or bool(points.all()))
    return not comm.any(not only)


def gpu_consensus(
    shard: Shard, options: Options, comm: Communicator, block: Block, device: Any, held: bool
) -> GpuConsensus:
    """What ADMM and DR ask of a GPU; `held` as in `consensus_solver`."""
    if held:
        from daba.solver.constraints.on_gpu import held_gpu_consensus

        return held_gpu_consensus(shard, options, comm, block, device)
    from daba.backends.gpu.consensus import GpuConsensus

    return GpuConsensus(shard, options, block, device)


def consensus_solver(
    shard: Shard, options: Options, comm: Communicator, make: MakeOperations, held: bool = False
) -> Consensus:
    """ADMM or Douglas–Rachford, wherever `make` makes its operations; `held`: for intrinsics that
    are all fixed."""
    if shard.constraints and not held:
        raise DabaError(
            f"{options.method} knows no fixed parameters, shared intrinsics or priors; use "
            "--method daba, duba or lm"
        )
    from daba.solver.consensus.consensus import Admm, DouglasRachford

    method = Admm if options.method == "admm" else DouglasRachford
    return method(shard, options, comm, make)


def cpu_solver(shard: Shard, options: Options, comm: Communicator | None = None) -> Algorithm1:
    """Algorithm 1 on the CPU."""
    from daba.solver.algorithm import Algorithm1

    comm = comm or Communicator()
    exchange = comm.exchange(shard)
    operations = cpu_operations(shard, options, comm, exchange)
    return Algorithm1(shard, options, comm, exchange, operations)


def cpu_operations(
    shard: Shard, options: Options, comm: Communicator, exchange: Exchange
) -> CpuOperations:
    """Constraints cost nothing where there are none."""
    if shard.constraints is not None:
        from daba.solver.constraints.operations import constrained_operations

        return constrained_operations(shard, options, comm, exchange)
    from daba.backends.cpu.equations import Equations
    from daba.backends.cpu.operations import CpuOperations

    equations = Equations(shard, options.loss, make_linear_solver(shard, options, comm))
    return CpuOperations(shard, options, exchange, equations)


def gpu_solver(
    shard: Shard,
    options: Options,
    comm: Communicator | None = None,
    device: Any = "cuda",
    prepare: Callable[[GpuOperations], None] = lambda operations: None,
) -> Algorithm1:
    """Algorithm 1 on a GPU; `prepare` is called before the first kernel is."""
    from daba.solver.algorithm import Algorithm1

    comm = comm or Communicator()
    exchange = comm.exchange(shard)
    operations = gpu_operations(shard, options, comm, exchange, device)
    prepare(operations)
    return Algorithm1(shard, options, comm, exchange, operations)


def gpu_operations(
    shard: Shard, options: Options, comm: Communicator, exchange: Exchange, device: Any
) -> GpuOperations:
    """Constraints cost nothing where there are none."""
    if shard.constraints is not None:
        from daba.solver.constraints.on_gpu import constrained_gpu_operations

        return constrained_gpu_operations(shard, options, comm, exchange, device)
    from daba.backends.gpu.operations import GpuOperations

    return GpuOperations(shard, options, exchange, device)


def make_linear_solver(
    shard: Shard, options: Options, comm: Communicator, groups: SharedGroups | None = None
) -> LinearSolver:
    """The solver asked for, its kernels compiled; `auto` compares the estimated cost of both, over
    all processes: what is chosen must not depend on how devices are shared out."""
    from daba.backends.cpu.cache import compile_jobs

    solver = _chosen_solver(shard, options, comm, groups)
    compile_jobs(solver.jobs(), tell=comm.rank == 0)
    return solver


def _chosen_solver(
    shard: Shard, options: Options, comm: Communicator, groups: SharedGroups | None
) -> LinearSolver:
    plan = _plan_of_direct(shard, options, comm, groups)
    if plan is None:
        from daba.solver.linear.pcg import Pcg

        return Pcg(shard, options, groups)
    if groups is None:
        from daba.solver.linear.cholesky import Cholesky

        return Cholesky(shard, plan)
    from daba.solver.linear.bordered import BorderedCholesky

    return BorderedCholesky(shard, plan, groups)


def _plan_of_direct(
    shard: Shard, options: Options, comm: Communicator, groups: SharedGroups | None
) -> Plan | None:
    """The plan of a direct solution, None if it is not what is used."""
    from daba.solver.elimination import MOST_CAMERAS_FOR_PLAN, Cost, direct_pays, make_plan

    many = shard.ranges.cameras > MOST_CAMERAS_FOR_PLAN
    if groups is not None:
        from daba.solver.linear.bordered import slots

        most = int(slots(groups.representative, shard.devices.camera_ptr).max(initial=-1)) + 1
        many = many or comm.any(most > MOST_GROUPS_FOR_DIRECT)
    if options.linear_solver == "pcg" or (options.linear_solver == "auto" and many):
        return None
    plan, cost = make_plan(shard.intra, shard.devices, shard.ranges.largest)
    if options.linear_solver == "auto":
        here = np.array([*cost, float(len(shard.intra.camera))])
        *total, observations = comm.sum(here)
        if not direct_pays(Cost(*total), observations, options.copies):
            return None
    return plan
