"""One of several processes that solve a small problem together with the GPU's code: run by
`test_gpu_processes.py` under torchrun, in Triton's interpreter, and on a GPU by `tests/gpu`.

    torchrun --nproc-per-node 2 tests/gpu_process.py OUT.npz cpu none
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scene_for_gpu import tiny_problem

import daba
from daba.core.options import Options
from daba.distributed.comm.launcher import communicator
from daba.distributed.scatter import make_setup
from daba.solver.make import gpu_solver


def main() -> None:
    out, device, refine = sys.argv[1:4]
    comm: Any = communicator()
    small = device == "cpu"  # in the interpreter
    problem = tiny_problem(4, 8) if small else tiny_problem(12, 200)
    partition = daba.partition_from_arrays(problem, np.arange(problem.num_cameras) % 2)
    options = Options(method="daba", devices=2, refine=refine, precision="float64")  # type: ignore[arg-type]
    setup = make_setup(problem, options, partition, comm)
    solver = gpu_solver(setup.shard, options, comm, device)
    F = [solver.objective]
    for _ in range(2 if small else 30):
        solver.iterate()
        F.append(solver.objective)
    sent = comm.sum(np.array([float(solver.exchange.take_traffic().sent)]))
    solution = setup.gather(solver.estimate)
    if comm.rank == 0:
        assert solution is not None
        np.savez(out, F=F, points=solution.points, cameras=solution.cameras, sent=sent)


if __name__ == "__main__":
    main()
