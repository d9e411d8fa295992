"""The log of one process: what it did between two reports, one line each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from daba.distributed.comm.base import peak_memory
from daba.io.files import PathLike, folder_target
from daba.runtime.observers import Observer

if TYPE_CHECKING:
    from daba.runtime.loop import Loop

HEAD = "time iteration F compute_s waiting_s exchange_s bytes_sent neighbours peak_MB"


class Log(Observer):
    """`rank-0003.log` in a folder, which is made if need be. Each line is on the disk before the
    next iteration: a log is read when something went wrong."""

    what = "the log"

    def __init__(self, folder: PathLike, rank: int) -> None:
        self.path = folder_target(folder, "a log", in_place=True) / f"rank-{rank:04d}.log"
        self.begun = False

    def begin(self, loop: Loop) -> None:
        if not self.begun:  # or another loop of the same solve goes on
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(HEAD + "\n")
        self.begun = True

    def report(self, loop: Loop) -> None:
        with open(self.path, "a") as out:
            print(line(loop), file=out)


def line(loop: Loop) -> str:
    """What this process did since the line before; F is that of its own devices."""
    local = loop.local
    traffic = local.traffic
    sent = ",".join(f"{rank}:{count}" for rank, count in traffic.bytes.items()) or "-"
    neighbours = ",".join(map(str, loop.solver.exchange.neighbours)) or "-"
    return (
        f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {loop.iteration} {local.objective:.9g} "
        f"{local.computing:.6f} {traffic.waiting:.6f} {traffic.exchanging:.6f} "
        f"{sent} {neighbours} {peak_memory() / 1e6:.1f}"
    )
