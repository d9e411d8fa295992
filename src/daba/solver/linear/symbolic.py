"""The plan of a direct solution: order of cameras, tiles of S that fill, levels of the tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.backends.cpu.kernels.cholesky import count_pairs, mark_pairs
from daba.core.sorting import stable_order
from daba.core.types import Devices, Int32, Int64, Observations, Plan
from daba.solver.elimination import Cost, best_order, factor_flops, levels

TILE = 8
"""Cameras on the side of a tile: 72 rows, large enough for BLAS, small enough to skip zeros."""

PIECES = 32
"""Pieces of work in forming S; many for many threads, few for what is read to be used again."""


def make_plan(obs: Observations, devices: Devices, largest: int) -> tuple[Plan, Cost]:
    """Choose, per device, the order of cameras whose factor fills least, and lay out the tiles.

    `largest` is the number of cameras of the largest device, here or elsewhere.
    """
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
        level_ptr=_counts_to_ptr(np.bincount(level[j])),
        level_row=i[by_level].astype(np.int32),
        level_col=j[by_level].astype(np.int32),
        row_ptr=_counts_to_ptr(np.bincount(i[below], minlength=N)),
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
    return _counts_to_ptr(np.bincount(piece, minlength=PIECES)), order


def _counts_to_ptr(counts: np.ndarray) -> Any:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
