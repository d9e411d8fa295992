"""What the checks of a store take of loading it: loaded with them and without, in turns."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import daba
from daba.io.store import store, whole
from daba.problem import problem
from report import machine_words, say, table, warn_if_busy

LOOK = [(store, "check_indices")]
NUMBERS = [(store, "check_numbers"), (store, "check_distinct"), (whole, "beside_centers")]
LEFT_OUT: dict[str, list[tuple[Any, str]]] = {
    "nothing": [],
    "indices": LOOK,
    "all checks": [*LOOK, *NUMBERS, (problem, "check_problem")],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--repeat", type=int, default=40)
    args = parser.parse_args()
    warn_if_busy()
    print(machine_words(os.cpu_count() or 1) + "\n")
    names = list(LEFT_OUT)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for turn in range(args.repeat):
        for name in names[turn % 3 :] + names[: turn % 3]:
            times[name].append(load(args.store, LEFT_OUT[name]))
    rows = []
    for name in names:
        row = [name]
        for clock in range(2):
            own, full = ([t[clock] for t in times[which]] for which in (name, "nothing"))
            row += [
                f"{1e3 * best(own):.0f} ms, {best(full) / best(own) - 1:.1%}"
                for best in (min, statistics.median)
            ]
        rows.append(row)
    say(table(["left out", "CPU, best", "CPU, median", "wall, best", "wall, median"], rows))


def load(path: Path, left_out: list[tuple[Any, str]]) -> tuple[float, float]:
    """CPU seconds of all threads, and seconds by the clock."""
    with ExitStack() as stack:
        for module, name in left_out:
            stack.enter_context(patch.object(module, name, lambda *_: None))
        cpu, wall = time.process_time(), time.perf_counter()
        daba.load(path)
        return time.process_time() - cpu, time.perf_counter() - wall


if __name__ == "__main__":
    main()
