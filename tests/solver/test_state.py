"""`--check` finds what is wrong and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import daba
from daba.backends.operations import Row
from daba.problem.problem import Problem
from daba.solver.algorithm import Algorithm1

pytestmark = pytest.mark.usefixtures("compiled")


def scene(noise: float = 0.5) -> Problem:
    options = daba.SceneOptions(scene="orbit", cameras=6, points=60, noise=noise, seed=3)
    return daba.generate(options).start


@pytest.mark.parametrize(
    "options", [{}, {"refine": "none"}, {"method": "duba"}, {"method": "lm"}], ids=str
)
def test_no_alarm_without_noise(options: dict[str, Any]) -> None:
    """F falls to nothing, and what was rounded when it was large is larger than what is left."""
    usual: dict[str, Any] = {"method": "daba", "devices": 2, "iterations": 120, "threads": 1}
    given = usual | {"function_tolerance": 0.0} | options
    result = daba.solve(scene(noise=0.0), check=True, **given)
    assert result.objective < 1e-3 * result.history[0].objective


def raised(row: Row, share: float) -> Any:
    """An iteration after which one number of the first device is too large by a share of F."""
    iterate = Algorithm1.iterate

    def wrong(self: Algorithm1) -> None:
        iterate(self)
        table = self.operations.read().copy()
        table[row, 0] += share * self.objective
        self.operations.write(table)

    return wrong


@pytest.mark.parametrize(
    ("row", "words"), [(Row.F, "ΣF"), (Row.F_BAR, "never rises"), (Row.E, "E^α ≤ F̄^α")]
)
def test_an_alarm_where_a_number_is_wrong(
    row: Row, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smallest error that is no rounding is seen, at the start and much later."""
    share = {Row.F: 1e-7, Row.F_BAR: 1e6, Row.E: 1e6}[row]
    for quiet in (0, 60):
        problem = scene()
        if quiet:
            problem = daba.solve(
                problem, method="daba", devices=2, iterations=quiet, threads=1
            ).problem
        with monkeypatch.context() as patch:
            patch.setattr(Algorithm1, "iterate", raised(row, share))
            with pytest.raises(daba.DabaError, match="a guarantee of the method failed") as caught:
                daba.solve(problem, method="daba", devices=2, iterations=5, check=True, threads=1)
        assert words in str(caught.value)


def test_a_resumed_solve_knows_what_it_may_carry(tmp_path: Any) -> None:
    problem = scene(noise=0.0)
    given: dict[str, Any] = {
        "method": "daba", "devices": 2, "function_tolerance": 0.0, "threads": 1,
    }  # fmt: skip
    saved = daba.Checkpoints(tmp_path / "saved")
    first = daba.solve(problem, iterations=100, checkpoints=saved, **given)
    resumed = daba.Checkpoints(resume=tmp_path / "saved")
    result = daba.solve(problem, iterations=130, check=True, checkpoints=resumed, **given)
    assert result.objective < first.objective
    assert np.isfinite(result.objective)
