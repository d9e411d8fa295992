"""lm on 8 to 1,000 devices: rounds of exchange, sums over all devices and bytes to 1.001 times the
optimum, and what networks would add. All devices are in one process, which counts what they would
tell each other, each a process of its own."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import daba
from daba.core.text import size
from daba.distributed.network_model import NetworkModel
from report import save_json, say, table

NETWORKS = {"2 µs, 100 Gbit/s": (2e-6, 100), "50 µs, 10 Gbit/s": (50e-6, 10),
            "1 ms, 1 Gbit/s": (1e-3, 1), "20 ms, 0.1 Gbit/s": (20e-3, 0.1)}  # fmt: skip
"""A supercomputer's, a data centre's, a site's, a radio's."""
NEAR = 1.001
"""Times the optimum."""


def measure(problem: daba.Problem, devices: int, iterations: int) -> dict[str, Any]:
    """History of one solve, cut where F hardly falls."""
    began = time.perf_counter()
    result = daba.solve(
        problem, devices=devices, method="lm", iterations=iterations, function_tolerance=1e-6
    )
    columns = ("mean_objective", "rounds", "all_reduces", "boundary_bytes", "summed_bytes",
               "pcg_iterations", "compute_seconds")  # fmt: skip
    return {
        "devices": devices,
        "seconds": time.perf_counter() - began,
        "linear_solver": result.linear_solver,
        "inter_share": result.inter_share,
        "history": {name: [getattr(row, name) for row in result.history] for name in columns},
    }


def spent(run: dict[str, Any], goal: float) -> dict[str, float] | None:
    """What a run had used when it was first at the goal."""
    history = run["history"]
    there = np.flatnonzero(np.array(history["mean_objective"]) <= goal)
    if not len(there):
        return None
    upto = int(there[0]) + 1
    return {name: float(np.sum(values[:upto])) for name, values in history.items()} | {
        "iterations": upto - 1
    }


def tables(runs: Sequence[dict[str, Any]]) -> list[str]:
    goal = NEAR * min(min(run["history"]["mean_objective"]) for run in runs)
    counted: list[list[str]] = []
    added: list[list[str]] = []
    for run in runs:
        found = spent(run, goal)
        if found is None or run["devices"] == 1:
            continue
        sums = found["all_reduces"]
        counted.append([
            f"{run['devices']:,}", f"{100 * run['inter_share']:.1f} %", run["linear_solver"],
            f"{found['iterations']:.0f}", f"{found['pcg_iterations']:.0f}",
            f"{found['rounds']:.0f}", f"{sums:.0f}", size(found["boundary_bytes"]),
            size(found["boundary_bytes"] / run["devices"]), size(found["summed_bytes"]),
        ])  # fmt: skip
        row = [f"{run['devices']:,}"]
        for latency, gigabits in NETWORKS.values():
            network = NetworkModel(run["devices"], latency, 1e9 / 8 * gigabits)
            told = found["boundary_bytes"], found["summed_bytes"]
            row.append(f"{network.seconds(found['rounds'], sums, *told):.3g} s")
        added.append(row)
    head = ["devices", "between them", "linear solver", "steps", "CG iterations", "rounds", "sums",
            "bytes in rounds", "each device", "bytes in sums"]  # fmt: skip
    return [
        f"Rounds to {NEAR:g} times the optimum:\n\n{table(head, counted)}",
        f"What a network would add to them:\n\n{table(['devices', *NETWORKS], added)}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scene", default="city")
    parser.add_argument("--cameras", type=int, default=3000)
    parser.add_argument("--points", type=int, help="by default 50 for each camera")
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 32, 128, 512, 1000])
    parser.add_argument("--iterations", type=int, default=20)
    args = parser.parse_args()
    points = args.points or 50 * args.cameras
    options = daba.SceneOptions(
        scene=args.scene, cameras=args.cameras, points=points, drift=0.003, seed=5
    )
    problem = daba.generate(options).start
    print(
        f"{args.scene} of {args.cameras:,} cameras, {points:,} points, "
        f"{problem.num_observations:,} observations\n"
    )
    runs = []
    for devices in args.devices:
        runs.append(measure(problem, devices, args.iterations))
        last = runs[-1]["history"]["mean_objective"][-1]
        say(f"{devices} devices: F/K {last:.7g}, {runs[-1]['seconds']:.0f} s")
        save_json("many_devices", {"options": vars(args), "runs": runs})
    print("\n\n".join(tables(runs)))


if __name__ == "__main__":
    main()
