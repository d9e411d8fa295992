"""What Levenberg–Marquardt tells other processes, counted: rounds of exchange with neighbours, and
sums over all devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.types import Floats
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_shard import LmShard


class Network:
    """The frames and points of a shard, seen from elsewhere."""

    def __init__(self, shard: LmShard, comm: Communicator) -> None:
        self.shard, self.comm = shard, comm
        self.rounds = 0
        self.sums = 0
        self.frame_device = np.repeat(np.arange(shard.devices), np.diff(shard.frame_ptr))
        """Device, counted here, of each own frame."""
        self._no_frames = np.zeros((len(shard.x.frames), 0))
        self._no_points = np.zeros((len(shard.x.points), 0))

    def frames(self, own: Any) -> Any:
        """Rows of own frames with those of ghosts behind: one round."""
        self.rounds += 1
        if self.comm.size == 1:
            return own
        ghosts = len(self.shard.x.frames) - len(own)  # if there are none, others may have ours
        rows = np.concatenate([_on_host(own), np.zeros((ghosts, own.shape[1]))])
        self.shard.exchange.constants(rows, self._no_points)
        return _like(own, rows)

    def points(self, *arrays: Any) -> None:
        """Fill the ghosts' rows of arrays of points: one round for all of them."""
        self.rounds += 1
        if self.comm.size == 1:
            return
        own = self.shard.num_points
        rows = np.hstack([_on_host(array) for array in arrays])
        self.shard.exchange.constants(self._no_frames, rows)
        at = 0
        for array in arrays:
            array[own:] = _like(array, rows[own:, at : at + array.shape[1]])
            at += array.shape[1]

    def sum(self, rows: Any) -> Any:
        """Over all devices, in their order, of one row for each device here."""
        return ordered_sum(self.gather(rows))

    def gather(self, rows: Any) -> Any:
        """The rows of all devices."""
        self.sums += 1
        if self.comm.size == 1:
            return rows
        return _like(rows, self.comm.gather(_on_host(rows)))

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
