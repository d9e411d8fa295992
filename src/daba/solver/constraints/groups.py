"""Who shares intrinsics with whom: within a device, and across devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from daba.core.types import Bools, Floats, Int32, Int64, distinct, frozen
from daba.distributed.shard import Shard, State
from daba.partition.ordering import DeviceRanges
from daba.problem.problem import Ints

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator


@frozen
class Groups:
    """The groups of the cameras owned here."""

    representative: Int32
    """First camera of the group of each camera, if the group lives on one device; else itself."""
    shares: Bools
    """Cameras that share d with another one, here or elsewhere."""
    part: Int64
    """Row in `parts` of the part of its group that each camera belongs to, −1 if the group lives
    on one device."""
    parts: GroupParts | None
    """None if every group of the problem lives on one device."""


class GroupParts:
    """Parts of groups that live on several devices: one for each such group on each device here.

    All parts of a group exchange a few numbers, and each adds them up in the order of
    devices: the sum has the same bits everywhere, for any number of processes.
    """

    def __init__(self, everywhere: np.ndarray, shard: Shard, comm: Communicator) -> None:
        """`everywhere` has (device, group) of all parts, ascending."""
        device, group = everywhere.T
        first, last = shard.first, shard.first + shard.num_devices
        here = (device >= first) & (device < last)
        mine = np.isin(group, group[here])
        self.device = device[here] - first
        self.count = int(here.sum())
        self.most = int(np.bincount(device).max())
        """Parts on the device that has most of them, here or elsewhere."""
        self.rank = np.unique(group, return_inverse=True)[1][here]
        """Of each part's group among all."""
        self.charged = _first_of_each(group)[here]
        """Whether the part is on the first device of its group, which is charged what all do."""
        ptr = np.searchsorted(device, np.arange(shard.ranges.devices + 1)).astype(np.int64)
        self.ghosts = np.flatnonzero(mine & ~here)
        own = np.arange(self.count, dtype=np.int32)
        self.exchange = comm.exchange(
            replace(
                shard,
                ranges=DeviceRanges(ptr, ptr, 0),
                camera_order=own,
                point_order=own,
                ghost_cameras=self.ghosts.astype(np.int32),
                ghost_points=self.ghosts.astype(np.int32),
            )
        )
        at = np.flatnonzero(mine)
        start = int(ptr[first])
        self._row = np.where(here[at], at - start, self.count + np.searchsorted(self.ghosts, at))
        known, self._group = np.unique(group[at], return_inverse=True)
        self._groups = len(known)
        self._own = np.searchsorted(known, group[here])
        self.clusters = self
        """The same for devices that are tied together by one group or more."""
        clusters = _clusters(everywhere)
        if not np.array_equal(clusters, everywhere):
            self.clusters = GroupParts(clusters, shard, comm)

    def sum(self, numbers: Floats) -> Floats:
        """Of each part's numbers, (count, 9) or (count, 1), the sum over its group."""
        rows = np.concatenate([numbers, np.zeros((len(self.ghosts), numbers.shape[1]))])
        nothing = np.zeros((len(rows), 1))
        if numbers.shape[1] == 1:
            self.exchange.update(State(nothing, rows), "points")
        else:
            self.exchange.update(State(rows, nothing), "cameras")
        total = [np.bincount(self._group, column, self._groups) for column in rows[self._row].T]
        return np.stack(total, axis=1)[self._own]


def find_groups(shard: Shard, shared: Ints, comm: Communicator) -> Groups:
    """Every process reports its groups; those of several devices are then known to all. After that,
    only devices that share a group communicate about it."""
    device = shard.first + _owners(shard)
    here = np.unique(np.stack([device, shared], axis=1), axis=0)
    everywhere = comm.collect(here)
    common = comm.broadcast(_on_several(np.concatenate(everywhere)) if comm.rank == 0 else None)
    _, first, group, count = np.unique(
        shared, return_index=True, return_inverse=True, return_counts=True
    )
    across = np.isin(shared, common[:, 1])
    own = np.arange(len(shared))
    part = np.full(len(shared), -1, np.int64)
    parts = None
    if len(common):
        parts = GroupParts(common, shard, comm)
        here = common[np.isin(common[:, 0], distinct(device))]
        width = int(max(shared.max(initial=0), common[:, 1].max())) + 1
        key, wanted = here[:, 0] * width + here[:, 1], device * width + shared
        part[across] = np.searchsorted(key, wanted[across])
    return Groups(
        representative=np.where(across, own, first[group]).astype(np.int32),
        shares=across | (count[group] > 1),
        part=part,
        parts=parts,
    )


def _clusters(parts: np.ndarray) -> np.ndarray:
    """(device, cluster) for the devices that are tied together, ascending; a cluster is named
    after its smallest group."""
    label = {int(group): int(group) for group in parts[:, 1]}
    while True:
        before = dict(label)
        of_device: dict[int, int] = {}
        for device, group in parts.tolist():
            of_device[device] = min(of_device.get(device, group), label[group])
        for device, group in parts.tolist():
            label[group] = min(label[group], of_device[device])
        if label == before:
            return np.array(sorted(of_device.items()), np.int64).reshape(-1, 2)


def _owners(shard: Shard) -> np.ndarray:
    """The device, counted here, of each camera owned here."""
    sizes = np.diff(shard.devices.camera_ptr)
    return np.repeat(np.arange(len(sizes)), sizes)


def _on_several(parts: np.ndarray) -> np.ndarray:
    """(device, group) of the groups that live on several devices, ascending."""
    _, group, count = np.unique(parts[:, 1], return_inverse=True, return_counts=True)
    found = parts[count[group] > 1]
    return found[np.lexsort((found[:, 1], found[:, 0]))]


def _first_of_each(group: np.ndarray) -> np.ndarray:
    first = np.zeros(len(group), bool)
    first[np.unique(group, return_index=True)[1]] = True
    return first
