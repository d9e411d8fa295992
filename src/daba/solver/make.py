"""The solver of a method, on a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.distributed.comm.base import Communicator, Exchange
from daba.distributed.shard import Shard
from daba.solver.algorithm import Algorithm1
from daba.solver.interface import Solver

if TYPE_CHECKING:
    from daba.backends.cpu.operations import CpuOperations


def make_solver(shard: Shard, options: Options, comm: Communicator | None = None) -> Solver:
    """On the CPU; on one device consensus methods have nothing to agree on."""
    comm = comm or Communicator()
    if not options.copies:
        return cpu_solver(shard, options, comm)
    if shard.constraints:
        raise DabaError(
            f"{options.method} knows no fixed parameters, shared intrinsics or priors; use "
            "--method daba, duba or lm"
        )
    if options.method == "admm":
        from daba.solver.consensus.admm import Admm

        return Admm(shard, options, comm)
    from daba.solver.consensus.douglas_rachford import DouglasRachford

    return DouglasRachford(shard, options, comm)


def cpu_solver(shard: Shard, options: Options, comm: Communicator | None = None) -> Algorithm1:
    """Algorithm 1 on the CPU."""
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
    from daba.solver.linear.choice import make_linear_solver

    equations = Equations(shard, options.loss, make_linear_solver(shard, options, comm))
    return CpuOperations(shard, options, exchange, equations)


def gpu_solver(
    shard: Shard, options: Options, comm: Communicator | None = None, device: Any = "cuda"
) -> Algorithm1:
    """Algorithm 1 on a GPU."""
    from daba.backends.gpu.operations import GpuOperations

    comm = comm or Communicator()
    exchange = comm.exchange(shard)
    operations = GpuOperations(shard, options, exchange, device)
    return Algorithm1(shard, options, comm, exchange, operations)
