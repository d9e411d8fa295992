"""The first solve of a process beside the later ones: seconds from the call of `daba.solve` until F
is at a target, with kernels that were compiled before.

Each process solves four times; of many processes the best time counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from report import machine_words, say, table, warn_if_busy

PROCESS = """
import json, sys, time
import daba

path, target, error = sys.argv[1], float(sys.argv[2]), sys.argv[3]
problem = daba.load(path, intrinsics="standard" if error == "pixel" else "paper")
times = []
for _ in range(4):
    wall, cpu, reached = time.perf_counter(), time.process_time(), []

    def look(row):
        reached[:] = time.perf_counter() - wall, time.process_time() - cpu
        return row.objective <= target * problem.num_observations

    daba.solve(problem, method="lm", error=error, callback=look)
    times.append(list(reached))
print(json.dumps(times))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("problem", type=Path)
    parser.add_argument("target", type=float, help="F / K, as in the results against Ceres")
    parser.add_argument("--error", choices=("ray", "pixel"), default="ray")
    parser.add_argument("--repeat", type=int, default=10, help="processes")
    args = parser.parse_args()
    warn_if_busy()
    print(machine_words(os.cpu_count() or 1) + "\n")
    command = [sys.executable, "-c", PROCESS, str(args.problem), str(args.target), args.error]
    runs = [json.loads(_output(command)) for _ in range(args.repeat + 1)][1:]  # one compiles
    rows = []
    for name, solves in (("first", slice(0, 1)), ("later", slice(2, None))):
        found = [solve for run in runs for solve in run[solves]]
        wall, cpu = (min(column) for column in zip(*found, strict=True))
        rows.append([name, f"{1e3 * wall:.0f}", f"{1e3 * cpu:.0f}"])
    say(table(["solve of a process", "wall, ms", "CPU, ms"], rows))


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
