"""The tables of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from daba.core.options import Options
from daba.tools.report.runs import RecordedRun, alike
from daba.tools.report.tables import Cell, Entry, Table, plain, seconds, size

ALL = 32
"""Devices or processes listed one by one; of more, the ends of the range."""


def problems_table(runs: list[RecordedRun]) -> Table:
    """Each problem once."""
    rows: dict[tuple[Any, ...], list[str]] = {}
    for run in runs:
        p = run.problem
        rows.setdefault((p["name"], p["cameras"], p["points"], p["observations"]), []).append(
            run.name
        )
    head = ["problem", "cameras", "points", "observations", "per point", "per camera"]
    shown: list[list[Entry]] = []
    for (name, cameras, points, observations), names in rows.items():
        row: list[Entry] = [name, *(f"{n:,}" for n in (cameras, points, observations))]
        row += [f"{observations / max(n, 1):,.1f}" for n in (points, cameras)]
        shown.append([*row, Cell(", ".join(names), prose=True)] if len(rows) > 1 else row)
    return Table("", "", [*head, "runs"] if len(rows) > 1 else head, shown)


def runs_table(runs: list[RecordedRun]) -> Table:
    """What came out, one run in a row."""
    rows: list[list[Entry]] = []
    for run in runs:
        first, last = run.ends("mean_objective")
        rms = run.ends("rms_pixels")
        rivals = [r.ends("mean_objective")[1] for r in runs if alike(r, run)]
        rows.append([
            run.name,
            plain(first, 5), Cell(f"{last:.6g}", bold=len(rivals) > 1 and last == min(rivals)),
            plain(rms[0]), plain(rms[1]),
            f"{run.made:,}", seconds(run.seconds),
            f"{run.total('restarts'):,}", f"{run.total('pcg_iterations'):,}",
            f"{run.total('lm_retries'):,}",
            run.linear_solver,
        ])  # fmt: skip
    head = ["run", "F / K, start", "F / K, end", "px, start", "px, end", "iterations", "time",
            "restarts", "PCG", "retries", "linear solver"]  # fmt: skip
    about = (
        "F / K is the objective over observations; px is the root mean square of the pixel error "
        "to first order, which the solver sees."
    )
    return Table("", about, head, rows)


def devices_table(run: RecordedRun) -> Table:
    assert run.overview is not None
    d = run.overview.devices
    rows: list[list[Entry]] = []
    columns = [d[name] for name in ("cameras", "points", "observations", "inter")]
    for device, (cameras, points, seen, inter) in enumerate(zip(*columns, strict=True)):
        share = f"{100 * inter / seen:.1f} %" if seen else "–"
        rows.append([str(device), f"{cameras:,}", f"{points:,}", f"{seen:,}", share])
    if len(rows) > ALL:
        rows = [
            [what, *(f"{pick(column):,.0f}" for column in columns[:3]), "–"]
            for what, pick in (("least", min), ("mean", _mean), ("most", max))
        ]
    head = ["device", "cameras", "points", "observations", "of others' points"]
    return Table(f"Devices: {run.name}", "", head, rows)


def _mean(values: list[int]) -> float:
    return sum(values) / len(values)


def processes_table(run: RecordedRun) -> Table:
    made = max(run.made, 1)
    rows: list[list[Entry]] = [
        [str(p.rank), str(p.devices), seconds(p.computing), seconds(p.waiting),
         seconds(p.exchanging), size(p.sent / made), str(p.neighbours), size(p.memory)]
        for p in run.processes
    ]  # fmt: skip
    head = ["process", "devices", "computing", "waiting", "exchanging", "sent per iteration",
            "neighbours", "peak memory"]  # fmt: skip
    return Table(f"Processes: {run.name}", "", head, rows)


def errors_table(runs: list[RecordedRun]) -> Table:
    rows: list[list[Entry]] = []
    for run in runs:
        if run.overview is not None:
            a, b = run.overview.start, run.overview.solution
            rows.append([run.name, *(_pixels(v) for v in (a.mean, b.mean, a.rms, b.rms))])
    about = "In pixels, as a reader of the written file computes them: |observed − projected|."
    head = ["run", "mean, start", "mean, solution", "rms, start", "rms, solution"]
    return Table("", about, head, rows)


def _pixels(value: float) -> str:
    return plain(value) if math.isfinite(value) else "–"


def worst_table(run: RecordedRun) -> Table:
    assert run.overview is not None
    named = any(camera["image"] for camera in run.overview.worst)
    rows: list[list[Entry]] = []
    for c in run.overview.worst:
        row: list[Entry] = [f"{c['camera']}"]
        row += [Cell(c["image"])] if named else []
        row += [f"{c['device']}", f"{c['observations']:,}"]
        rows.append([*row, _pixels(c["start"]), _pixels(c["solution"])])
    head = ["camera", *(["image"] if named else []), "device", "observations", "start, px",
            "solution, px"]  # fmt: skip
    return Table(run.name, "", head, rows)


def options_table(runs: list[RecordedRun]) -> Table:
    """All options; what is not the default is bold."""
    default = Options().to_dict()
    names = list(dict.fromkeys(name for run in runs for name in run.options))
    rows: list[list[Entry]] = []
    for name in names:
        row: list[Entry] = [name]
        for run in runs:
            value = run.options.get(name, "–")
            row.append(Cell(_word(value), bold=name in default and value != default[name]))
        rows.append(row)
    about = "What is not the default is bold; – lets daba choose."
    return Table("All options", about, ["option", *(run.name for run in runs)], rows)


def changed_options(run: RecordedRun) -> str:
    """The options that are not the default, in one line."""
    default = Options().to_dict()
    changed = {k: v for k, v in run.options.items() if k in default and v != default[k]}
    return ", ".join(f"{name} {_word(value)}" for name, value in changed.items()) or "none"


def _word(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def versions_table(runs: list[RecordedRun]) -> Table:
    known: list[tuple[str, Mapping[str, Any]]] = [
        (run.name, {"daba": run.version, **(run.overview.machine if run.overview else {})})
        for run in runs
    ]
    names = list(dict.fromkeys(key for _, versions in known for key in versions))
    rows: list[list[Entry]] = [
        [key, *(_word(versions.get(key)) for _, versions in known)] for key in names
    ]
    return Table("Versions and machine", "", ["what", *(name for name, _ in known)], rows)
