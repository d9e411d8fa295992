"""What refinement of the boundary gains: iterations, rounds, bytes and seconds to Δ."""

from __future__ import annotations

from statistics import median

from daba.core.text import size
from daba.tools.bench.measures import Kind, Spent, reached, reference, target
from daba.tools.bench.methods import METHODS
from daba.tools.bench.results import BenchRun, Results
from daba.tools.report.tables import Entry, Table, number, seconds, several, small

KINDS = ("daba", "daba-points", "daba-sweep")
DELTAS = (1e-2, 1e-3, 1e-4)


def refinement_table(results: Results, loss: str, kind: Kind = "paper") -> Table:
    rows: list[list[Entry]] = []
    for problem in results.problems:
        F_ref = reference(results, problem, loss, kind)
        for devices in results.devices:
            runs = [results.get(problem, name, devices, loss) for name in KINDS]
            known = [run for run in runs if run is not None]
            if F_ref is None or not known:
                continue
            for delta in DELTAS:
                goal = target(F_ref, known[0].start, delta)
                rows.append(
                    [results.label(problem), str(devices), small(delta), *_cells(runs, goal)]
                )
    return Table(
        title=f"What refinement gains, {loss} loss",
        about="To F_Δ = F_ref + Δ (F_init − F_ref): DABA as in the paper / with points refined / "
        "with sweeps. Rounds are exchanges with neighbours; bytes are those of all devices, one "
        "process each; – was not reached.",
        head=["problem", "devices", "Δ", "iterations", "rounds", "bytes", "seconds"],
        rows=rows,
    )


def _cells(runs: list[BenchRun | None], goal: float) -> list[str]:
    def spent(what: Spent) -> list[float | None]:
        return [None if run is None else reached(run, goal, what) for run in runs]

    return [
        several(number(k, 6) for k in spent("iterations")),
        several(number(k, 6) for k in spent("rounds")),
        several(size(b) for b in spent("bytes")),
        several(seconds(t) for t in spent("seconds")),
    ]


def gains(results: Results, method: str, delta: float, kind: Kind = "paper") -> list[float]:
    """Iterations of DABA as in the paper over those with refinement, wherever refinement reaches
    Δ. Where the plain method does not, all of its iterations are counted: at least as many."""
    found = []
    for loss in results.losses:
        for problem in results.problems:
            F_ref = reference(results, problem, loss, kind)
            for devices in results.devices:
                plain = results.get(problem, "daba", devices, loss)
                refined = results.get(problem, method, devices, loss)
                if plain is None or refined is None or F_ref is None:
                    continue
                goal = target(F_ref, plain.start, delta)
                ours = reached(refined, goal, "iterations")
                theirs = reached(plain, goal, "iterations")
                if ours is None and theirs is not None:
                    found.append(0.0)
                elif ours is not None:
                    found.append((plain.made if theirs is None else theirs) / max(ours, 1.0))
    return found


def gains_table(results: Results, kind: Kind = "paper") -> Table:
    """The gains of all runs together."""
    rows: list[list[Entry]] = []
    for method in KINDS[1:]:
        for delta in DELTAS:
            found = gains(results, method, delta, kind)
            if found:
                fewer, much = sum(g >= 1 for g in found), sum(g >= 3 for g in found)
                counts = [f"{count} of {len(found)}" for count in (fewer, much)]
                label = METHODS[method].label
                rows.append([label, small(delta), f"{median(found):.2g}×", *counts])
    return Table(
        title="How many fewer iterations with refinement",
        about="Iterations of DABA as in the paper over those with refinement, over all problems, "
        "devices and losses on which one of the two gets to Δ. Where only refinement does, all "
        "iterations of the other count, so that the gain is at least this.",
        head=["method", "Δ", "median gain", "never more", "at least 3× fewer"],
        rows=rows,
    )
