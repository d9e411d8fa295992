"""The run loop on its own, with a solver whose F is given: when it reports, when it stops and why,
and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from climbing import climb

import daba
from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import State
from daba.runtime.loop import Loop, LoopProgress, Outcome
from daba.runtime.observers import Interrupt, Observer, Observers
from daba.solver.interface import Counts, DeviceObjective, Solver
from helpers import random_problem, shard_of

SHARD = shard_of(random_problem(0), 2)


class Scripted(Solver):
    """F of each iteration as given; the last is repeated. The points are the iteration's number."""

    def __init__(self, F: Sequence[float], options: Options, still: int = 10**9) -> None:
        self.shard, self.options, self.comm = SHARD, options, Communicator()
        self.exchange = self.comm.exchange(self.shard)
        self.F, self.k, self.still = F, 0, still
        self.counts, self.moved = Counts(), True

    def iterate(self) -> None:
        self.k += 1
        self.moved = self.k <= self.still
        self.counts = Counts(restarts=1, pcg_iterations=self.k, lm_retries=2, lm_steps=3)

    @property
    def estimate(self) -> State:
        x = self.shard.state()
        return x._replace(points=np.full_like(x.points, self.k))

    def device_objective(self) -> DeviceObjective:
        F = self.F[min(self.k, len(self.F) - 1)]
        return DeviceObjective(np.array([0.25 * F, 0.75 * F]), np.ones(2), np.zeros(2))

    @property
    def linear_solver(self) -> str:
        return "none"

    def gradient_norm(self) -> float:
        return 1.0 / (1 + self.k)

    def check(self) -> None:
        pass

    def device_states(self) -> dict[int, dict[str, np.ndarray]]:
        return {}

    def common_state(self) -> dict[str, Any]:
        return {}

    def put_back(self, states: dict[int, dict[str, np.ndarray]], common: dict[str, Any]) -> None:
        pass


def run(F: Sequence[float], *watch: Observer, still: int = 10**9, **options: Any) -> Outcome:
    chosen = Options(devices=2, **options)
    solver = Scripted(F, chosen, still)
    return Loop(solver, {}, Observers(watch), Interrupt(), lambda: 0.5).run()


FALLING = [2.0**-k for k in range(50)]


def test_reports_add_up_what_happened_since_the_one_before() -> None:
    history = run(FALLING, iterations=7, report_every=3).history
    assert [entry.iteration for entry in history] == [0, 3, 6, 7]
    assert [entry.objective for entry in history] == [FALLING[k] for k in (0, 3, 6, 7)]
    assert [entry.pcg_iterations for entry in history] == [0, 1 + 2 + 3, 4 + 5 + 6, 7]
    assert [entry.restarts for entry in history] == [0, 3, 3, 1]
    assert [entry.lm_retries for entry in history] == [0, 6, 6, 2]
    assert [entry.lm_steps for entry in history] == [0, 9, 9, 3]


@pytest.mark.parametrize(
    ("F", "options", "iterations", "words"),
    [
        (FALLING, {"iterations": 4}, 4, "reached the limit of 4 iterations"),
        (FALLING, {"max_seconds": 0.5}, 0, "reached the time limit of 0.5 s"),
        (FALLING, {"gradient_tolerance": 0.25}, 3, "converged: largest gradient entry 2.5e-01"),
        ([4.0, 3.0, 2.0], {"patience": 2}, 4, "converged: F changed by 0.0e+00 over 2 iterations"),
        ([4.0, 0.0], {}, 1, "the objective is zero"),
    ],
)
def test_reasons(F: list[float], options: Any, iterations: int, words: str) -> None:
    outcome = run(F, **options)
    assert outcome.history[-1].iteration == iterations
    assert outcome.reason.startswith(words)
    assert outcome.converged == (not words.startswith("reached"))
    assert outcome.notes == []
    assert (outcome.estimate.points == iterations).all()


def test_two_iterations_without_a_step_are_enough() -> None:
    outcome = run([1.0], still=3, function_tolerance=0.0)
    assert outcome.history[-1].iteration == 5
    assert outcome.reason == "no step lowers the objective any further"


def test_a_broken_objective_ends_the_solve() -> None:
    with pytest.raises(daba.DabaError, match="not finite"):
        run([1.0, np.nan])


def test_counted_on_from_an_earlier_loop() -> None:
    """Limits, windows and reports are the loop's own; numbers go on."""
    options = Options(devices=2, iterations=7, report_every=3, patience=4)
    earlier = run(FALLING, iterations=5).history[-1]
    solver = Scripted([1.0], options)
    loop = Loop(solver, {}, Observers([]), Interrupt(), lambda: 9.0, earlier=earlier)
    outcome = loop.run()
    assert [entry.iteration for entry in outcome.history] == [5, 8, 11]
    assert "over 4 iterations" in outcome.reason


def test_resumed_where_it_was() -> None:
    before = run(FALLING, iterations=5)
    solver = Scripted(FALLING, Options(devices=2, iterations=8))
    solver.k = 5
    progress = LoopProgress(5, 0, 3.0, before.history)
    outcome = Loop(solver, {}, Observers([]), Interrupt(), lambda: 9.0, progress).run()
    assert [entry.iteration for entry in outcome.history] == list(range(9))
    assert outcome.history[:6] == before.history


def test_never_worse_than_the_start() -> None:
    """The start is returned, and the history's last entry is its."""
    outcome = run([1.0, 0.5, 3.0], iterations=2)
    np.testing.assert_array_equal(outcome.estimate.points, SHARD.start.points)
    assert [entry.objective for entry in outcome.history] == [1.0, 0.5, 3.0, 1.0]
    assert [entry.iteration for entry in outcome.history] == [0, 1, 2, 2]
    assert outcome.reason == "reached the limit of 2 iterations"
    assert outcome.notes == [
        "F had risen by 200 % when the solve ended; the start, which is better, is returned"
    ]


def test_a_solve_that_begins_at_its_solution_has_converged() -> None:
    """F rises in its last digit, and the start is as good a solution."""
    up = 1.0 + 1e-15
    outcome = run([1.0, up], patience=3)
    assert outcome.converged
    assert outcome.history[-1].objective == 1.0
    assert run([1.0, 2.0], patience=3).converged is False


class Listener(Observer):
    """Notes what it is told, and fails where asked to."""

    what = "the listener"

    def __init__(self, fails: str = "", collective: bool = False) -> None:
        self.heard: list[str] = []
        self.fails, self.collective = fails, collective

    def hear(self, text: str) -> None:
        self.heard.append(text)
        if text == self.fails:
            raise ZeroDivisionError("on purpose")

    def begin(self, loop: Loop) -> None:
        self.hear("begin")

    def report(self, loop: Loop) -> None:
        self.hear(f"report {loop.history[-1].iteration}")

    def end(self, loop: Loop) -> None:
        self.hear("end")


def test_observers_hear_of_every_report() -> None:
    listener = Listener()
    run(FALLING, listener, iterations=4, report_every=2)
    assert listener.heard == ["begin", "report 0", "report 2", "report 4", "end"]


@pytest.mark.parametrize("fails", ["begin", "report 0", "report 1", "end"])
def test_an_observer_that_fails_is_switched_off(fails: str) -> None:
    """It hears no more, others do, and the result is what it would have been."""
    bad, good = Listener(fails), Listener()
    where = r"ZeroDivisionError: on purpose \(test_loop\.py, line \d+\)"
    with pytest.warns(daba.DabaWarning, match=f"the listener failed and is switched off.*{where}"):
        outcome = run(FALLING, bad, good, iterations=2)
    assert bad.heard[-1] == fails
    assert good.heard == ["begin", "report 0", "report 1", "report 2", "end"]
    assert [entry.objective for entry in outcome.history] == FALLING[:3]


def test_where_others_wait_a_failure_ends_the_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """An observer that communicates cannot be left by one process alone."""
    monkeypatch.setattr(Communicator, "size", 2)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        run(FALLING, Listener("report 1", collective=True), iterations=2)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("method", ["daba", "duba", "admm", "dr"])
def test_a_real_solver_that_climbs(
    method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    problem = daba.generate(daba.SceneOptions(cameras=8, points=80, seed=3)).start
    monkeypatch.setattr(Loop, "advance", climb)
    folder = tmp_path / "saved"
    options = Options(method=method, devices=2, iterations=4)  # type: ignore[arg-type]
    result = daba.solve(problem, options, checkpoints=daba.Checkpoints(folder))
    assert result.history[-2].objective > 2 * result.history[0].objective
    assert result.objective == result.history[0].objective
    assert result.objective == pytest.approx(result.problem.objective(), rel=1e-12)
    np.testing.assert_array_equal(result.problem.points, problem.points)
    np.testing.assert_array_equal(result.problem.cameras, problem.cameras)
    assert "the start, which is better, is returned" in result.summary()
    # what is resumed is where it was, and the start is still known
    again = daba.solve(
        problem, replace(options, iterations=5), checkpoints=daba.Checkpoints(resume=folder)
    )
    assert again.history[: len(result.history) - 1] == result.history[:-1]
    assert again.history[-1].iteration == 5
    np.testing.assert_array_equal(again.problem.points, problem.points)
