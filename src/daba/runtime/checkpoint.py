"""Checkpoints: save a solve as it is, and go on from there as if nothing had happened.

A checkpoint is a folder `iteration-00000120` with one file of arrays per device, so that it can be
resumed on any number of processes, and a manifest that names the problem, the options and the
checksum of every file. It is written under another name and renamed when it is complete; the one
before it is kept.
"""

from __future__ import annotations

import io
import json
import math
import shutil
import time
import warnings
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.core.text import parse_json
from daba.distributed.comm.base import write_collectively
from daba.io.archives import Archive
from daba.io.files import PathLike, folder_target, open_output, reason, writing_folder
from daba.io.folders import begin_folder, finish_folder
from daba.problem.checks import check_finite
from daba.runtime.loop import LoopProgress
from daba.runtime.observers import Observer
from daba.runtime.result import Iteration

if TYPE_CHECKING:
    from daba.runtime.loop import Loop
    from daba.solver.interface import Solver

FORMAT, VERSION = "daba checkpoint", 1
MANIFEST = "manifest.json"
KEPT = 2
FREE = {
    "threads", "iterations", "max_seconds", "check", "function_tolerance", "gradient_tolerance",
    "patience", "report_every", "backend", "precision", "simulate_latency", "simulate_bandwidth",
}  # fmt: skip
"""Options that may differ when a solve is resumed: they do not change the next iteration."""


@dataclass
class Checkpoints(Observer):
    """Where and when a solve is saved, and what it resumes from."""

    what = "saving checkpoints"
    collective = True

    folder: PathLike | None = None
    """Where to save; one checkpoint is left at the end of a solve, however it ends."""
    every: int | None = None
    """Iterations between two checkpoints."""
    minutes: float | None = None
    """Minutes between two checkpoints."""
    resume: PathLike | None = None
    """A folder of checkpoints, whose latest is taken, or one checkpoint."""
    _saved: float = field(default_factory=time.perf_counter, repr=False)
    _last: int = field(default=-1, repr=False)

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise DabaError(f"checkpoints must be at least 1 iteration apart, not {self.every}")
        if self.minutes is not None and not self.minutes > 0:
            raise DabaError(f"minutes between checkpoints must be positive, not {self.minutes}")
        if self.folder is None and (self.every is not None or self.minutes is not None):
            raise DabaError("checkpoints need a folder; give --checkpoint DIR")
        if self.resume is not None:
            latest(Path(self.resume))
        if self.folder is not None:
            folder_target(self.folder, "a checkpoint", in_place=True)
        if self.folder is not None and not self._goes_on():
            there = _checkpoints(Path(self.folder))
            if there:  # of another solve, and the latest in a folder is the one that counts
                raise DabaError(
                    f"{self.folder} holds checkpoints already, the last is {there[-1].name}: go on "
                    f"from it with --resume {self.folder}, or choose another folder"
                )

    def _goes_on(self) -> bool:
        """Whether what is resumed lies in the folder of the checkpoints to come."""
        if self.folder is None or self.resume is None:
            return False
        resumed = Path(self.resume).resolve()
        return Path(self.folder).resolve() in (resumed, resumed.parent)

    def report(self, loop: Loop) -> None:
        """Save if it is time."""
        due = False
        if self.every is not None:
            due = loop.iteration - max(self._last, 0) >= self.every
        if self.minutes is not None:
            late = time.perf_counter() - self._saved >= 60.0 * self.minutes
            due = loop.comm.any(late and loop.comm.rank == 0) or due
        if due:
            self.save(loop)

    def end(self, loop: Loop) -> None:
        self.save(loop)

    def save(self, loop: Loop) -> None:
        """Write a checkpoint, every process its own devices. One that cannot be written is reported
        in a warning, and the next is tried: disks that were full have space again."""
        if self.folder is None or self._last == loop.iteration:
            return
        try:
            _write_checkpoint(Path(self.folder), loop)
        except DabaError as error:
            if loop.comm.rank == 0:
                text = f"no checkpoint at iteration {loop.iteration}: {error}"
                warnings.warn(text, DabaWarning, stacklevel=2)
        self._saved, self._last = time.perf_counter(), loop.iteration

    def restore(self, solver: Solver, fingerprint: dict[str, Any]) -> LoopProgress:
        """Put a fresh solver where the checkpoint left off; returns how far it had come."""
        assert self.resume is not None
        folder = latest(Path(self.resume))
        manifest, progress = _read_manifest(folder)
        _check_same(folder, manifest, solver, fingerprint)
        arrays = {}
        for device in range(solver.shard.first, solver.shard.first + solver.shard.num_devices):
            arrays[device] = _read(folder / _name(device), manifest["files"].get(_name(device)))
        try:
            solver.put_back(arrays, manifest["common"])
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise DabaError(_damaged(folder / MANIFEST, f"does not fit: {error}")) from error
        if self._goes_on():
            self._last = progress.iteration
        return progress


def latest(path: Path) -> Path:
    """The checkpoint itself, or the latest in a folder of them."""
    if (path / MANIFEST).is_file():
        return path
    found = _checkpoints(path)
    if not found:
        raise DabaError(f"{path}: there is no checkpoint here")
    return found[-1]


def _checkpoints(root: Path) -> list[Path]:
    return sorted(p for p in root.glob("iteration-*") if p.is_dir())


def _name(device: int) -> str:
    return f"device-{device:04d}.npz"


def _write_checkpoint(root: Path, loop: Loop) -> None:
    target = root / f"iteration-{loop.iteration:08d}"

    def check(path: PathLike) -> object:
        return folder_target(path, "a checkpoint")

    def begin() -> Path:
        with writing_folder(root):
            root.mkdir(parents=True, exist_ok=True)
        return begin_folder(target, check)

    def write(folder: Path) -> dict[str, int]:
        return {
            _name(device): _write(folder / _name(device), arrays)
            for device, arrays in loop.solver.device_states().items()
        }

    def finish(folder: Path, checksums: dict[str, int]) -> None:
        _write_manifest(folder, loop, checksums)
        finish_folder(folder, target, check)
        _remove_old(root)

    write_collectively(loop.comm, begin, write, finish)


def _write(path: Path, arrays: dict[str, np.ndarray]) -> int:
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    data = stream.getvalue()
    with open_output(path) as out:
        out.write(data)
    return zlib.crc32(data)


def _read(path: Path, checksum: int | None) -> dict[str, np.ndarray]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DabaError(_damaged(path, f"cannot be read: {reason(error)}")) from error
    if zlib.crc32(data) != checksum:
        raise DabaError(_damaged(path, "its checksum is not the one that was written"))
    try:
        archive = Archive(io.BytesIO(data))
        arrays = {name: archive.read(name) for name in archive.names}
        for name in ("cameras", "points"):
            check_finite(name, arrays.get(name, np.zeros(0)))
    except DabaError as error:
        raise DabaError(_damaged(path, f"cannot be used: {error}")) from error
    return arrays


def _damaged(path: Path, why: str) -> str:
    """Says which older checkpoint could be used instead."""
    text = f"the checkpoint is damaged: {path} {why}"
    older = [p for p in _checkpoints(path.parent.parent) if p.name < path.parent.name]
    if older:
        text += f"; the one before it was kept: --resume {older[-1]}"
    return text


def _write_manifest(folder: Path, loop: Loop, files: dict[str, int]) -> None:
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "iteration": loop.iteration,
        "idle": loop.idle,
        "seconds": loop.clock(),
        "problem": loop.fingerprint,
        "options": loop.options.to_dict(),
        "common": loop.solver.common_state(),
        "files": files,
        "history": [asdict(entry) for entry in loop.history],
    }
    body = json.dumps(manifest, indent=1)
    with open_output(folder / MANIFEST) as out:
        out.write(f'{{"crc32": {zlib.crc32(body.encode())},\n"checkpoint": {body}}}\n'.encode())


def _read_manifest(folder: Path) -> tuple[dict[str, Any], LoopProgress]:
    path = folder / MANIFEST
    try:
        text = path.read_text("utf-8")
        outer = parse_json(text)
        manifest, checksum = outer["checkpoint"], outer["crc32"]
        kind, version = manifest["format"], manifest["version"]
    except OSError as error:
        raise DabaError(_damaged(path, f"cannot be read: {reason(error)}")) from error
    except (ValueError, KeyError, TypeError):
        raise DabaError(_damaged(path, "is not a manifest that daba wrote")) from None
    if kind != FORMAT:
        raise DabaError(f"{path} holds a {kind!r}, not a {FORMAT!r}")
    if version != VERSION:
        raise DabaError(f"{path} was written by another daba (version {version} of the format)")
    if zlib.crc32(json.dumps(manifest, indent=1).encode()) != checksum:
        raise DabaError(_damaged(path, "has been changed"))
    try:
        progress = _progress(manifest)
        for name in ("problem", "options", "common", "files"):
            if not isinstance(manifest[name], dict):
                raise TypeError(f"{name} must be a table")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DabaError(_damaged(path, f"is not complete: {error}")) from None
    if "marks" in manifest["problem"]:  # as version 0.1 called them
        manifest["problem"]["checksums"] = manifest["problem"].pop("marks")
    return dict(manifest), progress


def _progress(manifest: dict[str, Any]) -> LoopProgress:
    """How far the solve had come; `ValueError` if that is no number."""
    history = [Iteration(**entry) for entry in manifest["history"]]
    progress = LoopProgress(manifest["iteration"], manifest["idle"], manifest["seconds"], history)
    for entry in ({name: manifest[name] for name in ("iteration", "idle", "seconds")},
                  *map(asdict, history)):  # fmt: skip
        for name, value in entry.items():
            kind = int if name in ("iteration", "idle") else (int, float)
            if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value):
                raise ValueError(f"{name} is no number")
            if name in ("iteration", "idle", "seconds") and value < 0:
                raise ValueError(f"{name} is negative")
    return progress


def _check_same(
    folder: Path,
    manifest: dict[str, Any],
    solver: Solver,
    fingerprint: dict[str, Any],
) -> None:
    """Refuse a checkpoint of another problem, partition or method."""
    for what, mine in fingerprint.items():
        theirs = manifest["problem"].get(what)
        if theirs != mine and what != "name":
            detail = "" if what == "checksums" else f" ({theirs} {what} there, {mine} here)"
            raise DabaError(f"{folder} is a checkpoint of another problem or partition{detail}")
    options = solver.options.to_dict()
    for name in sorted(set(options) - FREE):
        if manifest["options"].get(name) != options[name]:
            raise DabaError(
                f"{folder} was written with {name} = {manifest['options'].get(name)}, and this "
                f"solve has {options[name]}; a solve can only be resumed as it was begun"
            )


def _remove_old(root: Path) -> None:
    """All but the latest, and what a solve that was killed while it saved has left."""
    for path in (*_checkpoints(root)[:-KEPT], *root.glob(".iteration-*.???")):
        shutil.rmtree(path, ignore_errors=True)
