"""Standard pixel errors, beside those of COLMAP's own bundle adjustment."""

from __future__ import annotations

from daba.tools.bench.methods import METHODS
from daba.tools.bench.results import BenchRun, Results
from daba.tools.report.tables import Entry, Table, number, seconds

SHOWN = ("lm", "pycolmap")


def pixels_table(results: Results, loss: str) -> Table | None:
    """None where pycolmap has not run."""
    rows: list[list[Entry]] = []
    for problem in results.problems:
        runs = [results.get(problem, name, 1, loss) for name in SHOWN]
        theirs = runs[-1]
        if theirs is None:
            continue
        row: list[Entry] = [results.label(problem), number(theirs.data["start_pixels"], 6)]
        for run in runs:
            row += ["–"] * 3 if run is None else _cells(run)
        rows.append(row)
    if not rows:
        return None
    head = ["problem", "start, rms"]
    for name in SHOWN:
        head += [f"{METHODS[name].label}, {what}" for what in ("rms", "median", "time")]
    return Table(
        title=f"A second reference: standard pixel error, {loss} loss",
        about="Root mean square and median of the error that other tools compute, in pixels. "
        "pycolmap minimises its squares with its own bundle adjustment from the same start, "
        "without observations of points behind a camera; LM minimises the paper's objective, "
        "which is the pixel error to first order and knows no behind. Both solutions are measured "
        "alike, over all observations: a few points near a camera's plane can rule the first "
        "number, not the second.",
        head=head,
        rows=rows,
    )


def _cells(run: BenchRun) -> list[str]:
    took = run.seconds if run.curves else float(run.data["solving"])
    errors = (number(run.data.get(name), 6) for name in ("pixels", "median_pixels"))
    return [*errors, seconds(took)]
