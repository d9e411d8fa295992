"""`manifest.json` of a store: counts, and what every file must hold. Made to be read by people."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from daba.core.errors import DabaError
from daba.core.text import parse_json
from daba.core.types import frozen
from daba.io.files import read_whole
from daba.io.folders import FORMAT, MANIFEST
from daba.io.store.arrays import Entry
from daba.partition.ordering import number_type
from daba.problem.checks import CAMERA_RECORD

VERSION = 3
"""2 has constraints, and 3 cameras as their file describes them; a store without them is written as
version 1, which older ones read."""


CONSTRAINT = "constraint-"
"""What the names of files with constraints begin with."""


class DeviceCounts(NamedTuple):
    """How much a device holds."""

    cameras: int
    points: int
    intra: int
    inter: int
    outer: int

    @property
    def work(self) -> int:
        """Observations the device works on."""
        return self.intra + self.inter + self.outer


class Part(NamedTuple):
    """One device: how much it holds, and its files."""

    counts: DeviceCounts
    arrays: dict[str, Entry]


@frozen
class OpticsEntry:
    """The cameras as their file describes them, which every process reads."""

    tables: dict[str, Entry]
    bundler: bool
    pixels: bool
    """Whether devices have the pixels of observations; else these are u times focal."""
    solved: bool
    """Whether they are a solution in pixels, which the rays of the store do not know."""


@frozen
class Manifest:
    name: str
    cameras: int
    points: int
    observations: int
    info: dict[str, Any]
    info_arrays: dict[str, Entry]
    parts: list[Part]
    prior_losses: dict[str, Any] | None = None
    """Name and radius of the loss of each kind of prior; None for a problem without constraints."""
    optics: OpticsEntry | None = None

    @property
    def has_pixels(self) -> bool:
        return self.optics is not None and self.optics.pixels


def schema(
    counts: DeviceCounts, observations: int, pixels: bool = False
) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """Type and shape of every array of a device, by the name of its file; `pixels` tells whether
    observations have them."""
    cameras, points, intra, inter, outer = counts
    index, real = np.dtype(np.int32), np.dtype(np.float64)
    arrays: dict[str, tuple[np.dtype, tuple[int, ...]]] = {
        "camera_id": (index, (cameras,)),
        "point_id": (index, (points,)),
        "focal": (real, (cameras,)),
        "cameras": (real, (cameras, CAMERA_RECORD)),
        "points": (real, (points, 3)),
    }
    for kind, count in (("intra", intra), ("inter", inter), ("outer", outer)):
        arrays |= {
            f"{kind}-camera": (index, (count,)),
            f"{kind}-point": (index, (count,)),
            f"{kind}-u": (real, (count, 2)),
            f"{kind}-weight": (real, (count,)),
        }
        if pixels:
            arrays[f"{kind}-pixels"] = (real, (count, 2))
        if kind != "outer":  # those are the inter ones of other devices
            arrays[f"{kind}-id"] = (number_type(observations), (count,))
    return arrays


def device_folder(device: int) -> str:
    return f"device-{device:04d}"


def constraint_file(name: str) -> str:
    return CONSTRAINT + name


def optics_file(name: str) -> str:
    return f"optics-{name}.npy"


def info_file(key: str) -> str:
    return f"info-{quote(key, safe=' ')}.npy"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    version = 1 if manifest.prior_losses is None else 2
    content = {
        "format": FORMAT,
        "version": version if manifest.optics is None else VERSION,
        "name": manifest.name,
        "devices": len(manifest.parts),
        "cameras": manifest.cameras,
        "points": manifest.points,
        "observations": manifest.observations,
        "info": manifest.info,
        "info_arrays": _to_json(manifest.info_arrays),
        **({} if (losses := manifest.prior_losses) is None else {"prior_losses": losses}),
        **({} if manifest.optics is None else {"optics": _optics_to_json(manifest.optics)}),
        "parts": [
            {"folder": device_folder(device)}
            | part.counts._asdict()
            | {"arrays": _to_json(part.arrays)}
            for device, part in enumerate(manifest.parts)
        ],
    }
    with open(folder / MANIFEST, "x", encoding="ascii") as out:
        out.write(_text(content) + "\n")
        out.flush()
        os.fsync(out.fileno())


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a store, or why the folder is not one."""
    path = folder / MANIFEST
    if not path.exists():
        raise DabaError(f"{folder} is not a daba store: it has no {MANIFEST}")
    try:
        content = parse_json(read_whole(path))
    except ValueError as error:
        raise DabaError(f"{path} is damaged or not one that daba wrote ({error})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DabaError(f"{path}: not the manifest of a {FORMAT!r}")
    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        raise DabaError(
            f"{path}: written in version {version} of the format by a newer daba; this one reads "
            f"up to version {VERSION}, so update it"
        )
    try:
        manifest = _from_json(content)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DabaError(f"{path} is damaged: {error!r}") from error
    _check(manifest, path)
    return manifest


def _from_json(content: dict[str, Any]) -> Manifest:
    parts = [
        Part(
            DeviceCounts(*(int(part[what]) for what in DeviceCounts._fields)),
            _entries(part["arrays"]),
        )
        for part in content["parts"]
    ]
    if not parts or content["devices"] != len(parts):
        raise ValueError(f"{content['devices']} devices, but {len(parts)} parts")
    return Manifest(
        name=str(content["name"]),
        cameras=int(content["cameras"]),
        points=int(content["points"]),
        observations=int(content["observations"]),
        info=dict(content["info"]),
        info_arrays=_entries(content["info_arrays"]),
        parts=parts,
        prior_losses=content.get("prior_losses"),
        optics=None if (optics := content.get("optics")) is None else _optics_from_json(optics),
    )


def _check(manifest: Manifest, path: Path) -> None:
    """Counts must add up, and every array must be there and have the shape they ask for."""
    m = manifest
    cameras, points, intra, inter, outer = map(
        sum, zip(*(part.counts for part in m.parts), strict=True)
    )
    fits = (cameras, points, intra + inter) == (m.cameras, m.points, m.observations)
    if not fits or inter != outer or min(min(part.counts) for part in m.parts) < 0:
        raise DabaError(f"{path} is damaged: the counts of its devices do not add up")
    constrained = {frozenset(_constraints(part)) for part in m.parts}
    if len(constrained) > 1:
        raise DabaError(f"{path} is damaged: its devices have different kinds of constraints")
    for device, part in enumerate(m.parts):
        for name, (dtype, shape) in schema(part.counts, m.observations, m.has_pixels).items():
            entry = part.arrays.get(name)
            if entry is None or (entry.dtype, entry.shape) != (str(dtype), shape):
                raise DabaError(
                    f"{path} is damaged: {device_folder(device)}/{name}.npy must hold "
                    f"{dtype} {shape}"
                )


def _optics_to_json(optics: OpticsEntry) -> dict[str, Any]:
    flags = {name: getattr(optics, name) for name in ("bundler", "pixels", "solved")}
    return flags | {"tables": _to_json(optics.tables)}


def _optics_from_json(content: dict[str, Any]) -> OpticsEntry:
    flags = (bool(content[name]) for name in ("bundler", "pixels", "solved"))
    return OpticsEntry(_entries(content["tables"]), *flags)


def _constraints(part: Part) -> list[str]:
    return [name for name in part.arrays if name.startswith(CONSTRAINT)]


def _to_json(entries: Mapping[str, Entry]) -> dict[str, Any]:
    return {name: entry.to_json() for name, entry in entries.items()}


def _entries(content: dict[str, Any]) -> dict[str, Entry]:
    return {
        name: Entry(str(e["dtype"]), tuple(map(int, e["shape"])), int(e["crc32"], 16))
        for name, e in content.items()
    }


def _text(value: Any, margin: str = "") -> str:
    """JSON with a line for each array: what holds no dictionary stays on one line."""
    if not _nested(value):
        return json.dumps(value)
    deeper = margin + "  "
    if isinstance(value, dict):
        lines = [f"{json.dumps(key)}: {_text(item, deeper)}" for key, item in value.items()]
    else:
        lines = [_text(item, deeper) for item in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n" + ",\n".join(deeper + line for line in lines) + f"\n{margin}{last}"


def _nested(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any((isinstance(item, dict) and item) or _nested(item) for item in items)
