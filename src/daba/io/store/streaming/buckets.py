"""Sorting what does not fit into memory: rows go to consecutive ranges of a key, in one file.

How many rows each key will have is known beforehand, so every range has its own part of the file
from the start, and any number of ranges needs only one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from daba.core.types import starts

ROW = np.dtype(
    [
        ("camera", np.int32),
        ("point", np.int32),
        ("u", np.float64, 2),
        ("weight", np.float64),
        ("id", np.int64),
    ]
)
"""An observation on its way: `layout.Records`, and its number in the problem."""


class Buckets:
    """Rows in buckets, each for a range of keys. Within a bucket rows stay in the order in which
    they were added."""

    def __init__(self, path: Path, counts: np.ndarray, bounds: np.ndarray) -> None:
        """
        counts   rows that will be added for each key
        bounds   first key of each bucket, and the number of keys
        """
        self.path, self.bounds = path, bounds
        self._start = starts(counts)[bounds]
        self._next = self._start[:-1].copy()
        path.touch(exist_ok=False)

    def add(self, key: np.ndarray, rows: np.ndarray) -> None:
        bucket = np.searchsorted(self.bounds, key, side="right") - 1
        order = np.argsort(bucket, kind="stable")
        rows, bucket = rows[order], bucket[order]
        ends = np.append(np.flatnonzero(np.diff(bucket)) + 1, len(rows))
        with open(self.path, "r+b") as out:
            lo = 0
            for hi in ends:
                if hi > lo:
                    out.seek(int(self._next[bucket[lo]]) * ROW.itemsize)
                    out.write(rows[lo:hi].view(np.uint8).data)
                    self._next[bucket[lo]] += hi - lo
                lo = hi

    def read(self, bucket: int) -> np.ndarray:
        """The rows of a bucket."""
        lo, hi = self._start[bucket : bucket + 2]
        return np.fromfile(self.path, ROW, int(hi - lo), offset=int(lo) * ROW.itemsize)

    def within(self, lo: int, hi: int) -> Iterator[np.ndarray]:
        """The rows of the buckets from key `lo` to key `hi`, at both of which buckets begin."""
        for bucket in range(*np.searchsorted(self.bounds, [lo, hi])):
            yield self.read(bucket)

    def __iter__(self) -> Iterator[tuple[range, np.ndarray]]:
        """The keys and the rows of each bucket."""
        for b, (lo, hi) in enumerate(zip(self.bounds[:-1], self.bounds[1:], strict=True)):
            yield range(int(lo), int(hi)), self.read(b)

    def remove(self) -> None:
        self.path.unlink()


def even_bounds(counts: np.ndarray, limit: int, cuts: np.ndarray | None = None) -> np.ndarray:
    """Ranges of keys with up to `limit` rows, or with a single key that has more.

    cuts   keys, ascending, at which a range must begin
    """
    total = starts(counts)
    ends = [len(counts)] if cuts is None else np.unique(np.append(cuts, len(counts)))
    bounds = [0]
    for end in map(int, ends):
        while bounds[-1] < end:
            last = int(np.searchsorted(total, total[bounds[-1]] + limit, side="right")) - 1
            bounds.append(min(max(last, bounds[-1] + 1), end))
    return np.array(bounds)
