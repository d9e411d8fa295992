"""Real problems: the numbers that the paper's authors' reading and Ceres give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import daba
from daba.backends.operations import Row
from daba.core.losses import make_loss
from daba.core.options import Options
from daba.distributed.shard import make_shard
from daba.partition.partition import make_partition
from daba.problem.problem import Problem
from daba.solver.make import cpu_solver
from helpers import EAGER, check_iteration

Real = Callable[[str], Problem]

START = {"ladybug-49": 2.022618, "trafalgar-21": 9.720695}
OPTIMUM = {"ladybug-49": 0.56470, "trafalgar-21": 0.88967}
SWEPT = {"ladybug-49": 0.5650, "trafalgar-21": 0.8900}


@pytest.mark.parametrize("name", START)
def test_start_is_read_as_the_authors_read_it(name: str, real: Real) -> None:
    problem = real(name)
    assert problem.objective() / problem.num_observations == pytest.approx(START[name], abs=1e-6)


@pytest.mark.parametrize("name", OPTIMUM)
def test_levenberg_marquardt_reaches_the_optimum(name: str, real: Real) -> None:
    result = daba.solve(real(name), method="lm", iterations=40)
    assert result.mean_objective <= OPTIMUM[name]


@pytest.mark.parametrize("name", SWEPT)
def test_eight_devices_reach_it_in_a_hundred_iterations(name: str, real: Real) -> None:
    result = daba.solve(real(name), method="daba", devices=8, refine="sweep", iterations=100)
    assert result.mean_objective <= SWEPT[name]


@pytest.mark.parametrize("refine", ["none", "points", "sweep"])
@pytest.mark.parametrize(
    ("loss", "split", "strict"),
    [("trivial", 0.5, False), ("huber", 0.3, True), ("welsch", 0.8, True)],
)
def test_lemma_1_holds_on_ladybug(
    loss: str, split: float, strict: bool, refine: str, real: Real
) -> None:
    problem = real("ladybug-49")
    options = Options(
        method="daba",
        devices=8,
        refine=refine,  # type: ignore[arg-type]
        split=split,
        loss=make_loss(loss, 5.0),
        **(EAGER if strict else {}),
    )
    solver = cpu_solver(make_shard(problem, make_partition(problem, 8)), options)
    first = float(solver.row(Row.F_BAR).sum())
    restarts = sum(check_iteration(solver, first) for _ in range(30))
    if strict:
        assert restarts > 0
