"""Clusters of frames on each device: those that see the same points."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from daba.core.types import Int32
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_shard import LmInput, LmShard
from daba.distributed.shard import Shard
from daba.partition.partition import camera_graph, has_metis, split_cameras, stable_order


def split_frames(shard: Shard, given: LmInput, frames: float) -> Int32:
    """Cluster of each own frame, counted from 0 on each device, of about so many frames each."""
    own = shard.num_cameras
    out = np.zeros(len(given.poses), np.int32)
    device = np.searchsorted(shard.devices.camera_ptr, np.arange(own), side="right") - 1
    first = np.flatnonzero(np.diff(given.frame, prepend=-1))
    bounds = np.searchsorted(device[first], np.arange(shard.num_devices + 1))
    seen = _by_device(shard, given.frame, bounds)
    for lo, hi, (frame, point) in zip(bounds[:-1], bounds[1:], seen, strict=True):
        count = round((hi - lo) / frames)
        if count < 2:
            continue
        if count == hi - lo:
            out[lo:hi] = np.arange(count)
            continue
        load = np.bincount(frame, minlength=hi - lo)
        if has_metis():
            graph = camera_graph(frame, point, hi - lo, int(point.max()) + 1)
            found = split_cameras(graph, load, count, 0)
        else:
            from daba.partition.bisection import bisect_cameras

            found = bisect_cameras(_looks_at(shard, frame, point, load), load, count)
        out[lo:hi] = np.unique(found, return_inverse=True)[1]
    return out


def _by_device(
    shard: Shard, frame: Int32, bounds: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Frames, counted from the device's first, and points of the observations of each device's
    frames."""
    frames, points = [], []
    for obs in (shard.intra, shard.inter):
        own = np.flatnonzero(obs.camera < shard.num_cameras)
        frames.append(frame[obs.camera[own]])
        points.append(obs.point[own])
    of, point = np.concatenate(frames), np.concatenate(points)
    device = np.searchsorted(bounds, of, side="right") - 1
    order = stable_order(device, len(bounds))
    ptr = np.searchsorted(device[order], np.arange(len(bounds)))
    for lo, begin, end in zip(bounds[:-1], ptr[:-1], ptr[1:], strict=True):
        chosen = order[begin:end]
        yield of[chosen] - lo, point[chosen]


def _looks_at(shard: Shard, frame: Int32, point: Int32, load: np.ndarray) -> np.ndarray:
    """The mean of what each frame sees, points pulled to within the scene."""
    points = shard.start.points
    points = np.clip(points, *np.quantile(points[: shard.num_points], [0.02, 0.98], axis=0))
    sums = [np.bincount(frame, points[point, x], len(load)) for x in range(3)]
    return np.stack(sums, axis=1) / np.maximum(load, 1)[:, None]


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
