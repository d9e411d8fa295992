"""The native store: a folder with a manifest and, for each device, arrays to be memory-mapped.

    manifest.json                       counts, and type, shape and CRC-32 of every file
    info-NAME.npy                       arrays of `problem.info`, such as colours
    device-0000/camera_id.npy, …        what `layout.DeviceBlock` holds, one file for each array
    device-0000/intra-id.npy            the problem's own number of each observation
    device-0000/constraint-shared.npy   the constraints, if there are any
    optics-params.npy, …                the cameras as their file describes them, if they are known
    device-0000/intra-pixels.npy        pixels of observations, if they are not u times focal

A process opens only the blocks it works on; `Store.load` puts the whole problem together again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.io.files import PathLike
from daba.io.info import checked_info
from daba.io.source import CHUNK
from daba.io.store.arrays import Entry, Reading, open_array
from daba.io.store.checks import check_distinct, check_indices, check_numbers, check_order
from daba.io.store.manifest import (
    constraint_file,
    device_folder,
    info_file,
    optics_file,
    read_manifest,
)
from daba.partition.ordering import (
    ON_HOST,
    DeviceBlock,
    DeviceRanges,
    Error,
    NumpyArrays,
    Records,
)
from daba.partition.partition import Partition
from daba.partition.statistics import PartitionStatistics, StatisticsSum
from daba.problem.checks import PIECE
from daba.problem.constraints import (
    ARRAYS,
    Constraints,
    from_arrays,
    validate,
    validate_groups,
)
from daba.problem.intrinsics import forward_rows
from daba.problem.optics import Optics
from daba.problem.problem import Floats, Ints, Problem
from daba.problem.rays import radial_optics


class Store:
    """A store that is open to read. Files are checked when they are first used: that they are as
    they were written, that indices lead somewhere, and, of what a device works on, that all of it
    makes sense."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            what = "it is a file" if self.path.exists() else "there is no such folder"
            raise DabaError(f"{path} is not a daba store: {what}")
        self.manifest = read_manifest(self.path)
        for device in range(self.devices):
            if not (self.path / device_folder(device)).is_dir():
                raise DabaError(
                    f"{self.path / device_folder(device)} is missing: the store is incomplete"
                )
        self._undamaged: set[Path] = set()
        self._looked_through: set[Path | str] = set()
        self._sound: set[Path] = set()

    @property
    def name(self) -> str:
        """The problem's name."""
        return self.manifest.name

    @property
    def devices(self) -> int:
        """How many share the problem."""
        return len(self.manifest.parts)

    @property
    def work(self) -> list[int]:
        """Observations each device works on: its own and those shared with a neighbour."""
        return [part.counts.work for part in self.manifest.parts]

    @cached_property
    def ranges(self) -> DeviceRanges:
        parts = self.manifest.parts
        return DeviceRanges(
            np.cumsum([0] + [part.counts.cameras for part in parts]),
            np.cumsum([0] + [part.counts.points for part in parts]),
            self.manifest.observations,
        )

    @cached_property
    def info(self) -> dict[str, Any]:
        """What `Problem.info` holds."""
        arrays = {
            key: self._open(self.path / info_file(key), entry)
            for key, entry in self.manifest.info_arrays.items()
        }
        m = self.manifest
        with _named(self.path):
            return checked_info(m.info | arrays, m.cameras, m.points, m.observations)

    @cached_property
    def optics(self) -> Optics:
        """What `Problem.optics` is, without the pixels of observations. Of a problem that is only
        known as rays, the observations of all devices are read once, to fit cameras to them."""
        kept = self.manifest.optics
        if kept is None:
            return self._fitted_optics()
        tables: dict[str, Any] = {
            name: self._open(self.path / optics_file(name), entry)
            for name, entry in kept.tables.items()
        }
        return Optics(pixels=None, bundler=kept.bundler, **tables)

    def _fitted_optics(self) -> Optics:
        rows = np.empty((self.manifest.cameras, 3))
        for device in range(self.devices):
            block, first = self.device_block(device), self.ranges.camera_ptr[device]
            seen = Records.concatenate([block.intra, block.outer])
            d = np.ascontiguousarray(block.cameras[:, 12:])
            rows[block.camera_id] = forward_rows(
                seen.camera - np.int32(first), seen.u, self.focal(device), d
            )
        return radial_optics(np.arange(len(rows), dtype=np.int32), rows)

    def device_block(
        self, device: int, error: Error = "ray", arrays: NumpyArrays = ON_HOST
    ) -> DeviceBlock:
        """What a device holds, memory-mapped and read-only: of the pixel error, u are pixels and
        weights 1. Observations are begun to be put where `arrays` has them."""
        if error == "ray" and self.manifest.optics is not None and self.manifest.optics.solved:
            raise DabaError(
                f"{self.path} is a solution in pixels, and its rays are those from before it: load "
                "it and save it again (daba convert) to adjust it by rays"
            )
        return DeviceBlock(
            camera_id=self.sound(device, "camera_id"),
            point_id=self.sound(device, "point_id"),
            cameras=self.sound(device, "cameras"),
            points=self.sound(device, "points"),
            intra=self.sound_records(device, "intra", error, arrays),
            inter=self.sound_records(device, "inter", error, arrays),
            outer=self.sound_records(device, "outer", error, arrays),
            constraints=self.constraints(device),
        )

    def focal(self, device: int) -> Floats:
        """Focal lengths of the device's cameras, in pixels."""
        return self.sound(device, "focal")

    def numbers(self, device: int) -> tuple[Ints, Ints]:
        """The problem's numbers of the block's intra and inter observations."""
        return self.array(device, "intra-id"), self.array(device, "inter-id")

    def array(self, device: int, name: str) -> np.ndarray:
        """One file of a device, memory-mapped and read-only; indices lead somewhere."""
        array, path = self.opened(device, name), self._file(device, name)
        if path not in self._looked_through:
            with _named(path):
                check_indices(name, array, device, self.ranges)
            self._looked_through.add(path)
        return array

    def opened(self, device: int, name: str) -> np.ndarray:
        """The same, and nothing is known but that it is as it was written."""
        return self._open(self._file(device, name), self.manifest.parts[device].arrays[name])

    def sound(self, device: int, name: str) -> np.ndarray:
        """The same, of numbers that make sense."""
        array, path = self.array(device, name), self._file(device, name)
        if path not in self._sound:
            with _named(path):
                check_numbers(name, array, self.ranges)
            self._sound.add(path)
        return array

    def look_through(self, device: int, kind: str) -> None:
        """Read one kind of a device's observations once, each piece of them while it is in the
        cache: what is known of them then is what is known of `sound_records`, but for their order,
        which a whole problem has no use for."""
        names = [f"{kind}-{what}" for what in ("id", *Records._fields)]
        paths = [self._file(device, name) for name in names]
        if self._sound.issuperset(paths):
            return
        entries = self.manifest.parts[device].arrays
        try:
            files = [Reading(p, entries[name]) for p, name in zip(paths, names, strict=True)]
            self._look_at(device, names, files)
        except DabaError:
            for name in names:  # it is said first if one is not as it was written
                self.opened(device, name)
            raise
        for known in (self._undamaged, self._looked_through, self._sound):
            known.update(paths)

    def _look_at(self, device: int, names: list[str], files: list[Reading]) -> None:
        place = ""
        try:
            for start in range(0, len(files[0].array), PIECE):
                for name, file in zip(names, files, strict=True):
                    place, piece = f"{name}.npy", file.piece(slice(start, start + PIECE))
                    check_indices(name, piece, device, self.ranges, start)
                    check_numbers(name, piece, self.ranges, start)
        except DabaError as error:
            at = self.path / device_folder(device) / place
            raise DabaError(f"{at} is damaged: {error}") from None
        for file in files:
            file.finish()

    def check(self, device: int) -> None:
        """Look through all files of a device, needed or not."""
        for name in self.manifest.parts[device].arrays:
            self.sound(device, name)
        for kind in ("intra", "inter", "outer"):
            self.sound_records(device, kind)

    def partition(self) -> Partition:
        """The partition that the store was made with, in the problem's own order."""
        cameras = np.empty(self.manifest.cameras, np.int32)
        points = np.empty(self.manifest.points, np.int32)
        for name, owner in (("camera_id", cameras), ("point_id", points)):
            self.order(name)
            for device in range(self.devices):
                owner[self.array(device, name)] = device
        return Partition(cameras, points, self.devices)

    def statistics(self) -> PartitionStatistics:
        """Statistics of the partition that the store was made with."""
        cameras, points = np.diff(self.ranges.camera_ptr), np.diff(self.ranges.point_ptr)
        device = np.arange(self.devices, dtype=np.int32)
        total = StatisticsSum(
            Partition(np.repeat(device, cameras), np.repeat(device, points), self.devices)
        )
        for a in range(self.devices):
            for kind in ("intra", "inter"):
                camera, point = self.array(a, f"{kind}-camera"), self.array(a, f"{kind}-point")
                for start in range(0, len(camera), CHUNK):
                    k = slice(start, start + CHUNK)
                    total.add(camera[k], point[k])
        return total.statistics()

    def load(self) -> Problem:
        """The whole problem in its own order, bit for bit the one the store was made from."""
        from daba.io.store.whole import load_whole

        return load_whole(self)

    def constraints(self, device: int) -> Constraints | None:
        losses, entries = self.manifest.prior_losses, self.manifest.parts[device].arrays
        if losses is None:
            return None
        names = [name for name in ARRAYS if constraint_file(name) in entries]
        arrays = {name: self.array(device, constraint_file(name)) for name in names}
        with _named(self.path):
            try:
                found = from_arrays(arrays, losses)
            except (KeyError, TypeError, ValueError):
                raise DabaError("its priors are incomplete") from None
        if found is not None:
            with _named(self.path / device_folder(device)):
                counts = self.manifest.parts[device].counts
                validate(found, counts.cameras, counts.points)
                validate_groups(found, self.array(device, "cameras"), self.focal(device))
        return found

    def order(self, name: str) -> Ints:
        """The problem's number of each camera or point, in device order: each once."""
        order = np.concatenate([self.array(device, name) for device in range(self.devices)])
        with _named(self.path):
            try:
                check_distinct(order, len(order))
            except DabaError:
                for device in range(self.devices):
                    self.sound(device, name)  # one of them may have it twice
                raise
        return order

    def unsorted_records(self, device: int, kind: str) -> Records:
        """One kind of a device's observations; indices lead somewhere."""
        return Records(*(self.array(device, f"{kind}-{what}") for what in Records._fields))

    def records(self, device: int, kind: str, error: Error = "ray") -> Records:
        """The same, sorted as `DeviceBlock` says."""
        found = self.unsorted_records(device, kind)
        if (label := f"{device} {kind}") not in self._looked_through:
            with _named(self.path / device_folder(device)):
                check_order(kind, found.camera, found.point)
            self._looked_through.add(label)
        if error == "ray":
            return found
        pixels = self.pixels(device, kind)
        return found._replace(u=pixels, weight=np.ones(len(pixels)))

    def pixels(self, device: int, kind: str) -> Floats:
        """Where one kind of a device's observations were made, in pixels."""
        if self.manifest.has_pixels:
            return self.array(device, f"{kind}-pixels")
        found = self.unsorted_records(device, kind)
        return np.asarray(found.u * self._focals[found.camera, None])

    def sound_records(
        self, device: int, kind: str, error: Error = "ray", arrays: NumpyArrays = ON_HOST
    ) -> Records:
        """The same, of numbers that make sense; each array is on its way to where `arrays` has
        them before the next is read."""
        started = {}
        for what in Records._fields:
            array = self.sound(device, f"{kind}-{what}")
            if error == "ray" or what in ("camera", "point"):
                started[what] = arrays.start(array)
        if error == "pixel" and self.manifest.has_pixels:
            self.sound(device, f"{kind}-pixels")
        found = self.records(device, kind, error)._asdict()
        return Records(
            *(started[what] if what in started else arrays.start(found[what]) for what in found)
        )

    @cached_property
    def _focals(self) -> Floats:
        """Focal lengths of all cameras, in device order."""
        return np.concatenate([self.focal(device) for device in range(self.devices)])

    def _file(self, device: int, name: str) -> Path:
        return self.path / device_folder(device) / f"{name}.npy"

    def _open(self, path: Path, entry: Entry) -> np.ndarray:
        array = open_array(path, entry, check=path not in self._undamaged)
        self._undamaged.add(path)
        return array


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """While the content of a store is checked: say where what is wrong was found."""
    try:
        yield
    except DabaError as error:
        raise DabaError(f"{path} is damaged: {error}") from None


def load(path: PathLike) -> Problem:
    """The whole problem of a store."""
    return Store(path).load()
