"""What reaches a running solve from outside: observers look on, and signals end it.

Log, recording, callback and checkpoints are observers. None of them may cost the result: one that
fails is switched off, with a warning, and the solve goes on.

After a signal a solve ends with the iteration at hand, outputs are written to their end, and any
other work is given up with nothing left behind. mpiexec passes SIGUSR1 on, whereas it kills all
processes a quarter of a second after SIGTERM.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from daba.core.errors import DabaError, DabaWarning

if TYPE_CHECKING:
    from daba.runtime.loop import Loop
    from daba.runtime.result import Iteration

Callback = Callable[["Iteration"], Any]
Handler = Callable[[int, FrameType | None], None]
REASONS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated (SIGTERM)",
    signal.SIGUSR1: "asked to stop (SIGUSR1)",
}


SOON = 0.01
"""Seconds after which a signal comes again that came while a module was imported."""


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
        import traceback

        frame = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} ({Path(frame.filename).name}, line {frame.lineno})"
    text = f"{what} failed and is switched off, the solve goes on: {why}"
    warnings.warn(text, DabaWarning, stacklevel=2)


class Terminated(BaseException):
    """A signal that would end the process: like Ctrl-C, it lets everyone clean up."""

    def __init__(self, number: int) -> None:
        super().__init__(f"terminated ({signal.Signals(number).name})")
        self.number = number


@contextmanager
def unwinding() -> Iterator[None]:
    """While it is entered, SIGTERM and SIGHUP raise `Terminated`, once, and Ctrl-C as ever
    `KeyboardInterrupt`: temporary files go."""
    before = _handled((signal.SIGTERM, signal.SIGHUP, signal.SIGINT), _unwind)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handled(numbers: Iterable[int], handler: Handler) -> dict[int, Any]:
    """Set a handler, and return those before it. A signal that whoever started us has told to be
    ignored, as nohup does, stays ignored; and only the main thread has handlers."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    taken = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in taken}


def _unwind(number: int, frame: FrameType | None) -> None:
    if _importing(frame):
        threading.Timer(SOON, os.kill, (os.getpid(), number)).start()
        return
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    for other in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, _ignore)  # one is enough: cleaning up has begun
    raise Terminated(number)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Python complains on stderr of a signal that is on its way when SIG_IGN is set."""


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: in the middle of it, Python may drop an exception."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class Interrupt:
    """While it is entered, a first signal is remembered as a `reason`; a Ctrl-C after it raises at
    once. Launchers and schedulers may send the other signals more than once."""

    def __init__(self, patient: bool = True) -> None:
        """patient   whether the first signal may wait already, or only from `wait` on"""
        self.number = 0
        self.patient = patient

    @property
    def reason(self) -> str:
        return REASONS[signal.Signals(self.number)] if self.number else ""

    def wait(self) -> None:
        """From now on there is something to lose: remember signals."""
        self.patient = True

    def __enter__(self) -> Interrupt:
        self._before = _handled(REASONS, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if not self.patient or (number == signal.SIGINT and self.number):
            _unwind(number, frame)
        else:
            self.number = self.number or number
