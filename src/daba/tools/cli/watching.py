"""`daba solve --record` and `--view`: a solve that is recorded, or watched in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daba.io.store.store import Store
    from daba.problem.problem import Problem
    from daba.runtime.recording import Recorder
    from daba.tools.viewer.serve import LiveView


def make_recorder(
    record: Path | None, port: int | None, problem: Problem | Store | None, first: bool, quiet: bool
) -> Recorder | None:
    """None if nobody wants to see; every process takes part, and rank 0 writes and shows.

    port   where to show it, if at all
    """
    if record is None and port is None:
        return None
    from daba.runtime.recording import Recorder

    if not first:
        return Recorder()
    watchers: list[LiveView] = []
    if port is not None:
        from daba.tools.viewer.serve import LiveView

        watchers.append(LiveView(port=port, say=(lambda _: None) if quiet else print))
    return Recorder(record, watchers, {} if problem is None else problem.info)


def stay(recorder: Recorder | None, quiet: bool) -> None:
    """When the solve is over: keep its page until Ctrl-C."""
    for watcher in recorder.watchers if recorder is not None else ():
        view = getattr(watcher, "view", None)
        if view is not None:
            from daba.tools.viewer.serve import wait

            if not quiet:
                print("the page stays; Ctrl-C ends it", flush=True)
            wait()
            view.stop()
