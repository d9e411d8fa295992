"""One of several processes that solve a small problem together with the GPU's code: run by
`tests/backends/gpu/test_processes.py` under torchrun, in Triton's interpreter, and on a GPU by
`tests/gpu`.

    torchrun --nproc-per-node 2 tests/helpers/gpu_process.py OUT.npz cpu none

Leaves F, cameras, points and the bytes that were sent, of each method. On a GPU these may be `lm`,
`admm` and `constrained` (sweeps under constraints), too, and there are four devices.
"""

from __future__ import annotations

import sys
from typing import Any

import constrained
import numpy as np
from quick_interpreter import quicken
from scene_for_gpu import tiny_problem

import daba
from daba.backends.gpu.setting_up import TorchArrays
from daba.core.options import Options
from daba.distributed.comm.launcher import communicator
from daba.distributed.scatter import make_setup
from daba.solver.make import gpu_solver


def main() -> None:
    out, device, *methods = sys.argv[1:]
    comm: Any = communicator()
    small = device == "cpu"
    if small:
        quicken()
    problem = tiny_problem(4, 8) if small else tiny_problem(12, 200)
    devices = 2 if small else 4
    partition = daba.partition_from_arrays(problem, np.arange(problem.num_cameras) % devices)
    found: dict[str, Any] = {}
    for method in methods:
        solve = solved if method in ("lm", "admm") else iterated
        given, refine = problem, method
        if method == "constrained":
            given, refine = constrained.everything(problem), "sweep"
        F, sent, solution = solve(given, partition, comm, device, refine)
        if comm.rank == 0:
            arrays = {"F": F, "points": solution.points, "cameras": solution.cameras, "sent": sent}
            found |= {f"{method} {name}": array for name, array in arrays.items()}
    if comm.rank == 0:
        np.savez(out, **found)


def solved(
    problem: daba.Problem, partition: daba.Partition, comm: Any, device: str, method: str
) -> Any:
    result = daba.solve(
        problem, partition=partition, method=method, backend="gpu", comm=comm, iterations=8,
        linear_solver="pcg",
    )  # fmt: skip
    sent = sum(entry.bytes_sent for entry in result.history)
    return [entry.objective for entry in result.history], sent, result.solution


def iterated(
    problem: daba.Problem, partition: daba.Partition, comm: Any, device: str, refine: str
) -> Any:
    options = Options(method="daba", devices=partition.devices, refine=refine, precision="float64")  # type: ignore[arg-type]
    setup = make_setup(problem, options, partition, comm, TorchArrays(device))
    solver = gpu_solver(setup.shard, options, comm, device)
    F = [solver.objective]
    for _ in range(2 if device == "cpu" else 30):
        solver.iterate()
        F.append(solver.objective)
    sent = comm.sum(np.array([float(solver.exchange.take_traffic().sent)]))
    return F, sent, setup.gather(solver.estimate)


if __name__ == "__main__":
    main()
