"""What one process does for all, or all do together, so that a failure reaches everyone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from daba.core.errors import DabaError
from daba.distributed.comm.base import Communicator

T = TypeVar("T")


def on_first(comm: Communicator, act: Callable[[], T]) -> T | None:
    """What rank 0 makes, on rank 0, and None elsewhere; its `DabaError` is raised on all."""
    made, failure = _attempt(act) if comm.rank == 0 else (None, "")
    if failure := comm.broadcast(failure):
        raise DabaError(failure)
    return made


def write_collectively(
    comm: Communicator,
    begin: Callable[[], Path],
    write: Callable[[Path], dict[Any, Any]],
    finish: Callable[[Path, dict[Any, Any]], None],
) -> None:
    """Rank 0 begins a folder, every process writes its own part, and rank 0 finishes it with what
    all parts have said of themselves, or removes it; a `DabaError` of any is raised on all."""
    from daba.io.folders import abandon_folder

    folder = comm.broadcast(on_first(comm, begin))
    try:
        parts = comm.collect(_attempt(lambda: write(folder)))

        def conclude() -> None:
            try:
                if failure := next((text for _, text in parts if text), ""):
                    raise DabaError(failure)
                finish(folder, {key: value for part, _ in parts for key, value in part.items()})
            finally:
                abandon_folder(folder)  # unless it has its name

        on_first(comm, conclude)
    except BaseException:  # a signal, which ends the others, too
        abandon_folder(folder)
        raise


def _attempt(act: Callable[[], T]) -> tuple[T | None, str]:
    """What was made, and what went wrong."""
    try:
        return act(), ""
    except DabaError as error:
        return None, str(error)
