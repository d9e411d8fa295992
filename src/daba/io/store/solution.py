"""A solution as a store: other cameras and points, all else as it was. Every process writes its own
devices."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from daba.core.errors import DabaError
from daba.io.files import PathLike, writing_folder
from daba.io.folders import abandon_folder, begin_folder, finish_folder
from daba.io.store.arrays import write_arrays
from daba.io.store.manifest import (
    Part,
    device_folder,
    info_file,
    optics_file,
    write_manifest,
)
from daba.io.store.store import Store
from daba.io.store.writing import write_optics
from daba.problem.optics import Optics
from daba.problem.problem import Floats


def write_solution(
    store: Store,
    path: PathLike,
    states: Iterable[tuple[Floats, Floats]],
    optics: Optics | None = None,
) -> None:
    """Write cameras and points of every device, with all else from `store`, as a new store. A
    solution in pixels has `optics`, too, and no d."""
    folder = begin_solution(path)
    try:
        crcs = {
            device: write_device(store, device, cameras, points, folder)
            for device, (cameras, points) in enumerate(states)
        }
        finish_solution(store, folder, path, crcs, optics)
    finally:
        abandon_folder(folder)  # unless it has its name


def begin_solution(path: PathLike) -> Path:
    """The folder that a solution is written into until it is complete; one process calls it."""
    return begin_folder(path)


def write_device(
    store: Store, device: int, cameras: Floats, points: Floats, folder: Path
) -> dict[str, int]:
    """Write new cameras and points of a device, in the order of its block, and give their
    checksums; its other files are linked, or copied where the file system has no links."""
    part = store.manifest.parts[device]
    state = {"cameras": np.asarray(cameras, np.float64), "points": np.asarray(points, np.float64)}
    for name, array in state.items():
        if array.shape != part.arrays[name].shape:
            raise DabaError(
                f"{name} of device {device} must have shape {part.arrays[name].shape}, "
                f"not {array.shape}"
            )
    here = folder / device_folder(device)
    with writing_folder(here):
        here.mkdir()
        for name in part.arrays:
            if name not in state:
                _link(store.path / device_folder(device) / f"{name}.npy", here / f"{name}.npy")
        return {name: entry.crc for name, entry in write_arrays(here, state).items()}


def finish_solution(
    store: Store,
    folder: Path,
    path: PathLike,
    crcs: dict[int, dict[str, int]],
    optics: Optics | None = None,
) -> None:
    """Write the manifest, once all devices are written, and give the store its name; one process
    calls it. `optics` are those of a solution in pixels."""
    m = store.manifest
    if set(crcs) != set(range(store.devices)):
        raise DabaError(f"a solution of {store.devices} devices cannot be made of {len(crcs)}")
    parts = []
    for device, part in enumerate(m.parts):
        new = {name: part.arrays[name]._replace(crc=crc) for name, crc in crcs[device].items()}
        parts.append(Part(part.counts, part.arrays | new))
    with writing_folder(path):
        for key in m.info_arrays:
            _link(store.path / info_file(key), folder / info_file(key))
        if optics is not None:
            entry = replace(write_optics(folder, optics, solved=True), pixels=m.has_pixels)
            m = replace(m, optics=entry)
        elif m.optics is not None:
            for name in m.optics.tables:
                _link(store.path / optics_file(name), folder / optics_file(name))
        write_manifest(folder, replace(m, parts=parts))
    finish_folder(folder, path)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)
