"""What a solve would need, before it is begun."""

from __future__ import annotations

from dataclasses import replace

from daba.core.options import Options
from daba.partition.partition import Partition
from daba.problem.problem import Problem
from daba.solver.lm.footprint import LmFootprint, predict


def predict_lm(problem: Problem, partition: Partition, options: Options) -> LmFootprint:
    """Memory of each device and bytes of a step of lm, each device a process of its own. One linear
    system is solved for it, with all devices in this process."""
    from daba.distributed.comm.base import Communicator
    from daba.distributed.scatter import make_setup, refined
    from daba.runtime.backend import Cpu
    from daba.runtime.runs import error_of
    from daba.solver.lm.make import lm_solver

    options = replace(options, method="lm", devices=partition.devices)
    options = replace(options, error=error_of(problem, options))
    if options.error == "pixel":
        problem = problem.changed(given_optics=refined(problem.optics, options))
    comm = Communicator()
    backend = Cpu(options, comm, constrained=not problem.plain)
    shard = make_setup(problem, options, partition, comm).shard
    with backend.running():
        return predict(lm_solver(shard, options, comm, backend))
