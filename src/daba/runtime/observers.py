"""What looks on while a solve runs: log, recording, callback and checkpoints are observers.

None of them may cost the result: one that fails is switched off, with a warning, and the solve
goes on.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daba.core.errors import DabaError, DabaWarning

if TYPE_CHECKING:
    from daba.runtime.loop import Loop
    from daba.runtime.result import Iteration

Callback = Callable[["Iteration"], Any]


class Observer:
    """Is called at every report of a loop. A solve may take several loops, one after the other."""

    what = "an observer"
    """What it is, for warnings."""
    collective = False
    """Whether it communicates, so that all processes have to call it, and none may leave alone."""

    def begin(self, loop: Loop) -> None:
        """A loop begins; its first report follows."""

    def report(self, loop: Loop) -> bool | None:
        """`loop.history` has a new entry. True asks the solve to stop."""

    def end(self, loop: Loop) -> None:
        """There is a reason to stop."""


class CallbackObserver(Observer):
    """Calls a function of the user with each entry of the history."""

    what = "the callback"

    def __init__(self, callback: Callback) -> None:
        self.callback = callback

    def report(self, loop: Loop) -> bool:
        return self.callback(loop.history[-1]) is True


class Observers:
    """Calls each observer in turn, and drops those that fail."""

    def __init__(self, observers: Iterable[Observer | None]) -> None:
        self.active = [observer for observer in observers if observer is not None]

    def begin(self, loop: Loop) -> None:
        self._call(loop, lambda observer: observer.begin(loop))

    def report(self, loop: Loop) -> bool:
        """Whether any of them asks to stop."""
        return self._call(loop, lambda observer: observer.report(loop))

    def end(self, loop: Loop) -> None:
        self._call(loop, lambda observer: observer.end(loop))

    def _call(self, loop: Loop, hook: Callable[[Observer], bool | None]) -> bool:
        requested = False
        for observer in tuple(self.active):
            try:
                requested |= hook(observer) is True
            except Exception as error:
                if observer.collective and loop.comm.size > 1:
                    raise  # the other processes wait for this one inside the same observer
                self.active.remove(observer)
                warn_switched_off(observer.what, error)
        return requested


def warn_switched_off(what: str, error: Exception) -> None:
    """Say why `what` is not called any more."""
    why = (isinstance(error, OSError) and error.strerror) or str(error)
    if not isinstance(error, (DabaError, OSError)):  # a mistake in code: say which, and where
        frame = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} ({Path(frame.filename).name}, line {frame.lineno})"
    text = f"{what} failed and is switched off, the solve goes on: {why}"
    warnings.warn(text, DabaWarning, stacklevel=2)
