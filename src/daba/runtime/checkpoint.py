"""Checkpoints: save a solve as it is, and go on from there as if nothing had happened.

A checkpoint is a folder `iteration-00000120` with one file of arrays per device, so that it can be
resumed on any number of processes, and a manifest that names the problem, the options and the
checksum of every file. It is written under another name and renamed when it is complete; the one
before it is kept.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import time
import warnings
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.distributed.collective import write_together
from daba.io.files import PathLike, open_output, writing_folder
from daba.runtime.result import Iteration

if TYPE_CHECKING:
    from daba.runtime.loop import Run
    from daba.solver.interface import Solver

FORMAT, VERSION = "daba checkpoint", 1
KEPT = 2
FREE = {
    "threads", "iterations", "max_seconds", "check", "function_tolerance", "gradient_tolerance",
    "patience", "report_every", "backend", "precision",
}  # fmt: skip
"""Options that may differ when a solve is resumed: they do not change the next iteration."""


@dataclass
class Checkpoints:
    """Where and when a solve is saved, and what it resumes from."""

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
            _check_folder(Path(self.folder))
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

    def save_if_due(self, run: Run) -> None:
        due = False
        if self.every is not None:
            due = run.iteration - max(self._last, 0) >= self.every
        if self.minutes is not None:
            late = time.perf_counter() - self._saved >= 60.0 * self.minutes
            due = run.comm.any(late and run.comm.rank == 0) or due
        if due:
            self.save(run)

    def save(self, run: Run) -> None:
        """Write a checkpoint; every process its own devices."""
        if self.folder is None or self._last == run.iteration:
            return
        root = Path(self.folder)
        target = root / f"iteration-{run.iteration:08d}"

        def finish(folder: Path, checksums: dict[str, int]) -> None:
            _write_manifest(folder, run, checksums)
            _publish(folder, target)
            _remove_old(root)

        failure = write_together(
            run.comm,
            begin=lambda: _temporary(root, target),
            write=lambda folder: {
                _name(device): _write(folder / _name(device), arrays)
                for device, arrays in run.solver.device_states().items()
            },
            finish=finish,
            abandon=lambda folder: shutil.rmtree(folder, ignore_errors=True),
        )
        if failure and run.comm.rank == 0:
            # a solve of many hours must not end for want of a checkpoint
            text = f"no checkpoint at iteration {run.iteration}: {failure}"
            warnings.warn(text, DabaWarning, stacklevel=2)
        self._saved, self._last = time.perf_counter(), run.iteration

    def restore(self, solver: Solver, fingerprint: dict[str, Any]) -> dict[str, Any]:
        """Put a fresh solver where the checkpoint left off; returns its manifest."""
        assert self.resume is not None
        folder = latest(Path(self.resume))
        manifest = _read_manifest(folder)
        _check_same(folder, manifest, solver, fingerprint)
        arrays = {}
        for device in range(solver.shard.first, solver.shard.first + solver.shard.num_devices):
            arrays[device] = _read(folder / _name(device), manifest["files"][_name(device)])
        solver.put_back(arrays, manifest["common"])
        if self._goes_on():
            self._last = manifest["iteration"]
        return manifest


def latest(path: Path) -> Path:
    """The checkpoint itself, or the latest in a folder of them."""
    if (path / "manifest.json").is_file():
        return path
    found = _checkpoints(path)
    if not found:
        raise DabaError(f"{path}: there is no checkpoint here")
    return found[-1]


def _checkpoints(root: Path) -> list[Path]:
    return sorted(p for p in root.glob("iteration-*") if p.is_dir())


def _name(device: int) -> str:
    return f"device-{device:04d}.npz"


def _check_folder(root: Path) -> None:
    """Raise `DabaError` if nothing can be saved there."""
    if root.exists() and not root.is_dir():
        raise DabaError(f"cannot write {root}: it is a file, and checkpoints need a folder")
    if not root.absolute().parent.is_dir():
        raise DabaError(
            f"cannot write {root}: the folder {root.parent} does not exist; create it first"
        )
    if not os.access(root if root.is_dir() else root.absolute().parent, os.W_OK):
        raise DabaError(f"cannot write {root}: permission denied")


def _temporary(root: Path, target: Path) -> Path:
    import secrets

    with writing_folder(root):
        root.mkdir(exist_ok=True)
        folder = root / f".{target.name}.{secrets.token_hex(4)}.tmp"
        folder.mkdir()
    return folder


def _write(path: Path, arrays: dict[str, np.ndarray]) -> int:
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    data = stream.getvalue()
    with open_output(path) as out:
        out.write(data)
    return zlib.crc32(data)


def _read(path: Path, checksum: int) -> dict[str, np.ndarray]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DabaError(_damaged(path, f"cannot be read: {error.strerror}")) from error
    if zlib.crc32(data) != checksum:
        raise DabaError(_damaged(path, "its checksum is not the one that was written"))
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _damaged(path: Path, why: str) -> str:
    """Says which older checkpoint could be used instead."""
    text = f"the checkpoint is damaged: {path} {why}"
    older = [p for p in _checkpoints(path.parent.parent) if p.name < path.parent.name]
    if older:
        text += f"; the one before it was kept: --resume {older[-1]}"
    return text


def _write_manifest(folder: Path, run: Run, files: dict[str, int]) -> None:
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "iteration": run.iteration,
        "idle": run.idle,
        "seconds": time.perf_counter() - run.begin,
        "problem": run.fingerprint,
        "options": run.options.to_dict(),
        "common": run.solver.common_state(),
        "files": files,
        "history": [asdict(entry) for entry in run.history],
    }
    body = json.dumps(manifest, indent=1)
    with open_output(folder / "manifest.json") as out:
        out.write(f'{{"crc32": {zlib.crc32(body.encode())},\n"checkpoint": {body}}}\n'.encode())


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    try:
        text = path.read_text()
        outer = json.loads(text)
        manifest, checksum = outer["checkpoint"], outer["crc32"]
        kind, version = manifest["format"], manifest["version"]
    except OSError as error:
        raise DabaError(_damaged(path, f"cannot be read: {error.strerror}")) from error
    except (ValueError, KeyError, TypeError):
        raise DabaError(_damaged(path, "is not a manifest that daba wrote")) from None
    if kind != FORMAT:
        raise DabaError(f"{path} holds a {kind!r}, not a {FORMAT!r}")
    if version != VERSION:
        raise DabaError(f"{path} was written by another daba (version {version} of the format)")
    if zlib.crc32(json.dumps(manifest, indent=1).encode()) != checksum:
        raise DabaError(_damaged(path, "has been changed"))
    manifest["history"] = [Iteration(**entry) for entry in manifest["history"]]
    return dict(manifest)


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
            told = "" if what == "marks" else f" ({theirs} {what} there, {mine} here)"
            raise DabaError(f"{folder} is a checkpoint of another problem or partition{told}")
    options = solver.options.to_dict()
    for name in sorted(set(options) - FREE):
        if manifest["options"].get(name) != options[name]:
            raise DabaError(
                f"{folder} was written with {name} = {manifest['options'].get(name)}, and this "
                f"solve has {options[name]}; a solve can only be resumed as it was begun"
            )


def _publish(folder: Path, target: Path) -> None:
    with writing_folder(target):
        if target.exists():  # an older run's, or this iteration saved before: ours is as good
            shutil.rmtree(target)
        folder.rename(target)


def _remove_old(root: Path) -> None:
    """All but the latest, and what a solve that was killed while it saved has left."""
    for path in (*_checkpoints(root)[:-KEPT], *root.glob(".iteration-*.tmp")):
        shutil.rmtree(path, ignore_errors=True)
