"""Elimination of matrices that are kept in square tiles: in which order, what fills, what it takes.

The order is the same for cameras with blocks of 9 and for frames with blocks of any size. The plan
of Algorithm 1's direct solution follows: the tiles of S that fill, and the levels of the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daba.core.types import Bools, Devices, Int32, Int64, Observations, Plan, starts
from daba.partition.partition import stable_order

LEAST_ROOM = 256e6
"""Bytes that factors may always take."""


class Cost(NamedTuple):
    """What forming, factoring and storing S takes."""

    pairs: float
    """Pairs of observations of one point, each of which adds a block."""
    factor_flops: float
    bytes: float
    density: float = 0.0
    """Share of pairs of frames that see common points, where it is known."""

    def fits(self, observations: float, room: float) -> bool:
        """Whether factors take no more memory than they may, `room` for each observation."""
        return self.bytes < max(LEAST_ROOM, room * observations)


def best_order(adjacent: Bools, size: int, block: int) -> tuple[np.ndarray, Bools]:
    """The order among natural, reverse Cuthill–McKee and nested dissection with least work, for
    tiles of `size` blocks; and which tiles of the factor are not zero."""
    n = len(adjacent)
    candidates = [np.arange(n)]
    if n > size and adjacent.mean() < 0.7:
        graph = adjacent & ~np.eye(n, dtype=bool)
        candidates.append(reverse_cuthill_mckee(graph))
        if graph.any():
            import pymetis

            begins = starts(graph.sum(axis=1))
            _, inverse = pymetis.nested_dissection(
                pymetis.CSRAdjacency(begins.tolist(), np.nonzero(graph)[1].tolist())
            )
            candidates.append(np.argsort(inverse))
    filled = [_fill(adjacent[np.ix_(order, order)], size) for order in candidates]
    best = min(range(len(filled)), key=lambda c: factor_flops(filled[c], block * size))
    return candidates[best], filled[best]


def reverse_cuthill_mckee(graph: Bools) -> np.ndarray:
    """As SciPy's function of that name, which takes 0.2 s to import, orders the nodes of a
    symmetric graph: from one of few neighbours on, each followed by its own, those of fewer
    neighbours first; and all of that backwards."""
    degree = graph.sum(axis=1, dtype=np.int32)
    new = np.ones(len(graph), bool)
    order: list[int] = []
    for seed in np.argsort(degree).tolist():
        if new[seed]:
            new[seed] = False
            reached = [seed]
            for node in reached:  # which grows
                near = np.flatnonzero(graph[node] & new)
                new[near] = False
                reached += near[np.argsort(degree[near], kind="stable")].tolist()
            order += reached
    return np.array(order[::-1])


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


# Of Algorithm 1

MOST_CAMERAS_FOR_PLAN = 6000
"""Beyond this no direct solution is considered: the plan alone is quadratic in cameras."""
SECONDS_PER_PAIR = 30e-9
"""To add a block to S, by one thread of a current CPU; only the ratio to the next two matters."""
SECONDS_PER_FLOP = 2e-11
"""In factoring S."""
SECONDS_PER_PRODUCT = 11e-9
"""Of one observation in one S·v."""
EXPECTED_PCG_ITERATIONS = 30
"""Of one step, where nobody knows yet."""
ROOM_PER_OBSERVATION = 48.0
"""Bytes for each observation that factors may take, if that is more than they always may."""
BYTES_PER_OBSERVATION = 196
"""What an observation and its derivatives take. Where cameras are copied, to any device that sees
one of their points, factors may take no more: they would be most of what the device holds."""
ALWAYS_QUICK = 1e-3
"""Seconds that a direct solution may always take."""
TILE = 8
"""Cameras on the side of a tile: 72 rows, large enough for BLAS, small enough to skip zeros."""
PIECES = 32
"""Pieces of work in forming S; many for many threads, few for what is read to be used again."""


def direct_pays(cost: Cost, observations: float, copies: bool = False) -> bool:
    """Whether a direct solution is the quicker one, and fits."""
    direct = SECONDS_PER_PAIR * cost.pairs + SECONDS_PER_FLOP * cost.factor_flops
    iterative = SECONDS_PER_PRODUCT * observations * EXPECTED_PCG_ITERATIONS
    fits = cost.fits(observations, ROOM_PER_OBSERVATION)
    if copies:
        fits = cost.bytes < BYTES_PER_OBSERVATION * observations
    return direct < max(iterative, ALWAYS_QUICK) and fits


def make_plan(obs: Observations, devices: Devices, largest: int) -> tuple[Plan, Cost]:
    """Choose, per device, the order of cameras whose factor fills least, and lay out the tiles.

    `largest` is the number of cameras of the largest device, here or elsewhere.
    """
    from daba.backends.cpu.kernels.schur import count_pairs, mark_pairs

    C = int(devices.camera_ptr[-1])
    adjacent = np.zeros((C, C), dtype=bool)
    mark_pairs(obs, adjacent)
    sizes = np.diff(devices.camera_ptr)
    size = min(TILE, largest)
    rows, structures, owners = [], [], []
    for device, (lo, hi) in enumerate(
        zip(devices.camera_ptr[:-1], devices.camera_ptr[1:], strict=True)
    ):
        order, filled = best_order(adjacent[lo:hi, lo:hi], size, 9)
        padded = np.full(len(filled) * size, -1, np.int32)
        padded[: hi - lo] = lo + order
        rows.append(padded)
        structures.append(filled)
        owners.append(np.full(len(filled), device, np.int32))
    camera_at = np.concatenate(rows)
    place = np.empty(C, np.int32)
    used = np.flatnonzero(camera_at >= 0)
    place[camera_at[used]] = used
    tile_owner = np.concatenate(owners)
    N = len(tile_owner)
    filled = np.zeros((N, N), dtype=bool)
    at = 0
    for block in structures:
        filled[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    i, j = np.nonzero(filled)
    tile = np.full((N, N), -1, np.int32)
    tile[i, j] = np.arange(len(i), dtype=np.int32)
    level = levels(filled)
    by_level = np.lexsort((i, j, level[j]))
    below = i > j
    pairs = np.zeros(C, np.int64)
    count_pairs(obs, place, pairs)
    piece_ptr, piece_obs = _pieces(obs, np.where(camera_at >= 0, pairs[camera_at], 0), place)
    plan = Plan(
        size=size,
        place=place,
        camera_at=camera_at,
        device=np.repeat(np.arange(len(sizes)), sizes).astype(np.int32),
        piece_ptr=piece_ptr,
        piece_obs=piece_obs,
        tile=tile,
        tile_device=tile_owner[j],
        level_ptr=starts(np.bincount(level[j])),
        level_row=i[by_level].astype(np.int32),
        level_col=j[by_level].astype(np.int32),
        row_ptr=starts(np.bincount(i[below], minlength=N)),
        row_col=j[below].astype(np.int32),
    )
    return plan, Cost(
        float(pairs.sum()), factor_flops(filled, 9 * size), 16.5 * (9 * size) ** 2 * len(i)
    )


def _pieces(obs: Observations, cost: np.ndarray, place: Int32) -> tuple[Int64, Int32]:
    """Cut the rows into runs of about equal cost and sort observations by them."""
    done = np.cumsum(cost) - 0.5 * cost
    piece = (done * (PIECES / max(cost.sum(), 1))).astype(np.int64)[place][obs.camera]
    order = stable_order(piece, PIECES).astype(np.int32)
    return starts(np.bincount(piece, minlength=PIECES)), order
