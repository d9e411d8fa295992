"""The tables of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from daba.core.options import Options
from daba.core.text import size
from daba.runtime.summary import LINEAR_SOLVERS
from daba.tools.report.runs import RecordedRun, alike
from daba.tools.report.tables import Cell, Entry, Table, plain, seconds

SEEN = 1e-3
"""Relative change of an error that can be seen in four digits."""
FOCAL = ("f", "fx", "fy")
"""Parameters of cameras whose change is told as a share."""
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
    noun = next((run.overview.noun for run in runs if run.overview is not None), "camera")
    head = ["problem", f"{noun}s", "points", "observations", "per point", f"per {noun}"]
    shown: list[list[Entry]] = []
    for (name, cameras, points, observations), names in rows.items():
        row: list[Entry] = [name, *(f"{n:,}" for n in (cameras, points, observations))]
        row += [f"{observations / max(n, 1):,.1f}" for n in (points, cameras)]
        shown.append([*row, Cell(", ".join(names), prose=True)] if len(rows) > 1 else row)
    return Table("", "", [*head, "runs"] if len(rows) > 1 else head, shown)


def runs_table(runs: list[RecordedRun]) -> Table:
    """What came out, one run in a row; what no run had to count is left out."""
    counted = {"restarts": "restarts", "pcg_iterations": "CG iterations",
               "lm_retries": "steps tried again"}  # fmt: skip
    counted = {name: what for name, what in counted.items() if any(r.total(name) for r in runs)}
    rows: list[list[Entry]] = []
    for run in runs:
        first, last = run.ends("mean_objective")
        rivals = [r.ends("mean_objective")[1] for r in runs if alike(r, run)]
        rows.append([
            run.name, pixels(run.pixels[0]), _changed(*run.pixels),
            plain(first, 5), Cell(f"{last:.6g}", bold=len(rivals) > 1 and last == min(rivals)),
            f"{run.made:,}", seconds(run.seconds),
            *(f"{run.total(name):,}" for name in counted),
            LINEAR_SOLVERS.get(run.linear_solver, run.linear_solver),
        ])  # fmt: skip
    head = ["run", "px, start", "px, end", "cost, start", "cost, end", "iterations", "time",
            *counted.values(), "linear solver"]  # fmt: skip
    about = (
        "px is the root mean square of the pixel error, |observed − projected|; cost is what was "
        "minimised, per observation (the paper's F / K)."
    )
    return Table("", about, head, rows)


def worse(before: float, after: float) -> bool:
    """Whether an error has grown by more than a table shows."""
    return after > (1 + SEEN) * before


def _changed(before: float, after: float) -> Cell:
    """What came out, red where it is worse than before."""
    return Cell(pixels(after), worse=worse(before, after))


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
    head = ["device", f"{run.overview.noun}s", "points", "observations", "of others' points"]
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


def communication_table(runs: list[RecordedRun]) -> Table:
    """What devices have told each other, one run in a row."""
    simulated = any(_latency(run) is not None for run in runs)
    rows: list[list[Entry]] = []
    for run in runs:
        made = max(run.made, 1)
        counts = [f"{run.total(name):,} ({run.total(name) / made:.3g})"
                  for name in ("rounds", "all_reduces")]  # fmt: skip
        sizes = [f"{size(run.total(name))} ({size(run.total(name) / made)})"
                 for name in ("boundary_bytes", "summed_bytes")]  # fmt: skip
        rows.append([run.name, counts[0], sizes[0], counts[1], sizes[1],
                     *([_network(run)] if simulated else [])])  # fmt: skip
    about = (
        "In brackets per iteration. A round is an exchange of every device with its neighbours, "
        "bytes are those of all devices, as if each were a process of its own; in a sum each "
        "device is told the whole of it. Telling F takes one more sum for each entry of the "
        "history."
    )
    head = ["run", "rounds", "bytes in rounds", "sums over all", "bytes in sums"]
    if simulated:
        head.append("a simulated network adds")
        about += " A simulated network is computed from these counts."
    return Table("", about, head, rows)


def _latency(run: RecordedRun) -> float | None:
    return run.options.get("simulate_latency")


def _network(run: RecordedRun) -> str:
    if _latency(run) is None:
        return "–"
    added = float(run.history["network_seconds"][1:].sum())
    where = f"{_latency(run):g} ms, {run.options['simulate_bandwidth']:g} Gbit/s"
    return f"{seconds(added)} ({where})"


def errors_table(runs: list[RecordedRun]) -> Table:
    rows: list[list[Entry]] = []
    for run in runs:
        if run.overview is not None:
            a, b = run.overview.start, run.overview.solution
            mean, rms = (a.mean, b.mean), (a.rms, b.rms)
            rows.append([
                run.name, pixels(rms[0]), _changed(*rms), pixels(mean[0]), _changed(*mean),
            ])  # fmt: skip
    about = "In pixels, as a reader of the written file computes them: |observed − projected|."
    head = ["run", "rms, start", "rms, solution", "mean, start", "mean, solution"]
    return Table("", about, head, rows)


def pixels(value: float, digits: int = 4) -> str:
    """A pixel error; – where it is not known, or a point is seen nowhere."""
    return plain(value, digits) if math.isfinite(value) else "–"


def worst_table(run: RecordedRun, alone: bool) -> Table:
    assert run.overview is not None
    named = any(camera["image"] for camera in run.overview.worst)
    devices = run.devices > 1
    rows: list[list[Entry]] = []
    for c in run.overview.worst:
        row: list[Entry] = [c["image"], str(c["id"])] if named else [str(c["camera"])]
        row += [f"{c['device']}"] if devices else []
        rows.append([
            *row, f"{c['observations']:,}", pixels(c["start"]), _changed(c["start"], c["solution"])
        ])  # fmt: skip
    head = ["image", "id"] if named else ["camera"]
    head += [*(["device"] if devices else []), "observations", "start, px", "solution, px"]
    return Table("" if alone else run.name, "", head, rows)


def lenses_table(run: RecordedRun, alone: bool) -> Table:
    """One row for each parameter that has changed."""
    assert run.overview is not None
    rows: list[list[Entry]] = []
    for lens in run.overview.lenses:
        row: list[Entry] = [str(lens["camera"]), lens["model"], f"{lens['images']:,}"]
        values = zip(lens["parameters"], lens["start"], lens["solution"], strict=True)
        for name, before, after in values:
            share = name in FOCAL and before
            change = f"{100 * (after / before - 1):+.2f} %" if share else f"{after - before:+.3g}"
            rows.append([*row, name, f"{before:.6g}", f"{after:.6g}", change])
            row = ["", "", ""]
    head = ["camera", "model", "images", "parameter", "start", "solution", "change"]
    return Table("" if alone else run.name, "", head, rows)


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
