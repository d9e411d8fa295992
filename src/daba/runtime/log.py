"""The log of one process: what it did between two reports, one line each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from daba.io.files import PathLike, writing_folder
from daba.runtime.memory import peak_memory

if TYPE_CHECKING:
    from daba.distributed.comm.base import Traffic

HEAD = "time iteration F compute_s waiting_s exchange_s bytes_sent neighbours peak_MB"


@contextmanager
def open_log(folder: PathLike | None, rank: int) -> Iterator[TextIO | None]:
    """`rank-0003.log` in the folder, which is made if need be; None if no log is kept."""
    if folder is None:
        yield None
        return
    path = Path(folder) / f"rank-{rank:04d}.log"
    with writing_folder(path):
        path.parent.mkdir(exist_ok=True)
        out = open(path, "w", buffering=1)  # noqa: SIM115 - line by line: it is read when something went wrong
        print(HEAD, file=out)
    with out:
        yield out


def write_line(
    out: TextIO,
    iteration: int,
    F: float,
    neighbours: Sequence[int],
    traffic: Traffic,
    computing: float,
) -> None:
    """What this process did since the line before; F is that of its own devices."""
    sent = ",".join(f"{rank}:{count}" for rank, count in traffic.bytes.items()) or "-"
    print(
        time.strftime("%Y-%m-%dT%H:%M:%S"),
        iteration,
        f"{F:.9g}",
        f"{computing:.6f} {traffic.waiting:.6f} {traffic.exchanging:.6f}",
        sent,
        ",".join(map(str, neighbours)) or "-",
        f"{peak_memory() / 1e6:.1f}",
        file=out,
    )
