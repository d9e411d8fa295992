"""What Levenberg–Marquardt tells other processes, counted: rounds of exchange with neighbours, and
sums over all devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from daba.core.types import Floats
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_shard import LmShard
from daba.distributed.shard import NUMBER
from daba.solver.interface import Counts

T = TypeVar("T")


class Columns:
    """Where the rows of devices, here and elsewhere, are not zero."""

    def __init__(self, used: Sequence[np.ndarray], size: int) -> None:
        """`used` of each device, of `size` columns."""
        self.used, self.size = used, size
        self.most = max(map(len, used), default=0)

    def pack(self, rows: Floats, first: int) -> Floats:
        """What is not zero of the rows of the devices that follow `first`, (·, most)."""
        packed = np.zeros((len(rows), self.most))
        for out, row, used in zip(packed, rows, self.used[first:], strict=False):
            out[: len(used)] = row[used]
        return packed

    def unpack(self, packed: Floats) -> Floats:
        """The rows of all devices."""
        rows = np.zeros((len(packed), self.size))
        for row, found, used in zip(rows, packed, self.used, strict=True):
            row[used] = found[: len(used)]
        return rows

    def sum(self, packed: Floats) -> Floats:
        """Of the rows of all devices, to the bits of a sum with all zeros."""
        total = np.zeros(self.size)
        for found, used in zip(packed, self.used, strict=True):
            total[used] += found[: len(used)]
        return total


class Network:
    """The frames and points of a shard, seen from elsewhere."""

    def __init__(self, shard: LmShard, comm: Communicator) -> None:
        self.shard, self.comm = shard, comm
        self.counts = Counts()
        """What was told since they were last taken."""
        self.frame_device = np.repeat(np.arange(shard.devices), np.diff(shard.frame_ptr))
        """Device, counted here, of each own frame."""
        self._no_frames = np.zeros((len(shard.x.frames), 0))
        self._no_points = np.zeros((len(shard.x.points), 0))

    def take_counts(self) -> Counts:
        """What was told since the last call; what all do together is counted by rank 0."""
        told, self.counts = self.counts, Counts()
        return told if self.comm.rank == 0 else replace(told, rounds=0, all_reduces=0)

    def frames(self, own: Any) -> Any:
        """Rows of own frames with those of ghosts behind: one round."""
        rows, arrive = self.start_frames(own)
        arrive()
        return rows

    def start_frames(self, own: Any) -> tuple[Any, Callable[[], None]]:
        """The same, begun: ghosts are there after a call of what is returned beside them."""
        self._count_round(cameras=own.shape[1])
        if self.comm.size == 1:
            return own, lambda: None
        exchange, first = self.shard.exchange, len(own)
        ghosts = len(self.shard.x.frames) - first  # if there are none, others may have ours
        told = np.concatenate([_on_host(own), np.zeros((ghosts, own.shape[1]))])
        rows = _like(own, told)
        exchange.start_filling(told, self._no_points)

        def arrive() -> None:
            exchange.finish_filling(told, self._no_points)
            if rows is not told:
                rows[first:] = _like(own, told[first:])

        return rows, arrive

    def points(self, *arrays: Any) -> None:
        """Fill the ghosts' rows of arrays of points: one round for all of them."""
        self.start_points(*arrays)()

    def start_points(self, *arrays: Any) -> Callable[[], None]:
        """The same, begun; what is returned waits for it. What is own must not change before."""
        self._count_round(points=sum(array.shape[1] for array in arrays))
        if self.comm.size == 1:
            return lambda: None
        own, exchange = self.shard.num_points, self.shard.exchange
        rows = np.hstack([_on_host(array) for array in arrays])
        exchange.start_filling(self._no_frames, rows)

        def arrive() -> None:
            exchange.finish_filling(self._no_frames, rows)
            at = 0
            for array in arrays:
                array[own:] = _like(array, rows[own:, at : at + array.shape[1]])
                at += array.shape[1]

        return arrive

    def sum(self, rows: Any) -> Any:
        """Over all devices, in their order, of one row for each device here."""
        return ordered_sum(self.gather(rows))

    def sparse_sum(self, rows: Any, columns: Columns) -> Any:
        """The same, where each device has numbers in few columns: only those travel."""
        if self.comm.size == 1:
            self._count_sum(columns.most)
            return ordered_sum(rows)
        found = self.gather(columns.pack(_on_host(rows), self.shard.first_device))
        if isinstance(rows, np.ndarray):
            return columns.sum(found)
        return ordered_sum(_like(rows, columns.unpack(found)))

    def gather(self, rows: Any) -> Any:
        """The rows of all devices."""
        self._count_sum(rows.shape[1])
        if self.comm.size == 1:
            return rows
        return _like(rows, self._waiting(lambda: self.comm.gather(_on_host(rows))))

    def exact_sum(self, values: Floats) -> Floats:
        """Over processes, of values that one of them has and the others leave zero."""
        self._count_sum(values.size)
        return self._waiting(lambda: self.comm.sum(values))

    def any(self, flag: bool) -> bool:
        """Whether the flag is set anywhere."""
        self._count_sum(1)
        return self._waiting(lambda: self.comm.any(flag))

    def _count_round(self, cameras: int = 0, points: int = 0) -> None:
        self.counts.rounds += 1
        self.counts.boundary_bytes += self.shard.boundary.bytes(cameras=cameras, points=points)

    def _count_sum(self, numbers: int) -> None:
        self.counts.all_reduces += 1
        self.counts.summed_bytes += NUMBER * numbers * self.shard.devices

    def _waiting(self, ask: Callable[[], T]) -> T:
        """What all processes must answer together."""
        began = time.perf_counter()
        found = ask()
        self.shard.exchange.traffic.waiting += time.perf_counter() - began
        return found

    def by_device(self, of_frames: Floats) -> Floats:
        """Sums of what frames have, (S, …), in their order."""
        out = np.zeros((self.shard.devices, *of_frames.shape[1:]))
        np.add.at(out, self.frame_device, of_frames)
        return out


def _on_host(array: Any) -> Floats:
    """Arrays of points are NumPy's, or tensors somewhere else."""
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


def _like(array: Any, rows: Floats) -> Any:
    """Rows where the array is."""
    return rows if isinstance(array, np.ndarray) else array.new_tensor(rows)


def ordered_sum(rows: Any) -> Any:
    if not isinstance(rows, np.ndarray):
        return rows.sum(dim=0)  # in the same order whatever process they come from
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += row
    return total
