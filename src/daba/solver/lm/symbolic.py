"""The plan of a factorization: order of frames, tiles that fill, levels of elimination trees."""

from __future__ import annotations

import numpy as np

from daba.core.lm import Observations, Plan
from daba.core.types import Bools, Int32, Int64, starts
from daba.solver.elimination import Cost, best_order, factor_flops, levels

TILE = 72
"""Rows of a tile, about: large enough for BLAS, small enough to skip zeros."""
SHARES = 32
"""Shares of the work of forming S; many for many threads, few for what is read to be used again."""


def make_plan(obs: Observations, cluster: Int32, B: int) -> tuple[Plan, Cost]:
    """For frames with blocks of B, in clusters, which are numbered from 0 on in the order of their
    first frames."""
    from daba.backends.cpu.compiled import compiled

    F = len(cluster)
    members = np.argsort(cluster, kind="stable")
    sizes = np.bincount(cluster)
    begins = starts(sizes)
    within = np.empty(F, np.int64)
    within[members] = np.arange(F) - np.repeat(begins[:-1], sizes)
    square = starts(sizes * sizes)
    pairs = np.zeros(int(square[-1]), np.int32)
    compiled("lm.tiles").count_pairs(
        obs, square[:-1][cluster] + within * sizes[cluster], within, pairs
    )
    size = int(min(max(1, TILE // B), sizes.max()))
    rows, structures = [], []
    for c, n in enumerate(sizes):
        common = pairs[square[c] : square[c + 1]].reshape(n, n)
        order, filled = best_order(common > 0, size, B)
        padded = np.full((2, len(filled) * size), [[-1], [0]])
        padded[0, :n] = members[begins[c] : begins[c + 1]][order]
        padded[1, :n] = np.tril(common[order][:, order]).sum(axis=1) if n > 1 else common[0]
        rows.append(padded)
        structures.append(filled)
    frame_at, blocks = np.concatenate(rows, axis=1)
    used = np.flatnonzero(frame_at >= 0)
    place = np.empty(F, np.int32)
    place[frame_at[used]] = used
    plan = Plan(
        size,
        place,
        frame_at.astype(np.int32),
        *_shares(obs, blocks, place),
        *_tiles(structures),
    )
    side = B * size
    flops = sum(factor_flops(filled, side) for filled in structures)
    room = 16.5 * side * side * len(plan.level_row)
    return plan, Cost(float(blocks.sum()), flops, room, float((pairs > 0).mean()))


def _shares(obs: Observations, cost: np.ndarray, place: Int32) -> tuple[Int64, Int64, Int32]:
    """Cut the rows into runs of about equal cost, and sort the observations by them."""
    done = np.cumsum(cost) - 0.5 * cost
    row = np.minimum((done * (SHARES / max(cost.sum(), 1))).astype(np.int64), SHARES - 1)
    own = obs.frame_obs if len(obs.frame_obs) < len(obs.frame) else slice(None)
    share = row[place[obs.frame[own]]].astype(np.uint16)
    order = np.argsort(share, kind="stable")
    chosen = order if isinstance(own, slice) else own[order]
    ends = np.cumsum(np.bincount(share, minlength=SHARES))
    return (
        np.searchsorted(row, np.arange(SHARES + 1)).astype(np.int64),
        np.concatenate([[0], ends]).astype(np.int64),
        chosen.astype(np.int32),
    )


def _tiles(structures: list[Bools]) -> tuple[np.ndarray, ...]:
    """The fields of a plan from `tile` on."""
    counts = np.array([len(filled) for filled in structures])
    begins = starts(counts)
    N, total = int(begins[-1]), 0
    tile = np.full((N, int(counts.max())), -1, np.int32)
    found = []
    for start, filled in zip(begins, structures, strict=False):
        i, j = np.nonzero(filled)
        tile[start + i, j] = np.arange(total, total + len(i), dtype=np.int32)
        total += len(i)
        found.append((start + i, start + j, levels(filled)[j]))
    i, j, level = (np.concatenate(part) for part in zip(*found, strict=True))
    by_level = np.lexsort((i, j, level))
    below = np.flatnonzero(i > j)
    below = below[np.lexsort((j[below], i[below]))]
    return (
        tile,
        np.repeat(begins[:-1], counts).astype(np.int32),
        begins,
        starts(np.bincount(level)),
        i[by_level].astype(np.int32),
        j[by_level].astype(np.int32),
        starts(np.bincount(i[below], minlength=N)),
        j[below].astype(np.int32),
    )
