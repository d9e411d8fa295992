"""Which frames are factored together, and how: clusters of frames on each device, those that see
the same points, and the plan of a factorization: order of frames, tiles that fill, levels of
elimination trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from daba.core.lm import Observations, Plan
from daba.core.types import Bools, Int32, Int64, starts
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_shard import LmInput, LmShard
from daba.distributed.shard import Shard
from daba.partition.ordering import ON_HOST
from daba.partition.partition import has_metis, split_cameras
from daba.solver.elimination import Cost, best_order, factor_flops, levels

TILE = 72
"""Rows of a tile, about: large enough for BLAS, small enough to skip zeros."""
SHARES = 32
"""Shares of the work of forming S; many for many threads, few for what is read to be used again."""


def split_frames(shard: Shard, given: LmInput, frames: float, tries: int) -> Int32:
    """Cluster of each own frame, counted from 0 on each device, of about so many frames each;
    `tries` of METIS at most."""
    own = shard.num_cameras
    out = np.zeros(len(given.poses), np.int32)
    device = np.searchsorted(shard.devices.camera_ptr, np.arange(own), side="right") - 1
    first = ON_HOST.changes(given.frame)
    bounds = np.searchsorted(device[first], np.arange(shard.num_devices + 1)).tolist()
    seen = _by_device(shard, given.frame, bounds)
    a = shard.arrays
    for lo, hi, (frame, point) in zip(bounds[:-1], bounds[1:], seen, strict=True):
        count = round((hi - lo) / frames)
        if count < 2:
            continue
        if count == hi - lo:
            out[lo:hi] = np.arange(count)
            continue
        load = a.count(frame, hi - lo)
        if has_metis():
            graph = a.camera_graph(frame, point, hi - lo, int(point.max()) + 1)
            found = split_cameras(graph, load, count, 0, tries)
        else:
            from daba.partition.bisection import bisect_cameras, centroids_seen, few

            some = a.put(few(hi - lo, len(frame)))
            ends = a.host(a.take(frame, some)), a.host(a.take(point, some))
            found = bisect_cameras(centroids_seen(shard.start.points, *ends, hi - lo), load, count)
        out[lo:hi] = np.unique(found, return_inverse=True)[1]
    return out


def _by_device(shard: Shard, frame: Int32, bounds: list[int]) -> Iterator[tuple[Any, Any]]:
    """Frames, counted from the device's first, and points of the observations of each device's
    frames."""
    a, devices, frames, points = shard.arrays, len(bounds) - 1, [], []
    of_image = a.put(frame)
    for obs in (shard.intra, shard.inter):
        own = a.nonzero(obs.camera < shard.num_cameras)
        frames.append(a.take(of_image, obs.camera[own]))
        points.append(obs.point[own])
    of, point = a.concatenate(frames), a.concatenate(points)
    device = a.take(a.put(np.repeat(np.arange(devices), np.diff(bounds))), of)
    order = a.order(device, devices)
    ptr = starts(a.count(device, devices)).tolist()
    for lo, begin, end in zip(bounds[:-1], ptr[:-1], ptr[1:], strict=True):
        chosen = order[begin:end]
        yield of[chosen] - lo, point[chosen]


def everywhere(shard: LmShard, cluster: Int32, comm: Communicator) -> tuple[Int32, int]:
    """The clusters of own frames numbered over all devices, with ghosts behind; and how many."""
    counts = np.zeros((shard.devices, 1))
    device = np.repeat(np.arange(shard.devices), np.diff(shard.frame_ptr))
    np.maximum.at(counts[:, 0], device, cluster + 1.0)
    before = np.concatenate([[0.0], np.cumsum(comm.gather(counts)[:, 0])])
    rows = np.zeros((len(shard.x.frames), 1))
    rows[: shard.num_frames, 0] = cluster + before[shard.first_device + device]
    shard.exchange.fill(rows, np.zeros((len(shard.x.points), 0)))
    return rows[:, 0].astype(np.int32), int(before[-1])


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
