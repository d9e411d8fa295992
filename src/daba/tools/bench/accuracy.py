"""Table I, what each method reaches, and which problems there were."""

from __future__ import annotations

from daba.tools.bench.measures import reference_run
from daba.tools.bench.methods import DISTRIBUTED, METHODS
from daba.tools.bench.paper import published, published_errors
from daba.tools.bench.results import BenchRun, Results
from daba.tools.report.tables import Cell, Entry, Table, number

DIGITS = 6
"""Of a value of F / K."""


def accuracy_table(results: Results, loss: str) -> Table:
    """F / K at the end of each run, problem by problem."""
    shown = [name for name in METHODS if name in results.names("method") and name != "pycolmap"]
    rows: list[list[Entry]] = []
    for problem in results.problems:
        for devices in results.devices:
            rows += _row(results, problem, devices, loss, shown)
            rows += _paper_row(results, problem, devices, loss, shown)
    return Table(
        title=f"Accuracy with the {loss} loss (Table I)",
        about="Mean reprojection error F / K where each run ended; lower is better. **Bold** is "
        "the best method on several devices of a row; a dagger (†) marks what is better than "
        "Ceres, or than LM where Ceres was not run. Centralized methods use one device.",
        head=["problem", "devices", "start", *(METHODS[name].label for name in shown)],
        rows=rows,
        notes=_stopped(results, loss),
    )


def _stopped(results: Results, loss: str) -> list[str]:
    """Which runs a limit of time has cut short, if any: their column says less than the others."""
    cut = [
        f"{run.problem}, {METHODS[run.method].label}{f' on {run.devices}' * (run.devices > 1)} "
        f"({run.made} of {run.case['iterations']})"
        for run in results.runs
        if run.loss == loss and "time limit" in run.data.get("reason", "")
    ]
    return [f"Stopped by the limit of time, with iterations made: {'; '.join(cut)}."] if cut else []


def _row(
    results: Results, problem: str, devices: int, loss: str, shown: list[str]
) -> list[list[Entry]]:
    runs = {name: _run(results, problem, name, devices, loss) for name in shown}
    found = {name: run.final for name, run in runs.items() if run is not None}
    if not any(name in DISTRIBUTED for name in found):
        return []
    best = best_distributed(found)
    yardstick = reference_run(results, problem, loss)
    start = max(run.start for run in runs.values() if run is not None)
    row: list[Entry] = [results.label(problem), str(devices), number(start, DIGITS)]
    for name in shown:
        value = found.get(name)
        better = value is not None and is_better(value, name, yardstick)
        row.append(Cell(number(value, DIGITS), name == best, better))
    return [row]


def _run(results: Results, problem: str, method: str, devices: int, loss: str) -> BenchRun | None:
    return results.get(problem, method, 1 if METHODS[method].centralized else devices, loss)


def best_distributed(found: dict[str, float]) -> str | None:
    """The method with the lowest value."""
    some = [name for name in found if name in DISTRIBUTED]
    return min(some, key=lambda name: found[name], default=None)


def is_better(value: float, method: str, yardstick: BenchRun | None) -> bool:
    """Whether a method on several devices did better than the centralized reference."""
    return method in DISTRIBUTED and yardstick is not None and value < yardstick.final


def _paper_row(
    results: Results, problem: str, devices: int, loss: str, shown: list[str]
) -> list[list[Entry]]:
    """The paper's own row, where it has this problem."""
    published = published_errors(results.sizes(problem), loss, devices)
    if not published:
        return []
    best = best_distributed(published)
    row: list[Entry] = [results.label(problem), f"{devices}, paper", number(published["start"], 4)]
    for name in shown:
        value = published.get(name)
        better = name in DISTRIBUTED and value is not None and value < published["ceres"]
        row.append(Cell(number(value, 4), name == best, better, faint=True))
    return [row]


def problems_table(results: Results) -> Table:
    """What was solved."""
    rows: list[list[Entry]] = []
    for problem in results.problems:
        sizes = results.sizes(problem)
        row = published(sizes)
        cells = [f"{sizes[what]:,}" if what in sizes else "–"
                 for what in ("cameras", "points", "observations")]  # fmt: skip
        shares = []
        for devices in results.devices:
            runs = (results.get(problem, name, devices, loss)
                    for name in DISTRIBUTED for loss in results.losses)  # fmt: skip
            share = next((r.data["inter_share"] for r in runs if r is not None), None)
            shares.append("–" if share is None else f"{100 * share:.1f} %")
        rows.append(
            [results.label(problem), *cells, " / ".join(shares), row["row"] if row else "–"]
        )
    return Table(
        title="Problems",
        about="What was solved, and the share of observations whose camera and point are on "
        "different devices, for " + ", ".join(map(str, results.devices)) + " devices.",
        head=["problem", "cameras", "points", "observations", "across devices", "in the paper"],
        rows=rows,
    )
