"""Time to a target and speed-ups: Tables III and V–VII."""

from __future__ import annotations

from collections.abc import Sequence

from daba.tools.bench.measures import TIME_DELTA, reached, reference, reference_run, target
from daba.tools.bench.methods import CENTRALIZED, METHODS
from daba.tools.bench.paper import published
from daba.tools.bench.results import BenchRun, Results
from daba.tools.report.tables import Cell, Entry, Table, number, seconds, several, small

TIMED = ("ceres", "lm", "lm-devices", "daba", "daba-points", "daba-sweep", "admm", "dr")


def times_table(results: Results, loss: str) -> Table:
    """Seconds to F_Δ and to F_ref of every method, and how much faster than the reference."""
    rows: list[list[Entry]] = []
    for problem in results.problems:
        yardstick = reference_run(results, problem, loss)
        F_ref = reference(results, problem, loss)
        if yardstick is None or F_ref is None:
            continue
        F_delta = target(F_ref, yardstick.start, TIME_DELTA)
        base = reached(yardstick, F_delta, "seconds")
        goal = f"{number(F_delta, 5)} / {number(F_ref, 5)}"
        for method in TIMED:
            counts = [1] if method in CENTRALIZED else results.devices
            runs = [results.get(problem, method, devices, loss) for devices in counts]
            if any(run is not None for run in runs):
                on_gpu = any(run is not None and run.backend == "gpu" for run in runs)
                label = METHODS[method].label + (", GPU" if on_gpu else "")
                rows.append(
                    [results.label(problem), goal, label, *_cells(runs, F_delta, F_ref, base)]
                )
        rows += _paper_rows(results, problem, loss)
    among = f" on {' / '.join(map(str, results.devices))}" if results.devices else ""
    return Table(
        title=f"Time to target with the {loss} loss (Tables III, V–VII)",
        about="F_ref is the lowest F / K of Ceres within 40 iterations (of LM where Ceres was not "
        f"run), F_Δ = F_ref + {small(TIME_DELTA)} (F_init − F_ref). T_Δ and T_ref are the seconds "
        "to each. The paper's speed-up compares the reference's T_Δ with a method's T_ref, the "
        "harder goal; the last column compares T_Δ with T_Δ. Here all devices share the cores of "
        "one machine, so more devices are not more speed; in the paper each has a GPU.",
        head=["problem", "F_Δ / F_ref", "method", f"T_Δ{among}", f"T_ref{among}", "speed-up",
              "T_Δ over T_Δ"],
        rows=rows,
    )  # fmt: skip


def _cells(
    runs: Sequence[BenchRun | None], F_delta: float, F_ref: float, base: float | None
) -> list[Entry]:
    """T_Δ, T_ref and the two ratios, each for all numbers of devices."""
    to_delta, to_ref = (
        [None if run is None else reached(run, value, "seconds") for run in runs]
        for value in (F_delta, F_ref)
    )
    cells: list[Entry] = [several(map(seconds, to_delta)), several(map(seconds, to_ref))]
    for own in (to_ref, to_delta):
        ratios = [ratio(base, time) for time in own]
        faster = any(value is not None and value > 1 for value in ratios)
        cells.append(Cell(several(map(factor, ratios)), better=faster))
    return cells


def ratio(base: float | None, own: float | None) -> float | None:
    return None if base is None or not own else base / own


def factor(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}×" if value < 10 else f"{value:.0f}×"


def _paper_rows(results: Results, problem: str, loss: str) -> list[list[Entry]]:
    """The paper's own times, where it has this problem."""
    known = published(results.sizes(problem)) or {}
    times = known.get("times", {}).get(loss, {}).get("ceres")
    if times is None:
        return []
    goal = f"{times['error']['target']} / {times['error']['reference']}"
    spent = times["seconds"]
    entries = [("Ceres, paper", spent["ceres"], None)]
    for devices, own in spent["daba"].items():
        speedup = known["speedup"][loss][devices]["ceres"]
        entries.append((f"DABA, {devices} devices, paper", own, speedup))
    return [
        [results.label(problem), *(Cell(text, faint=True) for text in (
            goal, label, seconds(own["target"]), seconds(own["reference"]),
            "1" if speedup is None else f"{speedup}×", "–",
        ))]
        for label, own, speedup in entries
    ]  # fmt: skip
