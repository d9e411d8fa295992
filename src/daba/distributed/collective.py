"""Writing one folder by all processes at once, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from daba.core.errors import DabaError
from daba.distributed.comm.base import Communicator


def write_together(
    comm: Communicator,
    begin: Callable[[], Path],
    write: Callable[[Path], dict[Any, Any]],
    finish: Callable[[Path, dict[Any, Any]], None],
    abandon: Callable[[Path], object],
) -> str:
    """Rank 0 begins a folder, every process writes its own part, and rank 0 finishes it with what
    all parts have said of themselves, or abandons it. Returns what went wrong, on every process.
    """

    def attempt(action: Callable[[], Any]) -> tuple[Any, str]:
        try:
            return action(), ""
        except DabaError as error:
            return None, str(error)

    folder, failure = comm.broadcast(attempt(begin) if comm.rank == 0 else None)
    if failure:
        return str(failure)
    parts = comm.collect(attempt(lambda: write(folder)))
    if comm.rank == 0:
        failure = next((text for _, text in parts if text), "")
        if not failure:
            every = {key: value for part, _ in parts for key, value in part.items()}
            _, failure = attempt(lambda: finish(folder, every))
        if failure:
            abandon(folder)
    return str(comm.broadcast(failure))
