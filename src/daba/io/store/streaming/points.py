"""All observations of a point at once: the camera graph, and who owns the point."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from daba.io.source import Source
from daba.io.store.streaming.buckets import ROW, Buckets, even_bounds
from daba.partition.ordering import (
    DeviceRanges,
    first_cameras,
    inverse,
    order_cameras,
    order_points,
    ranges_of,
)
from daba.partition.partition import (
    Chunk,
    Partition,
    camera_graph,
    settle_cameras,
    split_cameras,
    split_points,
)
from daba.problem.problem import Ints


class ObservationsByPoint(NamedTuple):
    """Observations in ranges of points, by the problem's numbers."""

    buckets: Buckets
    load: np.ndarray
    """Observations of each camera."""
    track: np.ndarray
    """Observations of each point."""


class StreamedOrder(NamedTuple):
    """Who owns what, and where it goes."""

    partition: Partition
    ranges: DeviceRanges
    camera_order: Ints
    """The problem's camera at each index of device order."""
    point_order: Ints


def gather_by_point(source: Source, scratch: Path, limit: int) -> ObservationsByPoint:
    """Read the observations twice: to check and count them, and to sort them."""
    load = np.zeros(len(source.cameras), np.int64)
    track = np.zeros(len(source.points), np.int64)
    for records in source.checked():
        np.add.at(load, records.camera, 1)
        np.add.at(track, records.point, 1)
    buckets = Buckets(scratch / "by-point", track, even_bounds(track, limit))
    start = 0
    for records in source.read():
        rows = np.empty(len(records.camera), ROW)
        for what, array in records._asdict().items():
            rows[what] = array
        rows["id"] = np.arange(start, start + len(rows))
        buckets.add(rows["point"], rows)
        start += len(rows)
    return ObservationsByPoint(buckets, load, track)


def find_order(
    by_point: ObservationsByPoint, devices: int, seed: int, observations: int
) -> StreamedOrder:
    """`make_partition` and the first half of `lay_out`, one range of points after the other."""
    buckets, load, track = by_point
    graph = _graph(buckets, len(load)) if devices > 1 else None
    camera_device = split_cameras(graph, load, devices, seed)
    camera_device = settle_cameras(camera_device, load, devices, lambda: _chunks(buckets))
    partition = Partition(camera_device, np.empty(len(track), np.int32), devices)
    camera_order = order_cameras(partition)
    index, first = inverse(camera_order), np.empty(len(track), np.int32)
    for camera, point, points in _chunks(buckets):
        own = slice(points.start, points.stop)
        partition.point_device[own] = split_points(camera, point, camera_device, devices, points)
        first[own] = first_cameras(index[camera], point, len(points))
    ranges = ranges_of(partition, observations)
    return StreamedOrder(partition, ranges, camera_order, order_points(partition, first))


def _chunks(buckets: Buckets) -> Iterator[Chunk]:
    """The observations of one range of points after the other."""
    for points, rows in buckets:
        yield rows["camera"], rows["point"] - points.start, points


def _graph(buckets: Buckets, cameras: int) -> object:
    """Sum of the camera graphs of all ranges of points."""
    graph = None
    for camera, point, points in _chunks(buckets):
        part = camera_graph(camera, point, cameras, len(points))
        graph = part if graph is None else graph + part
    return graph
