"""A solve as a film: snapshots of cameras and some points, written to a folder or watched live.

    still.npz                    who is shown, by number, device and colour; the origin
    iteration-00000012.npz       cameras and points at one iteration, float32, from the origin on

Snapshots are taken at iterations that all processes agree on: each of the first, then ever fewer.
Each process gives what its devices own, and rank 0 writes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from daba.core.errors import DabaError
from daba.io.archives import Archive
from daba.io.files import PathLike, folder_target, open_input, open_output, writing_folder
from daba.io.ply import openings
from daba.problem.problem import Floats, Ints
from daba.runtime.observers import Observer, warn_switched_off

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator
    from daba.runtime.loop import Loop
    from daba.solver.interface import Solver

CAMERAS = 5000
POINTS = 50_000
"""Most that a snapshot holds, but for rounding."""
EACH = 20
"""Iterations of which each is recorded …"""
GROWTH = 1.1
"""… before the next is so many times as far."""
STILL = "still.npz"


class Still(NamedTuple):
    """What does not change during a solve."""

    name: str
    sign: float
    """−1 where the world is that of the file reflected through the origin."""
    origin: Floats
    camera_id: Ints
    camera_device: Ints
    wide: Floats
    """Half width and height of each camera's image at distance 1, (n,2)."""
    point_id: Ints
    point_device: Ints
    colors: np.ndarray
    """(m,3) of uint8, or empty if the points have none."""


class Snapshot(NamedTuple):
    """One iteration."""

    iteration: int
    seconds: float
    mean_objective: float
    rms_pixels: float
    cameras: np.ndarray
    """R row by row and the centre from the origin on, (n,12)."""
    points: np.ndarray
    """Positions relative to the origin, (m,3)."""


Watcher = Callable[[Still, Snapshot], Any]


@dataclass
class Recorder(Observer):
    """Takes snapshots of a solve (`daba.solve(recorder=…)`) and hands them on.

    Args:
        folder: where they are written; it must be empty or new
        watchers: called with each, on rank 0
        info: `problem.info`, for the colours of points
    """

    what = "the recording"
    collective = True
    folder: PathLike | None = None
    watchers: Sequence[Watcher] = ()
    info: dict[str, Any] = field(default_factory=dict)
    _still: Still | None = None
    _past: tuple[int, float] = (0, 0.0)
    """Iterations and seconds of solves before this one, which goes on from them."""
    _next: int = 0
    _taken: tuple[int, float] = (-1, 0.0)
    """When the last snapshot was taken."""

    def __post_init__(self) -> None:
        if self.folder is not None:
            check_folder(self.folder)

    def begin(self, loop: Loop) -> None:
        """Choose what is shown, by number: every process finds what it owns of it."""
        shard = loop.solver.shard
        if self._taken[0] >= 0 and loop.earlier is None:
            self._past = self._taken
        ranges = shard.ranges
        steps = [max(1, count // most) for count, most in
                 ((ranges.cameras, CAMERAS), (ranges.points, POINTS))]  # fmt: skip
        self._mine = (
            np.flatnonzero(shard.camera_order % steps[0] == 0),
            np.flatnonzero(shard.point_order % steps[1] == 0),
        )
        parts = loop.comm.collect(_still_part(loop.solver, *self._mine))
        if loop.comm.rank == 0:
            with self._switched_off_by_errors():
                still = _put_together(parts, loop.fingerprint["name"], self.info)
                self._order = np.argsort(still.camera_id), np.argsort(still.point_id)
                if self._still is None:
                    self._still = _sorted(still, *self._order)
                    self._write(STILL, self._still._asdict())

    def report(self, loop: Loop) -> None:
        """Take a snapshot, if it is time."""
        number = self._past[0] + loop.history[-1].iteration
        if number >= self._next:
            self._next = max(number + 1, int(number * GROWTH) if number >= EACH else 0)
            self._take(loop)

    def end(self, loop: Loop) -> None:
        """The last iteration is always recorded; another solve may go on from it."""
        if self._past[0] + loop.history[-1].iteration != self._taken[0]:
            self._take(loop)

    def _take(self, loop: Loop) -> None:
        if not self._wanted(loop.comm):
            return
        entry = loop.history[-1]
        self._taken = self._past[0] + entry.iteration, self._past[1] + entry.seconds
        taken = loop.comm.collect(loop.solver.view(*self._mine))
        if loop.comm.rank == 0:
            assert self._still is not None
            cameras, points = (
                np.concatenate(part)[order]
                for part, order in zip(zip(*taken, strict=True), self._order, strict=True)
            )
            cameras[:, 9:] -= self._still.origin
            shot = Snapshot(
                *self._taken, entry.mean_objective, entry.rms_pixels,
                cameras.astype(np.float32), (points - self._still.origin).astype(np.float32),
            )  # fmt: skip
            with self._switched_off_by_errors():
                self._write(f"iteration-{shot.iteration:08d}.npz", shot._asdict())
            self._show(self._still, shot)

    def _wanted(self, comm: Communicator) -> bool:
        """Whether rank 0 still has somebody to hand snapshots to."""
        return bool(comm.broadcast(self.folder is not None or len(self.watchers) > 0))

    def _show(self, still: Still, shot: Snapshot) -> None:
        for watch in tuple(self.watchers):
            try:
                watch(still, shot)
            except Exception as error:
                warn_switched_off("the view of the solve", error)
                self.watchers = [other for other in self.watchers if other is not watch]

    @contextmanager
    def _switched_off_by_errors(self) -> Iterator[None]:
        """What only rank 0 does, and only it can know to have failed."""
        try:
            yield
        except Exception as error:
            warn_switched_off(self.what, error)
            self.folder = None
            if self._still is None:  # nor can anything be shown
                self.watchers = ()

    def _write(self, name: str, arrays: dict[str, Any]) -> None:
        if self.folder is None:
            return
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        with writing_folder(self.folder):
            Path(self.folder).mkdir(parents=True, exist_ok=True)
        with open_output(Path(self.folder) / name) as out:
            out.write(stream.getvalue())


def _still_part(solver: Solver, i: np.ndarray, j: np.ndarray) -> dict[str, np.ndarray]:
    """What one process knows of the cameras and points that it shows."""
    shard = solver.shard.on_host()
    devices = np.arange(shard.first, shard.first + shard.num_devices, dtype=np.int32)
    wide = np.zeros((shard.num_cameras, 2))
    for obs in (shard.intra, shard.inter):
        own = obs.camera < shard.num_cameras
        wide = np.maximum(wide, openings(shard.num_cameras, obs.camera[own], obs.u[own]))
    if not any(len(obs.camera) for obs in (shard.intra, shard.inter)):
        wide[:] = 0.5, 0.375  # a solver that keeps its observations elsewhere
    return {
        "camera_id": shard.camera_order[i],
        "camera_device": np.repeat(devices, np.diff(shard.devices.camera_ptr))[i],
        "wide": wide[i],
        "point_id": shard.point_order[j],
        "point_device": np.repeat(devices, np.diff(shard.devices.point_ptr))[j],
        "centers": solver.view(i, j)[0][:, 9:],
    }


def _put_together(parts: list[dict[str, np.ndarray]], name: str, info: dict[str, Any]) -> Still:
    whole = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    colors = info.get("colors")
    return Still(
        name=name,
        sign=float(info.get("world_sign", 1)),
        origin=np.median(whole.pop("centers"), axis=0),
        colors=np.empty((0, 3), np.uint8)
        if colors is None
        else np.clip(np.asarray(colors)[whole["point_id"]], 0, 255).astype(np.uint8),
        **whole,
    )


def _sorted(still: Still, cameras: np.ndarray, points: np.ndarray) -> Still:
    """Sort by number: who owns what may change from one solve to the next."""
    return still._replace(
        camera_id=still.camera_id[cameras],
        camera_device=still.camera_device[cameras],
        wide=still.wide[cameras],
        point_id=still.point_id[points],
        point_device=still.point_device[points],
        colors=still.colors[points] if len(still.colors) else still.colors,
    )


def check_folder(folder: PathLike) -> None:
    """Raise `DabaError` if no recording can be begun there."""
    target = folder_target(folder, "a recording", in_place=True)
    with writing_folder(folder):
        empty = not target.is_dir() or next(target.iterdir(), None) is None
    if not empty:
        raise DabaError(f"cannot write {folder}: it is not empty, and a recording needs a new one")


def is_recording(path: Path) -> bool:
    return (path / STILL).is_file()


def read_recording(folder: PathLike) -> tuple[Still, list[Snapshot]]:
    """Everything in a folder that `Recorder` has filled."""
    root = Path(folder)
    values = _read(root / STILL, Still._fields)
    n, m = (values[name].size for name in ("camera_id", "point_id"))
    _check(root / STILL, values, {
        "name": ("U", ()), "sign": ("f", ()), "origin": ("f", (3,)), "wide": ("f", (n, 2)),
        "camera_id": ("i", (n,)), "camera_device": ("i", (n,)),
        "point_id": ("i", (m,)), "point_device": ("i", (m,)),
        "colors": ("u", (m if values["colors"].size else 0, 3)),
    })  # fmt: skip
    values |= {"name": str(values["name"]), "sign": float(values["sign"])}
    still = Still(**values)
    shots = []
    for path in sorted(root.glob("iteration-*.npz")):
        values = _read(path, Snapshot._fields)
        _check(path, values, {
            "iteration": ("i", ()), "seconds": ("f", ()), "mean_objective": ("f", ()),
            "rms_pixels": ("f", ()), "cameras": ("f", (n, 12)), "points": ("f", (m, 3)),
        })  # fmt: skip
        numbers = {key: values[key].item() for key in Snapshot._fields[:4]}
        shots.append(Snapshot(**{**values, **numbers}))
    if not shots:
        raise DabaError(f"{root}: the recording holds no iteration")
    return still, shots


def _check(path: Path, found: dict[str, Any], expected: dict[str, tuple[str, tuple]]) -> None:
    """Raise `DabaError` unless every array has its kind and shape, and numbers are finite."""
    for name, (kind, shape) in expected.items():
        array = found[name]
        fits = array.dtype.kind == kind and array.shape == shape
        if not fits or (kind != "U" and not np.isfinite(array).all()):
            raise DabaError(
                f"{path} is damaged or does not belong to the rest: '{name}' is "
                f"{array.dtype} {array.shape}"
            )
        if name.endswith("_device") and (array.min(initial=0) < 0 or array.max(initial=0) > 2**20):
            raise DabaError(f"{path} is damaged: there is no such device")


def _read(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    with open_input(path, compressed=False) as stream:
        try:
            archive = Archive(stream)
            return {name: archive.read(name) for name in names}
        except DabaError as error:
            raise DabaError(
                f"{path} is damaged or no part of a recording of daba ({error})"
            ) from error
