"""F / K that each method reaches on real problems; prints a Markdown table row by row.

    python benchmarks/accuracy.py [FILES] [--data DIR]

Rows: LM on one device (60 iterations), DABA as in the paper (4 and 8 devices, 1000 iterations),
DABA with points and with sweep refinement (8 devices, 100 iterations).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import daba
from report import say

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
RUNS: dict[str, dict[str, Any]] = {
    "lm": {"iterations": 60},
    "none, 4": {"devices": 4, "refine": "none", "iterations": 1000},
    "none, 8": {"devices": 8, "refine": "none", "iterations": 1000},
    "points, 8": {"devices": 8, "refine": "points", "iterations": 100},
    "sweep, 8": {"devices": 8, "refine": "sweep", "iterations": 100},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with BAL files")
    parser.add_argument("--loss", default="trivial", help="robust loss, radius 32 px")
    arguments = parser.parse_args()
    files = arguments.files or sorted(
        arguments.data.glob("*.txt.bz2"), key=lambda f: f.stat().st_size
    )
    if not files:
        raise SystemExit(f"no problems given, and none in {arguments.data}")
    loss = daba.make_loss(arguments.loss)
    say("| problem | start | " + " | ".join(RUNS) + " |")
    say("|---|---|" + "---|" * len(RUNS))
    for file in files:
        problem = daba.load(file)
        cells = [f"{problem.objective(loss) / problem.num_observations:.6f}"]
        for run in RUNS.values():
            result = daba.solve(problem, loss=loss, function_tolerance=0.0, **run)
            each = 1e3 * result.seconds / max(1, result.history[-1].iteration)
            cells.append(f"{result.mean_objective:.6f} ({each:.1f} ms/it.)")
        say(f"| {problem.name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
