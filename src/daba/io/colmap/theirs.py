"""pycolmap, where it is needed: databases, other kinds of files, models in memory."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from daba.core.errors import DabaError


def pycolmap() -> Any:
    """The module, or an error that says how to get it."""
    try:
        if "pycolmap" not in sys.modules:
            with _terminated_as_before():
                import pycolmap
        import pycolmap
    except ImportError as error:
        raise DabaError(
            "this needs pycolmap, which is not installed: pip install 'daba[colmap]'"
        ) from error
    return pycolmap


@contextmanager
def _terminated_as_before() -> Iterator[None]:
    """The logging that pycolmap brings takes SIGTERM for itself when it is imported, and would end
    the process with half of what is being written left behind."""
    mine = threading.current_thread() is threading.main_thread()
    if not mine or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        if (handler := signal.getsignal(signal.SIGTERM)) is not None:
            signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
