"""From a file to a store with memory for cameras and points, but not for observations.

Observations are read in chunks and sorted on the disk, in folders beside the store:

    by point     all observations of a point at once: the camera graph, and who owns the point
    by place     as devices keep their intra and inter observations
    by camera    as devices keep their outer observations

Every step is the one that `make_partition` and `lay_out` take for a problem in memory, and the
store is the same, bit for bit.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from daba.io import open_source
from daba.io.arrays import ArrayWriter, Entry, write_arrays
from daba.io.bal import Intrinsics
from daba.io.buckets import Buckets, even_bounds
from daba.io.files import PathLike
from daba.io.folders import output_folder
from daba.io.info import split_info
from daba.io.manifest import Counts, Manifest, Part, device_folder, schema, write_manifest
from daba.io.source import Source
from daba.io.store import write_info
from daba.layout import (
    Extent,
    Records,
    extent_of,
    first_places,
    inverse,
    number_type,
    order_cameras,
    order_points,
)
from daba.partition import (
    Partition,
    PartitionStatistics,
    Tally,
    camera_graph,
    check_devices,
    split_cameras,
    split_points,
)
from daba.problem import Ints

_ROWS = 1 << 17  # rows of a bucket, at least

_ROW = np.dtype(
    [
        ("camera", np.int32),
        ("point", np.int32),
        ("u", np.float64, 2),
        ("weight", np.float64),
        ("id", np.int64),
    ]
)


def partition_to_store(
    path: PathLike, devices: int, out: PathLike, seed: int = 0, intrinsics: Intrinsics = "paper"
) -> PartitionStatistics:
    """Read a problem from a file, partition it, and write it as a store."""
    with output_folder(out) as folder:
        scratch = folder / "scratch"
        scratch.mkdir()
        source = open_source(path, intrinsics, scratch)
        check_devices(devices, len(source.cameras))
        statistics = _Streaming(source, devices, seed, folder, scratch).run()
        shutil.rmtree(scratch)
    return statistics


@dataclass
class _Places:
    """Where everything goes."""

    partition: Partition
    extent: Extent
    camera_order: Ints
    point_order: Ints


class _Streaming:
    """One run: the steps, in their order, and what they share."""

    def __init__(
        self, source: Source, devices: int, seed: int, folder: Path, scratch: Path
    ) -> None:
        self.source, self.devices, self.seed = source, devices, seed
        self.folder, self.scratch = folder, scratch
        self.C, self.P = len(source.cameras), len(source.points)
        # Buckets may grow with the number of points, and then stay few.
        self.limit = max(_ROWS, self.P // 8)

    def run(self) -> PartitionStatistics:
        by_point, load, track = self._by_point()
        places = self._partition(by_point, load)
        by_place, outer, statistics = self._by_place(by_point, places, track)
        self._write(by_place, outer, places)
        return statistics

    def _by_point(self) -> tuple[Buckets, np.ndarray, np.ndarray]:
        """Observations in ranges of points; how many each camera and each point has."""
        load, track = np.zeros(self.C, np.int64), np.zeros(self.P, np.int64)
        for records in self.source.checked():
            load += np.bincount(records.camera, minlength=self.C)
            np.add.at(track, records.point, 1)
        buckets = self._buckets("by-point", track)
        start = 0
        for records in self.source.read():
            rows = np.empty(len(records.camera), _ROW)
            for what, array in records._asdict().items():
                rows[what] = array
            rows["id"] = np.arange(start, start + len(rows))
            buckets.add(rows["point"], rows)
            start += len(rows)
        return buckets, load, track

    def _partition(self, by_point: Buckets, load: np.ndarray) -> _Places:
        graph = None
        if self.devices > 1:
            for points, rows in by_point:
                local = rows["point"] - points.start
                part = camera_graph(rows["camera"], local, self.C, len(points))
                graph = part if graph is None else graph + part
        camera_device = split_cameras(graph, load, self.devices, self.seed)
        point_device = np.empty(self.P, np.int32)
        partition = Partition(camera_device, point_device, self.devices)
        camera_order = order_cameras(partition)
        place, first = inverse(camera_order), np.empty(self.P, np.int32)
        for points, rows in by_point:
            own = slice(points.start, points.stop)
            ends = rows["camera"], rows["point"]
            point_device[own] = split_points(*ends, camera_device, self.devices, points)
            first[own] = first_places(place[ends[0]], ends[1] - points.start, len(points))
        extent = extent_of(partition, self.source.observations)
        return _Places(partition, extent, camera_order, order_points(partition, first))

    def _by_place(
        self, by_point: Buckets, places: _Places, track: np.ndarray
    ) -> tuple[Buckets, np.ndarray, PartitionStatistics]:
        """Observations in ranges of the places of their points, now by places; and how many of
        each camera cross to another device."""
        buckets = self._buckets("by-place", track[places.point_order], places.extent.point_ptr)
        camera_place, point_place = inverse(places.camera_order), inverse(places.point_order)
        outer, tally = np.zeros(self.C, np.int64), Tally(places.partition)
        for _, rows in by_point:
            tally.add(rows["camera"], rows["point"])
            inter = (
                places.partition.camera_device[rows["camera"]]
                != places.partition.point_device[rows["point"]]
            )
            rows["camera"] = camera_place[rows["camera"]]
            rows["point"] = point_place[rows["point"]]
            outer += np.bincount(rows["camera"][inter], minlength=self.C)
            buckets.add(rows["point"], rows)
        by_point.remove()
        return buckets, outer, tally.statistics()

    def _write(self, by_place: Buckets, outer: np.ndarray, places: _Places) -> None:
        by_camera = self._buckets("by-camera", outer, places.extent.camera_ptr)
        counts = _count(by_place, outer, places.extent)
        entries: list[dict[str, Entry]] = []
        for device in range(self.devices):
            (self.folder / device_folder(device)).mkdir()
            entries.append(self._write_variables(device, places))
            entries[-1] |= self._write_own(device, counts[device], by_place, by_camera, places)
        by_place.remove()
        for device in range(self.devices):
            entries[device] |= self._write_outer(device, counts[device], by_camera, places)
        by_camera.remove()
        info, arrays = split_info(self.source.info)
        K = self.source.observations
        parts = [
            Part(count, {name: entry[name] for name in schema(count, K)})
            for count, entry in zip(counts, entries, strict=True)
        ]
        write_manifest(
            self.folder,
            Manifest(
                name=self.source.name,
                cameras=self.C,
                points=self.P,
                observations=K,
                info=info,
                info_arrays=write_info(self.folder, arrays),
                parts=parts,
            ),
        )
