"""Table II: on how many problems a method on several devices is more accurate than Ceres."""

from __future__ import annotations

from collections.abc import Sequence

from daba.tools.bench.accuracy import is_better
from daba.tools.bench.measures import reference_run
from daba.tools.bench.methods import DISTRIBUTED, METHODS
from daba.tools.bench.paper import paper
from daba.tools.bench.results import Results
from daba.tools.report.tables import Cell, Entry, Table

LARGE = 700
"""A problem with more cameras is one of the paper's "largest"."""


def counts_table(results: Results) -> Table:
    shown = [name for name in DISTRIBUTED if name in results.names("method")]
    large = [p for p in results.problems if results.sizes(p).get("cameras", 0) > LARGE]
    groups = [("all", results.problems)] + ([("largest", large)] if large else [])
    rows: list[list[Entry]] = []
    for group, problems in groups:
        for loss in results.losses:
            title = loss if group == "all" else f"{loss}, over {LARGE} cameras"
            for name in shown:
                shares = [_share(results, problems, name, d, loss) for d in results.devices]
                rows.append([title, METHODS[name].label, *shares])
            rows.append([title, *_in_the_paper(group, loss, results.devices)])
    return Table(
        title="How often more accurate than the reference (Table II)",
        about="On how many of the problems a method ended below Ceres (or LM, where Ceres was not "
        "run), out of those it was run on.",
        head=["loss", "method", *(f"{devices} devices" for devices in results.devices)],
        rows=rows,
    )


def _in_the_paper(group: str, loss: str, devices: Sequence[int]) -> list[Cell]:
    known = paper()["counts"][group]
    total, found = known["problems"], known.get(loss, {})
    counts = [f"{found[str(d)]}/{total}" if str(d) in found else "–" for d in devices]
    return [Cell(text, faint=True) for text in (f"DABA in the paper, {total} problems", *counts)]


def _share(results: Results, problems: Sequence[str], method: str, devices: int, loss: str) -> str:
    pairs = [
        (run, reference_run(results, problem, loss))
        for problem in problems
        if (run := results.get(problem, method, devices, loss)) is not None
    ]
    known = [(run, yardstick) for run, yardstick in pairs if yardstick is not None]
    better = sum(is_better(run.final, method, yardstick) for run, yardstick in known)
    return f"{better}/{len(known)}" if known else "–"
