"""Where the coarse matrix is not zero: which blocks see a point together.

Blocks are clusters of frames, then groups of images with the same shared parameters. A device knows
those of its own frames and those that see its points; all devices tell each other their pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.lm import CoarseBlocks
from daba.core.types import Int32, distinct, starts
from daba.distributed.lm_shard import LmShard
from daba.solver.lm.network import Network


class BlockPattern:
    """Of the devices of one process, and what it has to know of others."""

    def __init__(
        self, shard: LmShard, ops: Any, network: Network, cluster: Int32, clusters: int
    ) -> None:
        """`cluster` of each frame, ghosts included, of `clusters` over all devices; 0: blocks are
        groups of images only."""
        self.shard, self.ops, self.network = shard, ops, network
        self.comm, self.cluster, self.clusters = network.comm, cluster, clusters
        images = shard.images
        self.image_frame = np.repeat(np.arange(shard.num_frames), np.diff(images.frame_ptr))
        self.image_block = clusters + images.group[: int(images.frame_ptr[-1])]
        self.frame_device = network.frame_device
        self.image_device = self.frame_device[self.image_frame]
        self.blocks_count = clusters + (len(images.index) if shard.kind.columns else 0)
        a, points = shard.arrays, shard.num_points
        owner, block, at = self._seen_by_points()
        ptr = starts(a.count(owner, points))
        begins = shard.point_tasks.ptr[shard.point_tasks.device_ptr]
        of_points = np.repeat(np.arange(shard.devices), np.diff(begins))
        device = a.take(a.put(of_points), owner)
        self._find_pairs(owner, block, device, int(np.diff(ptr).max(initial=1)))
        seen, local = a.unique_inverse(device * self.blocks_count + block)
        seen = a.host(seen)
        self.seen_begin = np.searchsorted(seen // self.blocks_count, np.arange(shard.devices + 1))
        self.seen_block = seen % self.blocks_count
        self.most_seen = int(np.diff(self.seen_begin).max(initial=1))
        none = np.empty(0, np.int32)
        self.blocks = CoarseBlocks(
            ptr,
            a.int32(block),
            a.int32(local - a.take(a.put(self.seen_begin), device)),
            at[0] if clusters else none,
            at[-1] if shard.kind.columns else none,
            self._pair_table(),
        )
        self._tell_pairs()

    def _seen_by_points(self) -> tuple[Any, Any, Any]:
        """Point and block of each pair of a point and a block that sees it; and where each
        observation's are among them, by clusters and by groups."""
        s, obs, total, a = self.shard, self.shard.obs, self.blocks_count, self.shard.arrays
        last = int(obs.point_ptr[s.num_points])
        point, keys = a.int64(obs.point[:last]) * total, []
        if self.clusters:
            keys.append(point + a.take(a.put(self.cluster), obs.frame[:last]))
        if s.kind.columns:
            group = a.take(a.put(s.images.group), obs.image[:last])
            keys.append(point + (self.clusters + group))
        entries, at = a.unique_inverse(a.concatenate(keys))
        return entries // total, entries % total, a.int32(at.reshape(len(keys), last))

    def _find_pairs(self, owner: Any, block: Any, device: Any, most: int) -> None:
        """Pairs of blocks, row ≥ column, that points of each device make, or its own frames; those
        of a point ascend."""
        s, total, a = self.shard, self.blocks_count, self.shard.arrays
        row = (device * total + block) * total
        found = [row + block]
        for apart in range(1, most):
            later = a.nonzero(owner[apart:] == owner[:-apart]) + apart
            found.append(row[later] + block[later - apart])
        own, keys = self.cluster[: s.num_frames], []
        if self.clusters:
            keys.append(_pair_key(self.frame_device, own, own, total))
        if s.kind.columns:
            of, image = self.image_block, self.image_device
            keys.append(_pair_key(image, of, of, total))
            if self.clusters:
                keys.append(_pair_key(image, of, own[self.image_frame], total))
        pairs = a.host(a.unique(a.concatenate([*found, *map(a.put, keys)])))
        self.pair_device, rest = pairs // total**2, pairs % total**2
        self.pair_row, self.pair_col = rest // total, rest % total
        self.pair_begin = np.searchsorted(self.pair_device, np.arange(s.devices + 1))
        self.most_pairs = int(np.diff(self.pair_begin).max(initial=1))

    def _pair_table(self) -> Int32:
        """Number of each pair of the blocks that a device sees, as it counts them, −1 for none."""
        devices = self.shard.devices
        table = np.full((devices, self.most_seen, self.most_seen), -1, np.int32)
        for d in range(devices):
            mine = slice(self.pair_begin[d], self.pair_begin[d + 1])
            place = np.full(self.blocks_count, -1, np.int64)
            blocks = self.seen_block[self.seen_begin[d] : self.seen_begin[d + 1]]
            place[blocks] = np.arange(len(blocks))
            row, col = place[self.pair_row[mine]], place[self.pair_col[mine]]
            known = np.flatnonzero((row >= 0) & (col >= 0))
            table[d, row[known], col[known]] = known
        return table

    def _tell_pairs(self) -> None:
        """To all, so that every process can add up what all devices have."""
        devices = self.shard.devices
        counts = np.diff(self.pair_begin)[:, None].astype(float)
        self.everywhere = int(self.comm.gather(counts).max())
        """Most pairs of a device, here or elsewhere."""
        rows = np.full((devices, 2, self.everywhere), -1.0)
        for d in range(devices):
            mine = slice(self.pair_begin[d], self.pair_begin[d + 1])
            rows[d, 0, : mine.stop - mine.start] = self.pair_row[mine]
            rows[d, 1, : mine.stop - mine.start] = self.pair_col[mine]
        told = self.comm.gather(rows.reshape(devices, -1))
        self.all_pairs = told.astype(np.int64).reshape(-1, 2, self.everywhere)
        self.device_blocks = [distinct(pairs[pairs >= 0]) for pairs in self.all_pairs]
        """Of each device, here and elsewhere, those that it has or sees."""

    def neighbours(self) -> float:
        """How many other clusters see points of one, on average."""
        row, col = self.all_pairs.transpose(1, 0, 2).reshape(2, -1)
        among = (col >= 0) & (row < self.clusters) & (row != col)
        pairs = distinct(row[among] * self.blocks_count + col[among])
        return 2.0 * len(pairs) / max(self.clusters, 1)

    def _pair(self, device: np.ndarray, row: np.ndarray, col: np.ndarray) -> np.ndarray:
        total = self.blocks_count
        known = (self.pair_device * total + self.pair_row) * total + self.pair_col
        at = np.searchsorted(known, _pair_key(device, row, col, total))
        return np.asarray(at - self.pair_begin[device])


def _pair_key(device: np.ndarray, row: np.ndarray, col: np.ndarray, total: int) -> np.ndarray:
    high, low = np.maximum(row, col), np.minimum(row, col)
    return (np.asarray(device, np.int64) * total + high) * total + low
