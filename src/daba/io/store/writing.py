"""Writing a problem as a store: whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from daba.io.files import PathLike
from daba.io.folders import output_folder
from daba.io.info import split_info
from daba.io.store.arrays import Entry, write_arrays
from daba.io.store.manifest import (
    DeviceCounts,
    Manifest,
    OpticsEntry,
    Part,
    constraint_file,
    device_folder,
    info_file,
    optics_file,
    schema,
    write_manifest,
)
from daba.partition.ordering import Layout, lay_out
from daba.partition.partition import make_partition
from daba.problem.optics import Optics
from daba.problem.problem import Problem


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
            optics=None if problem.given_optics is None else write_optics(folder, problem.optics),
            parts=[_write_block(layout, a, folder) for a in range(layout.ranges.devices)],
        ),
    )


def _write_block(layout: Layout, device: int, folder: Path) -> Part:
    block, (intra_id, inter_id, outer_id) = layout.device_block(device), layout.numbers(device)
    optics = layout.problem.given_optics
    pixels = None if optics is None else optics.pixels
    arrays: dict[str, np.ndarray] = {
        "camera_id": block.camera_id,
        "point_id": block.point_id,
        "focal": layout.problem.focal[block.camera_id],
        "cameras": block.cameras,
        "points": block.points,
    }
    for kind, records in (("intra", block.intra), ("inter", block.inter), ("outer", block.outer)):
        arrays |= {f"{kind}-{what}": array for what, array in records._asdict().items()}
    arrays |= {"intra-id": intra_id, "inter-id": inter_id}
    if pixels is not None:
        ids = ("intra", intra_id), ("inter", inter_id), ("outer", outer_id)
        arrays |= {f"{kind}-pixels": pixels[id] for kind, id in ids}
    counts = DeviceCounts(
        len(block.camera_id), len(block.point_id), len(intra_id), len(inter_id), len(block.outer.u)
    )
    here = folder / device_folder(device)
    here.mkdir()
    constraints = {} if block.constraints is None else block.constraints.to_arrays()
    names = schema(counts, layout.ranges.observations, pixels is not None)
    return Part(
        counts,
        write_arrays(
            here,
            {name: arrays[name] for name in names}
            | {constraint_file(name): array for name, array in constraints.items()},
        ),
    )


def write_info(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, Entry]:
    """The arrays of `problem.info`; their entries go by the key in `info`."""
    names = {info_file(key).removesuffix(".npy"): key for key in arrays}
    entries = write_arrays(folder, {name: arrays[key] for name, key in names.items()})
    return {names[name]: entry for name, entry in entries.items()}


def write_optics(folder: Path, optics: Optics, solved: bool = False) -> OpticsEntry:
    """The cameras as their file describes them, for all devices."""
    tables = {optics_file(name)[:-4]: array for name, array in optics.tables().items()}
    entries = write_arrays(folder, tables)
    names = {name: entries[optics_file(name)[:-4]] for name in optics.tables()}
    return OpticsEntry(names, optics.bundler, optics.pixels is not None, solved)
