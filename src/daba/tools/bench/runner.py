"""Runs what is missing, one case after the other, and tells how it is going."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

from daba.core.errors import DabaError
from daba.tools.bench.cases import Case
from daba.tools.bench.execute import Bench
from daba.tools.bench.folder import Folder
from daba.tools.progress import clock


def missing(cases: Sequence[Case], folder: Folder, retry: bool = False) -> list[Case]:
    """Cases without a result; with `retry` also those that failed."""
    found = [(case, folder.read(case)) for case in cases]
    return [case for case, run in found if run is None or (retry and not run.done)]


def run_cases(
    cases: Sequence[Case], folder: Folder, quiet: bool = False, retry: bool = False
) -> None:
    """Run every case that has no result, and that no other process is at. One that fails leaves
    its error as its result."""
    wanted = missing(cases, folder, retry)
    line = Line(len(cases), [case.cost for case in wanted], quiet)
    if not wanted:
        return
    if any(case.options and case.backend == "cpu" for case in wanted):
        from daba.runtime.compile import compile_kernels

        compile_kernels()
        _warm()
    bench = Bench(folder)
    for case in wanted:
        with folder.claimed(case) as ours:
            if not ours or not missing([case], folder, retry):
                line.skip()  # another process is at it, or was in the meantime
                continue
            line.begin(case.label)
            try:
                data: dict[str, Any] = bench.run(case)
            except (DabaError, MemoryError) as error:
                data = {"error": str(error) or type(error).__name__}
            except KeyboardInterrupt:
                line.stop()
                raise
            except Exception as error:  # a bug, but the other runs should not suffer for it
                data = {"error": repr(error), "traceback": traceback.format_exc()}
            run = folder.write(case, data)
        line.end(run.error or (f"F/K {run.final:.6g}" if run.curves else "done"))


def _warm() -> None:
    """Load every kernel once, so that the first run is not slower than the others."""
    from daba.runtime.solve import solve
    from daba.tools.synthetic import SceneOptions, generate

    tiny = generate(SceneOptions(cameras=12, points=200)).start
    for options in ({"method": "lm"}, {"devices": 2}, {"devices": 2, "method": "admm"}):
        solve(tiny, iterations=2, **options)


class Line:
    """One line per run on stderr, with the time left at the speed so far."""

    def __init__(self, total: int, costs: Sequence[float], quiet: bool) -> None:
        self.total, self.costs, self.quiet = total, list(costs), quiet
        self.number = total - len(self.costs)
        self.begun = time.perf_counter()
        self.spent = self.paid = 0.0
        if not quiet:
            self._say(f"{self.number} of {total} results are there, {len(self.costs)} to run\n")

    def begin(self, label: str) -> None:
        self.number += 1
        left = f", about {clock(self.left())} left" if self.paid else ""
        self._say(f"[{self.number}/{self.total}{left}] {label} ... ")
        self.since = time.perf_counter()

    def end(self, words: str) -> None:
        took = time.perf_counter() - self.since
        self.spent += took
        self.paid += self.costs.pop(0)
        self._say(f"{words}, {clock(took)}\n")

    def skip(self) -> None:
        self.number += 1
        self.costs.pop(0)

    def stop(self) -> None:
        self._say(
            f"stopped\nthe same command goes on with the {len(self.costs)} that are missing\n"
        )

    def left(self) -> float:
        return self.spent * sum(self.costs) / self.paid

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, end="", file=sys.stderr, flush=True)
