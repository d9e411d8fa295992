"""Elimination of matrices that are kept in square tiles: in which order, what fills, what it takes.

The same for cameras with blocks of 9 and for frames with blocks of any size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daba.core.types import Bools

LEAST_ROOM = 256e6
"""Bytes that factors may always take, …"""
ROOM_PER_OBSERVATION = 48.0
"""… and bytes for each observation, if that is more."""


class Cost(NamedTuple):
    """What forming, factoring and storing S takes."""

    pairs: float
    """Pairs of observations of one point, each of which adds a block."""
    factor_flops: float
    bytes: float
    density: float = 0.0
    """Share of pairs of frames that see common points, where it is known."""

    def fits(self, observations: float) -> bool:
        """Whether factors take no more memory than they may."""
        return self.bytes < max(LEAST_ROOM, ROOM_PER_OBSERVATION * observations)


def best_order(adjacent: Bools, size: int, block: int) -> tuple[np.ndarray, Bools]:
    """The order among natural, reverse Cuthill–McKee and nested dissection with least work, for
    tiles of `size` blocks; and which tiles of the factor are not zero."""
    n = len(adjacent)
    candidates = [np.arange(n)]
    if n > size and adjacent.mean() < 0.7:
        import pymetis
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        graph = csr_array(adjacent & ~np.eye(n, dtype=bool))
        candidates.append(reverse_cuthill_mckee(graph, symmetric_mode=True))
        if graph.nnz:
            _, inverse = pymetis.nested_dissection(
                pymetis.CSRAdjacency(graph.indptr.tolist(), graph.indices.tolist())
            )
            candidates.append(np.argsort(inverse))
    filled = [_fill(adjacent[np.ix_(order, order)], size) for order in candidates]
    best = min(range(len(filled)), key=lambda c: factor_flops(filled[c], block * size))
    return candidates[best], filled[best]


def _fill(adjacent: Bools, size: int) -> Bools:
    """Lower triangle of nonzero tiles of the Cholesky factor."""
    n = -(-len(adjacent) // size)
    padded = np.zeros((n * size, n * size), dtype=bool)
    padded[: len(adjacent), : len(adjacent)] = adjacent
    tiles = padded.reshape(n, size, n, size).any(axis=(1, 3)) | np.eye(n, dtype=bool)
    for k in range(n):
        rows = k + 1 + np.flatnonzero(tiles[k + 1 :, k])
        tiles[np.ix_(rows, rows)] = True
    return np.tril(tiles)


def factor_flops(filled: Bools, side: int) -> float:
    column = filled.sum(axis=0)
    return float((column * (column + 1) / 2).sum()) * 2.0 * side**3


def levels(filled: Bools) -> np.ndarray:
    """Height of each tile column in the elimination tree."""
    n = len(filled)
    level = np.zeros(n, np.int64)
    for k in range(n):
        below = np.flatnonzero(filled[k + 1 :, k])
        if len(below):
            parent = k + 1 + below[0]
            level[parent] = max(level[parent], level[k] + 1)
    return level
