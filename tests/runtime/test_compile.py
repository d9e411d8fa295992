"""What a solve needs is compiled before it, not in it, and nothing else."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

import daba
from daba.backends.cpu import cache, compiler
from daba.core.lm import Kind
from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import make_shard
from daba.runtime.compile import jobs_for, lm_jobs
from daba.solver.make import make_linear_solver
from helpers import random_partition, random_problem


def test_nothing_is_left_to_compile(compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also under constraints, and by the methods that daba is compared with."""
    random = random_problem(0, cameras=6, points=30)
    problem = daba.Problem.from_arrays(
        random.rotations, random.centers, random.points, random.camera_index,
        random.point_index, random.pixels, 500.0,
    )  # fmt: skip
    constrained = daba.constrain(problem, fix=("gauge",), share_intrinsics="all")

    def no_worker(jobs: list[cache.Job], count: int = 1) -> list[str]:
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
    assert {"objective", "evaluate"} <= duba
    assert duba.isdisjoint({"mark_pairs", "extrapolate_points", "refine_points"})
    paper = names(devices=2, refine="none", linear_solver="direct")
    assert paper - duba >= {"mark_pairs", "count_pairs", "extrapolate_points"}
    assert duba <= paper
    assert paper.isdisjoint({"refine_points", "refine_cameras", "reset_momentum"})
    assert names(devices=2, refine="sweep", linear_solver="direct") - paper == {
        "refine_points", "refine_cameras", "reset_momentum", "slack_by_point"
    }  # fmt: skip
    more = names(devices=2, refine="none", linear_solver="direct", constrained=True) - paper
    assert more == {"product", "intrinsics_systems"}


def test_what_knows_no_error_is_compiled_once_for_all_of_the_same_sizes() -> None:
    """Rays with three coefficients, and two camera models with as many parameters of their own."""
    kinds = [Kind("ray", own=3)]
    kinds += [
        Kind("pixel", (name,), (refined,), own=3)
        for name, refined in (("RADIAL", (0, 3, 4)), ("SIMPLE_PINHOLE", (0, 1, 2)))
    ]
    jobs = [set(lm_jobs(kind, coarse=True)) for kind in kinds]
    own = {"linearize", "objective", "second_order", "settle_points", "visible"}
    for one, other in combinations(jobs, 2):
        assert {job.arguments[0][1] for job in one ^ other} == own
        assert {job.arguments[0][1] for job in one & other}.isdisjoint(own)
    wider = set(lm_jobs(Kind("ray", own=3, shared=1), coarse=True))
    assert {job.arguments[0][1] for job in wider & jobs[0]} == {"factor"}


@pytest.mark.parametrize(
    ("linear", "needed"),
    [
        ("direct", {"factor", "form", "substitute"}),
        ("pcg", {"solve", "schur_diagonal", "factor_blocks"}),
    ],
)
def test_only_the_linear_solver_that_is_chosen_is_compiled(
    compiled: None, monkeypatch: pytest.MonkeyPatch, linear: Any, needed: set[str]
) -> None:
    problem = random_problem(0, cameras=6, points=30)
    shard = make_shard(problem, random_partition(problem, 2))
    asked: list[cache.Job] = []
    monkeypatch.setattr(cache, "compile_jobs", lambda jobs, tell: asked.extend(jobs))
    make_linear_solver(shard, Options(method="daba", linear_solver=linear), Communicator())
    assert {job.arguments[0][1] for job in asked} == needed
