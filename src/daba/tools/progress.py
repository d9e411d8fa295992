"""A line that tells how a solve is going."""

from __future__ import annotations

import time
from types import TracebackType

from daba.runtime.result import Iteration
from daba.tools.cli.console import CYAN, GREY, Console, styled

LIVE = 0.12
"""Seconds between two updates on a terminal; an update takes about half a millisecond."""
PLAIN = 3.0
"""Seconds between two lines in a file or pipe."""
BAR = 24
"""Characters of the bar."""


class Progress:
    """A callback of `daba.solve` that keeps one line up to date, or prints one now and then.

        with Progress(console, total) as progress:
            daba.solve(problem, callback=progress)

    Without a console it does nothing.
    """

    def __init__(
        self, console: Console | None, total: int, max_seconds: float | None = None
    ) -> None:
        self.console, self.total, self.max_seconds = console, total, max_seconds
        self.live = console is not None and console.is_terminal
        self.restarts = 0
        self.first: Iteration | None = None
        self.last: Iteration | None = None
        self.due = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if self.last is not None and self.console is not None and kind is None:
            self._show(self.last)
            if self.live:
                self.console.say()

    def __call__(self, iteration: Iteration) -> None:
        self.restarts += iteration.restarts
        self.last = iteration
        if self.first is None:
            self.first = iteration
        now = time.perf_counter()
        if self.console is not None and now >= self.due:
            self.due = now + (LIVE if self.live else PLAIN)
            self._show(iteration)

    def _show(self, iteration: Iteration) -> None:
        assert self.console is not None
        text = self.line(iteration)
        try:
            if not self.live:
                self.console.say(text)
                return
            done = round(BAR * self.share(iteration))
            # the last column stays free, or the terminal would wrap and the line would pile up
            room = max(self.console.width - 1 - BAR, 0)
            cut = text if len(text) < room else f"{text[: max(room - 2, 0)]}…"
            bar = styled("━" * done, CYAN, True) + styled("━" * (BAR - done), GREY, True)
            self.console.rewrite(f"{bar} {cut:<{room - 1}}")
        except (BrokenPipeError, OSError):
            self.console = None  # nobody watches any more; the solve goes on and is written

    def share(self, iteration: Iteration) -> float:
        """How much of the iterations, or of the time, is used up."""
        shares = [iteration.iteration / self.total if self.total else 1.0]
        if self.max_seconds:
            shares.append(iteration.seconds / self.max_seconds)
        return min(1.0, max(shares))

    def line(self, iteration: Iteration) -> str:
        """What the line says."""
        more = iteration.iteration > self.total  # it goes on after a filter
        words = [
            str(iteration.iteration) if more else f"{iteration.iteration}/{self.total}",
            f"cost {iteration.mean_objective:.6g}",
            f"≈ {iteration.rms_pixels:.4g} px",
        ]
        if self.restarts:
            words.append(f"{self.restarts} restarts")
        words.append(clock(iteration.seconds))
        left = self.seconds_left(iteration)
        if left is not None:
            words.append(f"at most {clock(left)} left")
        return "  ".join(words)

    def seconds_left(self, iteration: Iteration) -> float | None:
        """Seconds left at the mean speed so far; None while they cannot be estimated."""
        remaining = self.total - iteration.iteration
        if self.first is None or iteration.iteration == 0 or remaining <= 0:
            return None
        spent = iteration.seconds - self.first.seconds
        left = remaining * spent / iteration.iteration
        if self.max_seconds is not None:
            left = min(left, max(0.0, self.max_seconds - iteration.seconds))
        return left


def clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
