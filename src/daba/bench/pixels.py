"""Standard pixel errors, beside those of COLMAP's own bundle adjustment."""

from __future__ import annotations

from daba.bench.methods import METHODS
from daba.bench.results import Results, Run
from daba.bench.tables import Entry, Table, number, seconds

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
            row += (
                ["–", "–"] if run is None else [number(run.data["pixels"], 6), seconds(_took(run))]
            )
        rows.append(row)
    if not rows:
        return None
    head = ["problem", "start, px"]
    for name in SHOWN:
        head += [f"{METHODS[name].label}, px", f"{METHODS[name].label}, time"]
    return Table(
        title=f"A second reference: standard pixel error, {loss} loss",
        about="Root mean square of the error that other tools compute, in pixels. pycolmap "
        "minimises it with its own bundle adjustment from the same start; LM minimises the "
        "paper's objective, which is the pixel error to first order, and its solution is "
        "measured in the same way.",
        head=head,
        rows=rows,
    )


def _took(run: Run) -> float:
    return run.seconds if run.curves else float(run.data["solving"])
