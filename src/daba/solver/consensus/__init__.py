"""Consensus methods that DABA is compared with: ADMM on cameras, Douglas–Rachford on points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daba.core.errors import DabaError

if TYPE_CHECKING:
    from daba.core.options import Options
    from daba.distributed.comm.base import Communicator
    from daba.distributed.shard import Shard
    from daba.solver.interface import Solver


def make_solver(shard: Shard, options: Options, comm: Communicator) -> Solver:
    """The solver of the method asked for; on one device there is nothing to agree on."""
    if options.method in ("admm", "dr") and not options.centralized and shard.constraints:
        raise DabaError(
            f"{options.method} knows no fixed parameters, shared intrinsics or priors; use "
            "--method daba, duba or lm"
        )
    if options.method == "admm" and not options.centralized:
        from daba.solver.consensus.admm import Admm

        return Admm(shard, options, comm)
    if options.method == "dr" and not options.centralized:
        from daba.solver.consensus.douglas_rachford import DouglasRachford

        return DouglasRachford(shard, options, comm)
    from daba.solver.algorithm import Algorithm1

    return Algorithm1(shard, options, comm)
