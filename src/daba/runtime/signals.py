"""Ctrl-C, SIGTERM and SIGUSR1 end a solve after the iteration at hand, with everything in order.

mpiexec passes SIGUSR1 on, whereas it kills all processes a quarter of a second after SIGTERM.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

REASONS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated (SIGTERM)",
    signal.SIGUSR1: "asked to stop (SIGUSR1)",
}


class Interrupt:
    """While it is entered, a first signal is remembered as a `reason`; a Ctrl-C after it ends the
    solve at once. Launchers and schedulers may send the other signals more than once."""

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[int, Any] = {}

    @property
    def reason(self) -> str:
        return REASONS[signal.Signals(self.number)] if self.number else ""

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in REASONS:
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, _: FrameType | None) -> None:
        if self.number and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = self.number or number
