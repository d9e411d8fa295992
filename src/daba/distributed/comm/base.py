"""The communicator of a process on its own, which is also the interface of all others; and what one
process does for all, or all do together, so that a failure reaches everyone."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from daba.core.errors import DabaError
from daba.core.types import Floats
from daba.distributed.shard import Shard, State

T = TypeVar("T")
Blocks = Literal["cameras", "points", "both"]
STATUS = Path("/proc/self/status")


@dataclass
class Traffic:
    """What an exchange has cost this process since its traffic was last taken."""

    bytes: dict[int, int] = field(default_factory=dict)
    """Bytes sent to each neighbouring rank."""
    exchanging: float = 0.0
    """Seconds spent packing, sending and unpacking."""
    waiting: float = 0.0
    """Seconds spent waiting for neighbours."""

    @property
    def sent(self) -> int:
        return sum(self.bytes.values())

    def count(self, neighbours: Iterable[int], sizes: Iterable[int]) -> None:
        for neighbour, size in zip(neighbours, sizes, strict=True):
            self.bytes[neighbour] = self.bytes.get(neighbour, 0) + int(size)

    def add(self, other: Traffic) -> None:
        self.count(other.bytes.keys(), other.bytes.values())
        self.exchanging += other.exchanging
        self.waiting += other.waiting


class Exchange:
    """Sends what neighbours see and receives ghosts; a process on its own has neither."""

    neighbours: Sequence[int] = ()
    sent: dict[str, Sequence[Any]] = {}  # noqa: RUF012 - of a process on its own, and read only
    """Rows of its own variables that each neighbour sees, by block."""

    def __init__(self) -> None:
        self.traffic = Traffic()

    def start(self, x: State, blocks: Blocks) -> None:
        """Begin to send this process's boundary of x; x must not change before `finish`."""

    def finish(self, x: State) -> None:
        """Wait for the ghosts and put them into x."""

    def update(self, x: State, blocks: Blocks) -> None:
        """Exchange and wait."""
        self.start(x, blocks)
        self.finish(x)

    def start_filling(self, cameras: Floats, points: Floats) -> None:
        """Begin to send the rows of other arrays, (C, a) and (P, b), a or b may be 0."""

    def finish_filling(self, cameras: Floats, points: Floats) -> None:
        """Wait for the rows of ghosts and put them into the same arrays."""

    def fill(self, cameras: Floats, points: Floats) -> None:
        """Exchange other arrays, and wait."""
        self.start_filling(cameras, points)
        self.finish_filling(cameras, points)

    def start_swap(
        self, arrays: dict[str, Any], rows: dict[str, Any], blocks: Blocks
    ) -> Callable[[], None] | None:
        """`start` for tensors that stay on their GPU; `rows` are its numbers of what is sent. What
        is returned waits for the ghosts and puts them in place; None, and nothing is done, where
        tensors travel by way of the host."""
        return None

    def take_traffic(self) -> Traffic:
        """What was spent since the last call."""
        traffic, self.traffic = self.traffic, Traffic()
        return traffic


class Communicator:
    """One process."""

    rank = 0
    size = 1
    threads: int | None = None
    """Its share of the cores of this machine; None is all of them."""

    def assigned(self, ranks: np.ndarray) -> None:
        """Take note that rank r has the devices ranks[r] : ranks[r+1] from now on."""

    def exchange(self, shard: Shard, neighbours: Sequence[int] = ()) -> Exchange:
        """The exchange of this shard with its neighbours: those whose variables are its ghosts,
        and others that are named because they have ghosts of its own."""
        return Exchange()

    def gather(self, rows: Floats) -> Floats:
        """The rows of all devices, in their order, given those of the devices here."""
        return rows

    def sum(self, values: Floats) -> Floats:
        """The sum over processes, of values whose sum does not round."""
        return values

    def any(self, flag: bool) -> bool:
        """Whether the flag is set anywhere."""
        return flag

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value."""
        return value

    def scatter(self, values: Any) -> Any:
        """Rank 0's values[rank], one of an iterable that it need not hold all at once."""
        return next(iter(values))

    def collect(self, value: Any) -> list[Any]:
        """Every rank's value, on rank 0; an empty list elsewhere."""
        return [value]

    def barrier(self) -> None:
        """Wait for all."""

    def abort(self, code: int) -> None:
        """End every process."""
        os._exit(code)


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


def usable_cores() -> set[int]:
    """The cores that this process may run on: launchers may have bound it to some."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def peak_memory() -> int:
    """The most memory this process has held at once, in bytes."""
    if STATUS.exists():  # elsewhere the parent's memory counts until the process is its own
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def assign_devices(work: Sequence[int], ranks: int) -> np.ndarray:
    """Assign consecutive devices to ranks, evenly by work: rank r gets ptr[r] : ptr[r+1], each rank
    at least one device."""
    S = len(work)
    done = np.cumsum(work, dtype=np.float64)
    ptr = np.zeros(ranks + 1, np.int64)
    for r in range(1, ranks):
        goal = done[-1] * r / ranks
        after = int(np.searchsorted(done, goal)) + 1
        before = done[after - 2] if after >= 2 else 0.0
        nearest = after if done[min(after, S) - 1] - goal <= goal - before else after - 1
        ptr[r] = min(max(nearest, ptr[r - 1] + 1), S - (ranks - r))
    ptr[ranks] = S
    return ptr
