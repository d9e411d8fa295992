"""What signals do: a solve ends after the iteration at hand, outputs are written to their end, and
any other work is given up with nothing left behind.

mpiexec passes SIGUSR1 on, whereas it kills all processes a quarter of a second after SIGTERM.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

REASONS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated (SIGTERM)",
    signal.SIGUSR1: "asked to stop (SIGUSR1)",
}


class Terminated(BaseException):
    """A signal that would end the process: like Ctrl-C, it lets everyone clean up."""

    def __init__(self, number: int) -> None:
        super().__init__(f"terminated ({signal.Signals(number).name})")
        self.number = number


@contextmanager
def unwinding() -> Iterator[None]:
    """While it is entered, SIGTERM and SIGHUP raise `Terminated`, once: temporary files go."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _unwind) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _unwind(number: int, _: FrameType | None) -> None:
    for other in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)  # one is enough: cleaning up has begun
    raise Terminated(number)


class Interrupt:
    """While it is entered, a first signal is remembered as a `reason`; a Ctrl-C after it raises at
    once. Launchers and schedulers may send the other signals more than once."""

    def __init__(self, patient: bool = True) -> None:
        """patient   whether the first signal may wait already, or only from `wait` on"""
        self.number = 0
        self.patient = patient
        self._before: dict[int, Any] = {}

    @property
    def reason(self) -> str:
        return REASONS[signal.Signals(self.number)] if self.number else ""

    def wait(self) -> None:
        """From now on there is something to lose: remember signals."""
        self.patient = True

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

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if not self.patient and number != signal.SIGINT:
            _unwind(number, frame)
        if number == signal.SIGINT and (self.number or not self.patient):
            raise KeyboardInterrupt
        self.number = self.number or number
