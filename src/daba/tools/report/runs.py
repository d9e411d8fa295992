"""Runs as a report takes them: read from history.json, and checked before anything is drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daba.core.errors import DabaError
from daba.core.text import parse_json
from daba.core.types import frozen
from daba.io.files import PathLike, read_whole
from daba.problem.outliers import Dropped
from daba.problem.problem import Floats, Ints
from daba.runtime.result import Result
from daba.tools.report.overview import unpack

COLUMNS = (
    "iteration", "seconds", "objective", "mean_objective", "rms_pixels", "restarts",
    "pcg_iterations", "lm_retries", "bytes_sent", "compute_seconds", "waiting_seconds",
    "exchange_seconds",
)  # fmt: skip
LATER = ("rounds", "all_reduces", "boundary_bytes", "summed_bytes", "network_seconds")
"""Columns that older histories do not have; there they are 0. …"""
SO_FAR = {"rounds so far": ("rounds",), "bytes so far": ("boundary_bytes", "summed_bytes")}
"""… and what is added up from them."""
LARGEST = 1e150
"""Of numbers in a history: sums of such, and a margin beside them, are numbers still."""


class Process(NamedTuple):
    """What one process did."""

    rank: int
    devices: int
    computing: float
    waiting: float
    exchanging: float
    sent: float
    """Bytes, to all its neighbours."""
    neighbours: int
    memory: float
    """Bytes, at most."""


class ErrorCounts(NamedTuple):
    """Pixel errors at one time."""

    mean: float
    rms: float
    counts: np.ndarray


@frozen
class Overview:
    """What is known of the solution beside the history."""

    devices: dict[str, list[int]]
    edges: Floats
    start: ErrorCounts
    solution: ErrorCounts
    worst: list[dict[str, Any]]
    size: Floats
    """Width and height of the map, in the scene's units."""
    cameras: tuple[Floats, Ints]
    points: tuple[Floats, Ints]
    machine: dict[str, Any]
    noun: str
    """What cameras are called: images, where the file has their names."""
    lenses: list[dict[str, Any]]
    """Intrinsics before and after, where they have changed."""


@frozen
class RecordedRun:
    """One solve."""

    name: str
    version: str
    problem: dict[str, Any]
    options: dict[str, Any]
    history: dict[str, Floats]
    """Columns of the iterations, by name."""
    reason: str
    linear_solver: str
    chosen: str = ""
    """Why the method is what it is, where nobody has asked for it."""
    processes: list[Process] = field(default_factory=list)
    overview: Overview | None = None
    """None if it was not recorded."""
    notes: list[str] = field(default_factory=list)
    dropped: list[tuple[str, str]] = field(default_factory=list)
    """What a filter took out, in words."""
    pixels: tuple[float, float] = (float("nan"), float("nan"))
    """Root mean square of the pixel error at the start and at the solution, where it is known."""
    colmap: tuple[float, float] | None = None
    """The mean reprojection error as COLMAP reports it, of one of its models."""

    @property
    def made(self) -> int:
        return int(self.history["iteration"][-1])

    @property
    def seconds(self) -> float:
        return float(self.history["seconds"][-1])

    @property
    def devices(self) -> int:
        return int(self.options["devices"])

    @property
    def method(self) -> str:
        return "lm" if self.devices == 1 else str(self.options["method"])

    def ends(self, column: str) -> tuple[float, float]:
        """First and last value."""
        return float(self.history[column][0]), float(self.history[column][-1])

    def total(self, column: str) -> int:
        return int(np.nansum(self.history[column]))


def alike(a: RecordedRun, b: RecordedRun) -> bool:
    """Whether the two minimise the same function."""
    names = ("loss", "loss_radius")
    same = all(a.options.get(name) == b.options.get(name) for name in names)
    return same and {**a.problem, "inter_share": 0} == {**b.problem, "inter_share": 0}


def read_run(path: PathLike) -> dict[str, Any]:
    """A history.json, as it is; its path is kept for the errors that `make_runs` finds."""
    try:
        data = parse_json(read_whole(path).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DabaError(f"{path} is not JSON: it is not text") from error
    except json.JSONDecodeError as error:
        raise DabaError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from error
    except ValueError as error:
        raise DabaError(f"{path} is not a history of daba: {error}") from error
    return {"path": str(path), "data": data}


def make_runs(
    given: Sequence[Result | Mapping[str, Any]], names: Sequence[str] | None = None
) -> list[RecordedRun]:
    """Results, what `overview.record` made, and what `read_run` read, named apart."""
    if not given:
        raise DabaError("nothing to report: no runs were given")
    plain, paths = [], []
    for number, one in enumerate(given):
        if isinstance(one, Result):
            from daba.tools.report.overview import record

            plain.append(record(one))
            paths.append(f"run {number + 1}")
        elif set(one) == {"path", "data"}:
            plain.append(one["data"])
            paths.append(one["path"])
        else:
            plain.append(dict(one))
            paths.append(f"run {number + 1}")
    runs = [_checked(data, path) for data, path in zip(plain, paths, strict=True)]
    if names is None:
        names = _names(runs, paths)
    return [_renamed(run, name) for run, name in zip(runs, names, strict=True)]


def _names(runs: list[RecordedRun], paths: list[str]) -> list[str]:
    """Method and devices, where that tells them apart; else the files' names."""
    words = [
        run.method if run.devices == 1 else f"{run.method}, {run.devices} devices" for run in runs
    ]
    for choice in (words, [Path(p).stem for p in paths], paths):
        if len(set(choice)) == len(runs):
            return choice
    return [f"{number + 1}: {Path(path).stem}" for number, path in enumerate(paths)]


def _renamed(run: RecordedRun, name: str) -> RecordedRun:
    return RecordedRun(**{**vars(run), "name": name})


def _checked(data: Any, path: str) -> RecordedRun:
    try:
        return _run(data)
    except KeyError as error:
        raise DabaError(f"{path} is not a history of daba: {error} is missing") from error
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise DabaError(f"{path} is not a history of daba: {error}") from error


def _run(data: Any) -> RecordedRun:
    if not isinstance(data, Mapping):
        raise ValueError("it holds no object")
    rows, p, options, result = (
        data[name] for name in ("iterations", "problem", "options", "result")
    )
    if not rows:
        raise ValueError("it has no iterations")
    history = {name: np.array([_real(row[name]) for row in rows]) for name in COLUMNS}
    history |= {name: np.array([_real(row.get(name, 0)) for row in rows]) for name in LATER}
    for name, columns in SO_FAR.items():
        history[name] = np.nancumsum(sum(history[column] for column in columns))
    if not np.isfinite(history["iteration"]).all() or not np.isfinite(history["seconds"]).all():
        raise ValueError("an iteration has no number or no time")
    sizes = {name: int(p[name]) for name in ("cameras", "points", "observations")}
    known = dict(options)
    int(known["devices"]), str(known["method"]), str(known["loss"])
    overview = None if data.get("overview") is None else _overview(data["overview"])
    return RecordedRun(
        name="",
        version=str(data["daba"]),
        problem={"name": str(p["name"]), "inter_share": float(p["inter_share"]), **sizes},
        options=known,
        history=history,
        reason=str(result["reason"]),
        linear_solver=str(result["linear_solver"]),
        chosen=str(result.get("chosen") or ""),
        processes=[_process(rank) for rank in data.get("ranks", [])],
        overview=overview,
        notes=[str(note) for note in result.get("notes") or []],
        dropped=_dropped(result.get("dropped")),
        pixels=_pixels(result, overview),
        colmap=_colmap(result.get("colmap")),
    )


def _pixels(result: Mapping[str, Any], overview: Overview | None) -> tuple[float, float]:
    if overview is not None:
        return overview.start.rms, overview.solution.rms
    known = [result.get(name) or {} for name in ("start_pixel_error", "pixel_error")]
    return _real(known[0].get("rms")), _real(known[1].get("rms"))


def _colmap(errors: Any) -> tuple[float, float] | None:
    return None if errors is None else (_real(errors["start_px"]), _real(errors["mean_px"]))


def _dropped(data: Any) -> list[tuple[str, str]]:
    if data is None:
        return []
    return Dropped(**{f.name: data[f.name] for f in fields(Dropped) if f.name in data}).rows()


def _real(value: Any) -> float:
    """JSON has no NaN and no infinity: there it is null."""
    number = float("nan") if value is None else float(value)
    if abs(number) > LARGEST:  # not so of NaN
        raise ValueError(f"no solve tells a number like {number:g}")
    return number


def _process(rank: Mapping[str, Any]) -> Process:
    return Process(
        rank=int(rank["rank"]),
        devices=len(rank["devices"]),
        computing=_real(rank["compute_seconds"]),
        waiting=_real(rank["waiting_seconds"]),
        exchanging=_real(rank["exchange_seconds"]),
        sent=float(sum(rank["bytes_sent"].values())),
        neighbours=len(rank["bytes_sent"]),
        memory=_real(rank["peak_memory"]),
    )


def _overview(data: Mapping[str, Any]) -> Overview:
    errors, devices, seen = data["errors"], data["devices"], data["map"]
    edges = np.array(errors["edges"], float)
    if edges.ndim != 1 or not (np.diff(edges) > 0).all() or not np.isfinite(edges).all():
        raise ValueError("the edges of its histograms do not ascend")
    start, solution = (_errors(errors[when], len(edges) + 1) for when in ("start", "solution"))
    counts = {name: [int(n) for n in devices[name]]
              for name in ("cameras", "points", "observations", "inter")}  # fmt: skip
    if len({len(row) for row in counts.values()}) != 1:
        raise ValueError("its devices have different counts")
    size = np.array(seen["size"], float).reshape(2)
    if not (np.isfinite(size) & (size > 0)).all():
        raise ValueError("its map has no size")
    return Overview(
        devices=counts,
        edges=edges,
        start=start,
        solution=solution,
        worst=[_camera(camera) for camera in data["worst_cameras"]],
        size=size,
        cameras=unpack(seen["cameras"]),
        points=unpack(seen["points"]),
        machine=dict(data["machine"]),
        noun=str(data.get("noun", "camera")),
        lenses=[_lens(lens) for lens in data.get("lenses", [])],
    )


def _errors(data: Mapping[str, Any], bins: int) -> ErrorCounts:
    counts = np.array(data["counts"], np.int64)
    if counts.shape != (bins,):
        raise ValueError(f"a histogram has {len(counts)} counts, not {bins}")
    return ErrorCounts(_real(data["mean"]), _real(data["rms"]), counts)


def _lens(data: Mapping[str, Any]) -> dict[str, Any]:
    names = [str(name) for name in data["parameters"]]
    values = {when: [_real(value) for value in data[when]] for when in ("start", "solution")}
    if any(len(row) != len(names) for row in values.values()):
        raise ValueError("a lens has not one value for each of its parameters")
    return {
        "camera": int(data["camera"]),
        "model": str(data["model"]),
        "images": int(data["images"]),
        "parameters": names,
        **values,
    }


def _camera(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "camera": int(data["camera"]),
        "image": str(data.get("image", "")),
        "id": int(data.get("id", data["camera"])),
        "device": int(data["device"]),
        "observations": int(data["observations"]),
        "start": _real(data["start"]),
        "solution": _real(data["solution"]),
    }
