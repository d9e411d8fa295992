"""Which solver of the reduced camera system a solve uses; only that one is loaded."""

from __future__ import annotations

import numpy as np

from daba.backends.cpu.equations import LinearSolver
from daba.core.options import Options
from daba.core.types import Plan, SharedGroups
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard
from daba.solver.elimination import Cost
from daba.solver.linear.cost import MOST_CAMERAS_FOR_PLAN, direct_pays
from daba.solver.linear.symbolic import make_plan

MOST_GROUPS_FOR_DIRECT = 12
"""Of cameras on a device that share d: each adds three right-hand sides to a direct solution."""


def make_linear_solver(
    shard: Shard, options: Options, comm: Communicator, groups: SharedGroups | None = None
) -> LinearSolver:
    """The solver asked for; `auto` compares the estimated cost of both, over all processes: what
    is chosen must not depend on how devices are shared out."""
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
    many = shard.extent.cameras > MOST_CAMERAS_FOR_PLAN
    if groups is not None:
        from daba.solver.linear.bordered import slots

        most = int(slots(groups.representative, shard.devices.camera_ptr).max(initial=-1)) + 1
        many = many or comm.any(most > MOST_GROUPS_FOR_DIRECT)
    if options.linear_solver == "pcg" or (options.linear_solver == "auto" and many):
        return None
    plan, cost = make_plan(shard.intra, shard.devices, shard.extent.largest)
    if options.linear_solver == "auto":
        here = np.array([*cost, float(len(shard.intra.camera))])
        *total, observations = comm.sum(here)
        if not direct_pays(Cost(*total), observations, options.copies):
            return None
    return plan
