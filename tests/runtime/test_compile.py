"""What a solve needs is compiled before it, not in it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

import daba
from daba.backends.cpu import compiler
from daba.core.options import Options
from daba.runtime.compile import jobs_for
from helpers import random_problem


def test_nothing_is_left_to_compile(compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also under constraints, and by the methods that daba is compared with."""
    random = random_problem(0, cameras=6, points=30)
    problem = daba.Problem.from_arrays(
        random.rotations, random.centers, random.points, random.camera_index,
        random.point_index, random.pixels, 500.0,
    )  # fmt: skip
    constrained = daba.constrain(problem, fix=("gauge",), share_intrinsics="all")

    def no_worker(jobs: list[compiler.Job], count: int = 1) -> list[str]:
        raise AssertionError(f"left to compile: {jobs}")

    monkeypatch.setattr(compiler, "run_in_workers", no_worker)
    methods: list[dict[str, Any]] = [
        {"method": "daba", "devices": 2}, {"method": "daba", "devices": 2, "refine": "none"},
    ]  # fmt: skip
    for linear in ("direct", "pcg"):
        for options in methods:
            for asked in (problem, constrained):
                daba.solve(asked, iterations=2, linear_solver=linear, **options)
        for method in ("admm", "dr"):
            options = {"devices": 2, "method": method}
            daba.solve(problem, iterations=2, linear_solver=linear, **options)


def names(constrained: bool = False, **options: Any) -> set[str]:
    jobs = jobs_for(Options(**{"method": "daba", **options}), constrained)
    assert len(set(jobs)) == len(jobs)
    return {job.arguments[0][1] for job in jobs}


def test_only_what_a_solve_needs_is_compiled() -> None:
    duba = names(method="duba", devices=2, refine="none", linear_solver="pcg")
    assert {"objective", "solve"} <= duba
    assert duba.isdisjoint({"factor", "extrapolate_points", "refine_points"})
    paper = names(devices=2, refine="none", linear_solver="direct")
    assert duba - paper == {"solve", "schur_diagonal", "factor_blocks"}
    assert {"factor", "evaluate", "extrapolate_points"} <= paper
    assert paper.isdisjoint({"refine_points", "refine_cameras", "reset_momentum"})
    assert names(devices=2, refine="sweep", linear_solver="direct") - paper == {
        "refine_points", "refine_cameras", "reset_momentum", "slack_by_point"
    }  # fmt: skip
    more = names(devices=2, refine="none", linear_solver="direct", constrained=True) - paper
    assert more == {"borders", "fix", "product", "intrinsics_systems"}
