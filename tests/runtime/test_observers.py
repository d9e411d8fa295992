"""Log, recording and callback look on: whatever happens to them, the result is the same."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from climbing import climb

import daba
from daba.problem.problem import Problem
from daba.runtime.log import HEAD
from daba.runtime.loop import Loop

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def problem() -> Problem:
    return daba.generate(daba.SceneOptions(scene="orbit", cameras=8, points=120, seed=2)).start


def objectives(result: daba.Result) -> list[float]:
    return [entry.objective for entry in result.history]


def test_a_log_on_a_full_disk(problem: Problem, tmp_path: Path) -> None:
    """/dev/full takes no byte, as a disk that has filled up meanwhile."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    (tmp_path / "rank-0000.log").symlink_to("/dev/full")
    words = "the log failed and is switched off, the solve goes on: No space left on device"
    with pytest.warns(daba.DabaWarning, match=words) as warned:
        result = daba.solve(problem, iterations=3, log=tmp_path)
    assert len(warned) == 1
    assert objectives(result) == objectives(daba.solve(problem, iterations=3))


def test_a_log_that_cannot_be_is_refused(problem: Problem, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(daba.DabaError, match="it is a file, and a log needs a folder"):
        daba.solve(problem, iterations=3, log=tmp_path / "a")
    with pytest.raises(daba.DabaError, match="a is a file, not a folder"):
        daba.solve(problem, iterations=3, log=tmp_path / "a" / "c")


def test_one_log_of_a_solve_that_goes_on(problem: Problem, tmp_path: Path) -> None:
    """Outliers are dropped and the solve goes on: iterations are counted on, in the log, too."""
    result = daba.solve(problem, iterations=3, filter=1.0, log=tmp_path)
    assert result.dropped is not None
    assert result.dropped.observations > 0
    head, *lines = (tmp_path / "rank-0000.log").read_text().splitlines()
    assert head == HEAD
    assert [int(line.split()[1]) for line in lines] == [0, 1, 2, 3, 3, 4, 5, 6]
    assert [entry.iteration for entry in result.history] == list(range(7))
    F = [float(line.split()[2]) for line in lines]
    del F[4]  # where the second solve begins: other observations, and no entry of the history
    assert F == pytest.approx(objectives(result), rel=1e-8)


def test_a_callback_that_fails(problem: Problem) -> None:
    calls = []

    def fail(entry: daba.Iteration) -> None:
        calls.append(entry.iteration)
        if entry.iteration == 2:
            raise ZeroDivisionError("a mistake in a notebook")

    with pytest.warns(daba.DabaWarning, match=r"the callback failed .*a mistake in a notebook"):
        result = daba.solve(problem, iterations=4, callback=fail)
    assert calls == [0, 1, 2]
    assert objectives(result) == objectives(daba.solve(problem, iterations=4))


def test_a_callback_stays_switched_off_when_the_solve_goes_on(problem: Problem) -> None:
    calls = []

    def fail(entry: daba.Iteration) -> None:
        calls.append(entry.iteration)
        raise ValueError("never again")

    with pytest.warns(daba.DabaWarning, match="never again"):
        daba.solve(problem, iterations=2, filter=1.0, callback=fail)
    assert calls == [0]


def test_a_keyboard_interrupt_is_no_failure(problem: Problem) -> None:
    def interrupt(entry: daba.Iteration) -> None:
        if entry.iteration == 1:
            raise KeyboardInterrupt

    result = daba.solve(problem, iterations=4, filter=1.0, callback=interrupt)
    assert result.reason == "interrupted"
    assert result.history[-1].iteration == 1
    assert result.dropped is None


def test_the_limit_named_is_the_users(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of the time is left when a solve goes on without outliers."""
    clock = iter(range(10**6))
    monkeypatch.setattr("daba.runtime.runs.Runs.clock", lambda _: float(next(clock)))
    result = daba.solve(problem, filter=1.0, iterations=8, max_seconds=11.0, function_tolerance=0)
    assert result.dropped is not None
    assert result.reason == "reached the time limit of 11 s"
    assert result.history[-1].seconds == 11.0
    assert result.history[-1].iteration == 10


def test_recordings_are_refused_at_the_start(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    with pytest.raises(daba.DabaError, match=r"cannot write .*film: permission denied"):
        daba.Recorder(tmp_path / "film")


def test_odd_colours_do_not_end_the_solve(problem: Problem, tmp_path: Path) -> None:
    recorder = daba.Recorder(tmp_path / "film", info={"colors": [[1, 2, 3]]})
    with pytest.warns(daba.DabaWarning, match="the recording failed .*IndexError"):
        result = daba.solve(problem, iterations=2, recorder=recorder)
    assert result.history[-1].iteration == 2


def test_a_climb_is_told_once_and_the_solve_goes_on(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run returns its start, the one without outliers begins there."""
    monkeypatch.setattr(Loop, "advance", climb)
    result = daba.solve(problem, method="daba", devices=2, iterations=3, filter=5.0)
    assert [entry.iteration for entry in result.history[:5]] == [0, 1, 2, 3, 3]
    assert result.history[4].objective == result.history[0].objective


def test_a_filter_that_would_leave_nothing_does_not_cost_the_result(problem: Problem) -> None:
    result = daba.solve(problem, iterations=2, filter=1e-9)
    assert result.dropped is None
    assert result.objective < result.history[0].objective
    [note] = result.notes
    assert note.startswith("nothing was filtered: every observation has a pixel error above 1e-09")


def test_the_time_limit_that_is_told_is_the_one_that_was_set(problem: Problem) -> None:
    """It counts for all runs of a solve together."""
    result = daba.solve(problem, max_seconds=1e-3, filter=20.0)
    assert result.dropped is not None
    assert result.reason == "reached the time limit of 0.001 s"


def test_what_each_process_did_adds_up_over_runs(problem: Problem) -> None:
    result = daba.solve(problem, iterations=3, filter=1.0)
    [rank] = result.ranks
    total = sum(entry.compute_seconds for entry in result.history)
    assert rank.compute_seconds == pytest.approx(total, rel=1e-9)


def test_signals_between_two_runs_are_remembered(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while outliers are looked for: what was reached is returned, not lost."""
    import signal

    from daba.runtime import corrections

    filter_outliers = corrections.filter_outliers

    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return filter_outliers(*arguments)

    monkeypatch.setattr(corrections, "filter_outliers", interrupted)
    result = daba.solve(problem, iterations=3, filter=1.0)
    assert result.reason == "interrupted"
    assert result.history[-1].iteration == 3
    assert result.dropped is not None


def test_the_source_is_what_was_given(problem: Problem) -> None:
    behind = problem.points.copy()
    behind[0] = 3 * problem.centers[0] - 2 * behind[0]
    given = replace(problem, points=behind)
    result = daba.solve(given, iterations=3, points_in_front=True, filter=20.0)
    assert result.source is given
    assert result.corrected == 1
