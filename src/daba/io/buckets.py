"""Sorting what does not fit into memory: rows go to consecutive ranges of a key, in one file.

How many rows each key will have is known beforehand, so every range has its place in the file
from the start, and any number of ranges needs only one open file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np


class Buckets:
    """Rows in buckets, each for a range of keys. Within a bucket rows stay in the order in which
    they were added."""

    def __init__(self, path: Path, dtype: np.dtype, counts: np.ndarray, bounds: np.ndarray) -> None:
        """
        counts   rows that will be added for each key
        bounds   first key of each bucket, and the number of keys
        """
        self.path, self.dtype, self.bounds = path, dtype, bounds
        total = np.concatenate([[0], np.cumsum(counts)])
        self._start = total[bounds]
        self._next = self._start[:-1].copy()
        self._file = open(path, "x+b")  # noqa: SIM115 (closed by `remove`)

    def add(self, key: np.ndarray, rows: np.ndarray) -> None:
        bucket = np.searchsorted(self.bounds, key, side="right") - 1
        order = np.argsort(bucket, kind="stable")
        rows, bucket = rows[order], bucket[order]
        begins = np.flatnonzero(np.diff(bucket, prepend=-1))
        for lo, hi in zip(begins, np.append(begins[1:], len(rows)), strict=True):
            b = bucket[lo]
            self._file.seek(int(self._next[b]) * self.dtype.itemsize)
            self._file.write(rows[lo:hi].data)
            self._next[b] += hi - lo

    def read(self, bucket: int) -> np.ndarray:
        """The rows of a bucket."""
        lo, hi = self._start[bucket : bucket + 2]
        self._file.seek(int(lo) * self.dtype.itemsize)
        return np.fromfile(self._file, self.dtype, int(hi - lo))

    def __iter__(self) -> Iterator[tuple[range, np.ndarray]]:
        """The keys and the rows of each bucket."""
        for b in range(len(self.bounds) - 1):
            yield range(self.bounds[b], self.bounds[b + 1]), self.read(b)

    def remove(self) -> None:
        self._file.close()
        self.path.unlink()


def even_bounds(counts: np.ndarray, limit: int, cuts: np.ndarray | None = None) -> np.ndarray:
    """Ranges of keys with up to `limit` rows, or with a single key that has more.

    cuts   keys, ascending, at which a range must begin
    """
    total = np.concatenate([[0], np.cumsum(counts)])
    ends = np.unique(np.append(len(counts) if cuts is None else cuts, len(counts)))
    bounds = [0]
    for end in ends[ends > 0]:
        while bounds[-1] < end:
            at = int(np.searchsorted(total, total[bounds[-1]] + limit, side="right")) - 1
            bounds.append(min(max(at, bounds[-1] + 1), int(end)))
    return np.array(bounds)
