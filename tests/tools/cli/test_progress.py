"""The line that tells how a solve is going."""

from __future__ import annotations

import io

import pytest

from daba.runtime.result import Iteration
from daba.tools import progress
from daba.tools.cli.console import Console, make_console
from daba.tools.progress import Progress


def iteration(n: int, seconds: float, restarts: int = 0) -> Iteration:
    return Iteration(n, seconds, 100.0 / (n + 1), 1.0 / (n + 1), 2.0, restarts=restarts)


def console(terminal: bool, width: int = 100) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file, terminal, width), file


def test_plain_lines_now_and_then() -> None:
    out, file = console(terminal=False)
    with Progress(out, 1000) as show:
        for n in range(1001):
            show(iteration(n, 0.5 + 0.01 * n, restarts=n == 7))
    lines = file.getvalue().splitlines()
    assert lines[0] == "0/1000  cost 1  ≈ 2 px  0.5 s"
    assert lines[-1] == "1000/1000  cost 0.000999001  ≈ 2 px  1 restarts  10.5 s"
    assert len(lines) == 2  # far less than three seconds have passed


def test_a_live_line_stays_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LIVE", 0.0)
    out, file = console(terminal=True, width=60)
    with Progress(out, 100) as show:
        for n in range(101):
            show(iteration(n, 30.0 * n))
    text = file.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert text.count("\r") > 100


def test_time_left() -> None:
    show = Progress(None, 100)
    show(iteration(0, 2.0))
    assert show.seconds_left(iteration(0, 2.0)) is None
    assert show.seconds_left(iteration(25, 12.0)) == pytest.approx(30.0)
    assert "at most 30.0 s left" in show.line(iteration(25, 12.0))
    assert show.seconds_left(iteration(100, 50.0)) is None
    hurried = Progress(None, 100, max_seconds=20.0)
    hurried(iteration(0, 2.0))
    assert hurried.seconds_left(iteration(25, 12.0)) == pytest.approx(8.0)
    assert hurried.share(iteration(25, 12.0)) == pytest.approx(0.6)


def test_clock() -> None:
    assert [progress.clock(s) for s in (0.04, 59.94, 61.0, 3725.0)] == [
        "0.0 s",
        "59.9 s",
        "1:01",
        "1:02:05",
    ]


def test_a_console_that_breaks_does_not_stop_the_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Broken())
    show = Progress(make_console(), 10)
    with show:
        for n in range(11):
            show(iteration(n, float(n)))
    assert show.last is not None
    assert show.last.iteration == 10
