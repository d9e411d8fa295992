"""Running one case."""

from __future__ import annotations

import time
from typing import Any

from daba.core.errors import DabaError
from daba.partition.partition import Partition
from daba.problem.problem import Problem
from daba.runtime.environment import environment, gpu
from daba.tools.bench.cases import FOOTPRINT, RADIUS, Case
from daba.tools.bench.folder import Folder
from daba.tools.bench.problems import BenchProblem
from daba.tools.bench.results import COLUMNS


class Bench:
    """Holds the problem at hand, and its partitions: all methods get the same."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.source: BenchProblem | None = None

    def take(self, source: BenchProblem) -> Problem:
        if self.source != source:
            from daba.io.formats import load

            self.problem, self.source = load(source.path), source
            self.partitions: dict[int, Partition] = {}
        return self.problem

    def partition(self, case: Case) -> Partition:
        if case.devices not in self.partitions:
            made = self.folder.partition(case.source, case.devices, self.problem)
            self.partitions[case.devices] = made
        return self.partitions[case.devices]

    def run(self, case: Case) -> dict[str, Any]:
        """What is written of a case: sizes, the machine, and what the method reports."""
        problem = self.take(case.source)
        began = time.perf_counter()
        record = {
            "sizes": {
                "cameras": problem.num_cameras,
                "points": problem.num_points,
                "observations": problem.num_observations,
            },
            "machine": environment() | gpu(case.backend),
            **self._run(case, problem),
        }
        return record | {"took": time.perf_counter() - began}

    def _run(self, case: Case, problem: Problem) -> dict[str, Any]:
        if case.method in ("ceres", "pycolmap") and not problem.plain:
            raise DabaError(
                f"{case.method} is compared on observations alone, and {problem.name} has fixed "
                "parameters, shared intrinsics or priors"
            )
        if case.method == "ceres":
            from daba.tools.bench.ceres import run_ceres

            return run_ceres(case, problem)
        if case.method == "pycolmap":
            from daba.tools.bench.colmap import run_colmap

            return run_colmap(case, problem)
        if case.method == FOOTPRINT:
            from daba.tools.bench.footprint import footprint

            return {"footprint": footprint(problem, self.partition(case))}
        return self.solve(case, problem)

    def solve(self, case: Case, problem: Problem) -> dict[str, Any]:
        """Solve with no tolerance, so that every method makes all its iterations; the partition is
        made and kernels are compiled before the clock starts."""
        from daba.core.losses import make_loss
        from daba.runtime.observers import REASONS
        from daba.runtime.solve import solve

        partition = None if case.devices == 1 else self.partition(case)
        same: Any = {"partition": partition, "loss": make_loss(case.loss, RADIUS), **case.options}
        if case.backend == "gpu":
            solve(problem, iterations=3, **same)  # compile, for a problem of this size
        result = solve(
            problem,
            iterations=case.iterations,
            threads=case.threads,
            max_seconds=case.max_seconds,
            function_tolerance=0.0,
            **same,
        )
        if result.reason in REASONS.values():
            raise KeyboardInterrupt  # what was reached is not the result of the case
        history: dict[str, Any] = {
            name: [getattr(row, name) for row in result.history] for name in COLUMNS
        }
        return {
            "histories": [{"name": result.linear_solver} | history],
            "reason": result.reason,
            "inter_share": result.inter_share,
            "pixels": result.pixel_error.rms,
            "median_pixels": result.pixel_error.median,
            "start_pixels": result.start_pixel_error.rms,
        }
