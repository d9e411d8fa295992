"""Ctrl-C and SIGTERM end a solve after the iteration at hand, with everything in order."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

REASONS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated (SIGTERM)"}


class Interrupt:
    """While it is entered, a first signal is remembered as a `reason`; a second ends at once."""

    def __init__(self) -> None:
        self.reason = ""
        self._before: dict[int, Any] = {}

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
        if self.reason:
            raise KeyboardInterrupt
        self.reason = REASONS[signal.Signals(number)]
