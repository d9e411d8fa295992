"""The native store: a folder with a manifest and, for each device, arrays to be memory-mapped.

    manifest.json                       counts, and type, shape and CRC-32 of every file
    info-NAME.npy                       arrays of `problem.info`, such as colours
    device-0000/camera_id.npy, …        what `layout.Piece` holds, one file for each array
    device-0000/intra-id.npy            the problem's own number of each observation
    device-0000/constraint-shared.npy   the constraints, if there are any

A process opens only the pieces it works on; `Store.load` puts the whole problem together again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from daba.core.errors import DabaError
from daba.io.files import PathLike
from daba.io.folders import output_folder
from daba.io.info import checked_info, own_errors, split_info
from daba.io.source import CHUNK
from daba.io.store.arrays import Entry, open_array, write_arrays
from daba.io.store.checks import check_array, check_distinct, check_order
from daba.io.store.manifest import (
    CONSTRAINT,
    DeviceCounts,
    Manifest,
    Part,
    device_folder,
    read_manifest,
    schema,
    write_manifest,
)
from daba.partition.ordering import Extent, Layout, Piece, Records, inverse, lay_out
from daba.partition.partition import Partition, make_partition
from daba.partition.statistics import PartitionStatistics, StatisticsSum
from daba.problem.constraints import ARRAYS, Constraints, concatenate, from_arrays, validate
from daba.problem.problem import CAMERA_RECORD, Floats, Ints, Problem


class Store:
    """A store that is open to read. Files are checked when they are first used: that they are as
    they were written, and that what they hold makes sense."""

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
        self._checked: set[Path | str] = set()

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
    def extent(self) -> Extent:
        parts = self.manifest.parts
        return Extent(
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

    def piece(self, device: int) -> Piece:
        """What a device holds, memory-mapped and read-only."""
        return Piece(
            camera_id=self.array(device, "camera_id"),
            point_id=self.array(device, "point_id"),
            cameras=self.array(device, "cameras"),
            points=self.array(device, "points"),
            intra=self._records(device, "intra"),
            inter=self._records(device, "inter"),
            outer=self._records(device, "outer"),
            constraints=self._constraints(device),
        )

    def focal(self, device: int) -> Floats:
        """Focal lengths of the device's cameras, in pixels."""
        return self.array(device, "focal")

    def numbers(self, device: int) -> tuple[Ints, Ints]:
        """The problem's numbers of the piece's intra and inter observations."""
        return self.array(device, "intra-id"), self.array(device, "inter-id")

    def array(self, device: int, name: str) -> np.ndarray:
        """One file of a device, memory-mapped and read-only."""
        path = self.path / device_folder(device) / f"{name}.npy"
        new = path not in self._checked
        array = self._open(path, self.manifest.parts[device].arrays[name])
        if new:
            with _named(path):
                check_array(name, array, device, self.extent)
        return array

    def partition(self) -> Partition:
        """The partition that the store was made with, in the problem's own order."""
        cameras = np.empty(self.manifest.cameras, np.int32)
        points = np.empty(self.manifest.points, np.int32)
        for name, owner in (("camera_id", cameras), ("point_id", points)):
            self._order(name)
            for device in range(self.devices):
                owner[self.array(device, name)] = device
        return Partition(cameras, points, self.devices)

    def statistics(self) -> PartitionStatistics:
        """Statistics of the partition that the store was made with."""
        cameras, points = np.diff(self.extent.camera_ptr), np.diff(self.extent.point_ptr)
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
        m = self.manifest
        camera_order, point_order = self._order("camera_id"), self._order("point_id")
        cameras, points = np.empty((m.cameras, CAMERA_RECORD)), np.empty((m.points, 3))
        focal = np.empty(m.cameras)
        # What no file gives a value would be -1, or NaN, and `validated` would refuse it.
        camera_index = np.full(m.observations, -1, np.int32)
        point_index = np.full(m.observations, -1, np.int32)
        u, weights = np.full((m.observations, 2), np.nan), np.empty(m.observations)
        constraints: list[Constraints | None] = []
        try:
            for device in range(self.devices):
                piece = self.piece(device)
                cameras[piece.camera_id] = piece.cameras
                focal[piece.camera_id] = self.focal(device)
                points[piece.point_id] = piece.points
                constraints.append(piece.constraints)
                for records, id in zip(
                    (piece.intra, piece.inter), self.numbers(device), strict=True
                ):
                    camera_index[id] = camera_order[records.camera]
                    point_index[id] = point_order[records.point]
                    u[id], weights[id] = records.u, records.weight
            info = {
                key: value.copy() if isinstance(value, np.ndarray) else value
                for key, value in self.info.items()
            }
            joined = concatenate(constraints, self.extent.camera_ptr, self.extent.point_ptr)
            order = inverse(camera_order), inverse(point_order)
            whole = joined and joined.take(*order, (m.cameras, m.points))
            return Problem(
                cameras, points, camera_index, point_index, u, weights, focal, m.name, info,
                own_errors=own_errors(info), **vars(whole or Constraints()),
            ).validated()  # fmt: skip
        except DabaError as error:
            if str(error).startswith(str(self.path)):
                raise
            raise DabaError(f"{self.path}: {error}") from error

    def _constraints(self, device: int) -> Constraints | None:
        losses, entries = self.manifest.prior_losses, self.manifest.parts[device].arrays
        if losses is None:
            return None
        names = [name for name in ARRAYS if constraint_file(name) in entries]
        try:
            found = from_arrays(
                {name: self.array(device, constraint_file(name)) for name in names}, losses
            )
        except (KeyError, TypeError, ValueError):
            raise DabaError(f"{self.path} is damaged: its priors are incomplete") from None
        if found is not None:
            with _named(self.path / device_folder(device)):
                focal, points = self.focal(device), self.manifest.parts[device].counts.points
                validate(found, self.array(device, "cameras"), focal, points)
        return found

    def _order(self, name: str) -> Ints:
        """The problem's number of each camera or point, in device order: each once."""
        order = np.concatenate([self.array(device, name) for device in range(self.devices)])
        with _named(self.path):
            check_distinct(order, len(order))
        return order

    def _records(self, device: int, kind: str) -> Records:
        records = Records(*(self.array(device, f"{kind}-{what}") for what in Records._fields))
        if (label := f"{device} {kind}") not in self._checked:
            with _named(self.path / device_folder(device)):
                check_order(kind, records)
            self._checked.add(label)
        return records

    def _open(self, path: Path, entry: Entry) -> np.ndarray:
        array = open_array(path, entry, check=path not in self._checked)
        self._checked.add(path)
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


def save(problem: Problem, path: PathLike, devices: int = 1, seed: int = 0) -> None:
    """Partition a problem and write it as a store."""
    write_store(lay_out(problem, make_partition(problem, devices, seed)), path)


def write_store(layout: Layout, path: PathLike) -> None:
    """Write a problem, laid out, as a store: whole or not at all."""
    with output_folder(path) as folder:
        write_into(layout, folder)


def write_into(layout: Layout, folder: Path) -> None:
    """The files of a store, into an empty folder."""
    problem = layout.problem
    info, info_arrays = split_info(problem.info)
    write_manifest(
        folder,
        Manifest(
            name=problem.name,
            cameras=problem.num_cameras,
            points=problem.num_points,
            observations=problem.num_observations,
            info=info,
            info_arrays=write_info(folder, info_arrays),
            prior_losses=None if layout.constraints is None else layout.constraints.losses(),
            parts=[_write_piece(layout, a, folder) for a in range(layout.extent.devices)],
        ),
    )


def _write_piece(layout: Layout, device: int, folder: Path) -> Part:
    piece, (intra_id, inter_id) = layout.piece(device), layout.numbers(device)
    arrays: dict[str, np.ndarray] = {
        "camera_id": piece.camera_id,
        "point_id": piece.point_id,
        "focal": layout.problem.focal[piece.camera_id],
        "cameras": piece.cameras,
        "points": piece.points,
    }
    for kind, records in (("intra", piece.intra), ("inter", piece.inter), ("outer", piece.outer)):
        arrays |= {f"{kind}-{what}": array for what, array in records._asdict().items()}
    arrays |= {"intra-id": intra_id, "inter-id": inter_id}
    counts = DeviceCounts(
        len(piece.camera_id), len(piece.point_id), len(intra_id), len(inter_id), len(piece.outer.u)
    )
    here = folder / device_folder(device)
    here.mkdir()
    constraints = {} if piece.constraints is None else piece.constraints.to_arrays()
    names = schema(counts, layout.extent.observations)
    return Part(
        counts,
        write_arrays(
            here,
            {name: arrays[name] for name in names}
            | {constraint_file(name): array for name, array in constraints.items()},
        ),
    )


def constraint_file(name: str) -> str:
    return CONSTRAINT + name


def write_info(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, Entry]:
    """The arrays of `problem.info`; their entries go by the key in `info`."""
    names = {info_file(key).removesuffix(".npy"): key for key in arrays}
    entries = write_arrays(folder, {name: arrays[key] for name, key in names.items()})
    return {names[name]: entry for name, entry in entries.items()}


def info_file(key: str) -> str:
    return f"info-{quote(key, safe=' ')}.npy"
