"""Observations in the order in which devices keep them, into the files of the store."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from daba.io.source import Source
from daba.io.store.arrays import ArrayWriter, Entry, write_arrays
from daba.io.store.manifest import DeviceCounts, Part, device_folder, schema
from daba.io.store.streaming.buckets import Buckets, even_bounds
from daba.io.store.streaming.points import ObservationsByPoint, StreamedOrder
from daba.partition.ordering import inverse
from daba.partition.statistics import PartitionStatistics, StatisticsSum


class ObservationsByDevice(NamedTuple):
    """Observations in device order."""

    buckets: Buckets
    """All of them, in ranges of points."""
    outer: Buckets
    """The observations that cross between devices, in ranges of cameras; yet to be filled."""
    counts: list[DeviceCounts]
    """What each device has."""
    statistics: PartitionStatistics


def sort_by_device(
    by_point: ObservationsByPoint, order: StreamedOrder, scratch: Path, limit: int
) -> ObservationsByDevice:
    """Renumber observations in device order; buckets end where devices do."""
    partition, ranges = order.partition, order.ranges
    S, C = partition.devices, ranges.cameras
    track = by_point.track[order.point_order]
    buckets = Buckets(scratch / "by-device", track, even_bounds(track, limit, ranges.point_ptr))
    camera_index, point_index = inverse(order.camera_order), inverse(order.point_order)
    inter, outer, total = np.zeros(S, np.int64), np.zeros(C, np.int64), StatisticsSum(partition)
    for _, rows in by_point.buckets:
        total.add(rows["camera"], rows["point"])
        owner = partition.point_device[rows["point"]]
        crosses = partition.camera_device[rows["camera"]] != owner
        rows["camera"] = camera_index[rows["camera"]]
        rows["point"] = point_index[rows["point"]]
        np.add.at(inter, owner[crosses], 1)
        np.add.at(outer, rows["camera"][crosses], 1)
        buckets.add(rows["point"], rows)
    counts = [
        DeviceCounts(len(t), len(p), int(k.sum()) - int(n), int(n), int(o.sum()))
        for t, p, k, n, o in zip(
            np.split(order.camera_order, ranges.camera_ptr[1:-1]),
            np.split(order.point_order, ranges.point_ptr[1:-1]),
            np.split(track, ranges.point_ptr[1:-1]),
            inter,
            np.split(outer, ranges.camera_ptr[1:-1]),
            strict=True,
        )
    ]
    crossing = Buckets(scratch / "outer", outer, even_bounds(outer, limit, ranges.camera_ptr))
    return ObservationsByDevice(buckets, crossing, counts, total.statistics())


def write_devices(
    source: Source, order: StreamedOrder, by_device: ObservationsByDevice, folder: Path
) -> list[Part]:
    """All files of all devices. Outer observations are the inter ones of other devices, so they
    are complete only after those of the last device."""
    devices = range(order.partition.devices)
    entries: list[dict[str, Entry]] = []
    for device in devices:
        (folder / device_folder(device)).mkdir()
        entries.append(_write_variables(source, order, device, folder))
        entries[device] |= _write_own(order, by_device, device, folder)
    by_device.buckets.remove()
    for device in devices:
        entries[device] |= _write_outer(order, by_device, device, folder)
    by_device.outer.remove()
    parts = []
    for device in devices:
        counts = by_device.counts[device]
        names = schema(counts, order.ranges.observations)
        parts.append(Part(counts, {name: entries[device][name] for name in names}))
    return parts


def _write_variables(
    source: Source, order: StreamedOrder, device: int, folder: Path
) -> dict[str, Entry]:
    e = order.ranges
    camera_id = order.camera_order[e.camera_ptr[device] : e.camera_ptr[device + 1]]
    point_id = order.point_order[e.point_ptr[device] : e.point_ptr[device + 1]]
    arrays: dict[str, np.ndarray] = {
        "camera_id": camera_id,
        "point_id": point_id,
        "focal": source.focal[camera_id],
        "cameras": source.cameras[camera_id],
        "points": source.points[point_id],
    }
    return write_arrays(folder / device_folder(device), arrays)


def _write_own(
    order: StreamedOrder, by_device: ObservationsByDevice, device: int, folder: Path
) -> dict[str, Entry]:
    """Intra and inter observations, sorted by point and camera."""
    cameras = order.ranges.camera_ptr[device : device + 2]
    with _Files(folder, device, by_device, order, ("intra", "inter")) as files:
        for rows in by_device.buckets.within(*order.ranges.point_ptr[device : device + 2]):
            rows = rows[np.lexsort((rows["camera"], rows["point"]))]
            here = (rows["camera"] >= cameras[0]) & (rows["camera"] < cameras[1])
            files.append("intra", rows[here])
            inter = rows[~here]
            files.append("inter", inter)
            by_device.outer.add(inter["camera"], inter)
        return files.finish()


def _write_outer(
    order: StreamedOrder, by_device: ObservationsByDevice, device: int, folder: Path
) -> dict[str, Entry]:
    """Outer observations, sorted by camera and, as they were added so, point."""
    with _Files(folder, device, by_device, order, ("outer",)) as files:
        for rows in by_device.outer.within(*order.ranges.camera_ptr[device : device + 2]):
            files.append("outer", rows[np.argsort(rows["camera"], kind="stable")])
        return files.finish()


class _Files(ExitStack):
    """The files of some kinds of observations of a device, while they are written."""

    def __init__(
        self,
        folder: Path,
        device: int,
        by_device: ObservationsByDevice,
        order: StreamedOrder,
        kinds: tuple[str, ...],
    ) -> None:
        super().__init__()
        arrays = schema(by_device.counts[device], order.ranges.observations)
        self._writers = {
            name: self.enter_context(
                ArrayWriter(folder / device_folder(device) / f"{name}.npy", dtype, shape)
            )
            for name, (dtype, shape) in arrays.items()
            if name.startswith(kinds) and "-" in name
        }

    def append(self, kind: str, rows: np.ndarray) -> None:
        for name, writer in self._writers.items():
            if name.startswith(kind):
                column = rows[name.removeprefix(f"{kind}-")]
                writer.append(column.astype(writer.dtype, copy=False))

    def finish(self) -> dict[str, Entry]:
        return {name: writer.finish() for name, writer in self._writers.items()}
