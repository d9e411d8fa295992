"""Is the order that of the paper, DABA before ADMM before DR? Where not, what do the runs say?"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from daba.core.types import frozen
from daba.tools.bench.methods import METHODS
from daba.tools.bench.results import BenchRun, Curve, Results
from daba.tools.report.tables import Cell, Entry, Table, number, several

ORDER = ("daba", "admm", "dr")
"""Best first, as in every row of the paper's Table I."""
TAIL = 0.1
"""Share of the iterations over which a run is said to be falling or not."""
STILL = 1e-4
"""Falling by less of F over the tail is standing still."""


Budget = Literal["iterations", "steps", "seconds"]
"""What the three methods are given alike: rounds, accepted LM steps of a device, or time."""


@frozen
class Comparison:
    """The three methods on one problem."""

    problem: str
    devices: int
    loss: str
    runs: tuple[BenchRun, BenchRun, BenchRun]

    @property
    def broken(self) -> list[tuple[BenchRun, BenchRun]]:
        """Pairs of neighbours in the order that ended the other way round."""
        pairs = zip(self.runs[:-1], self.runs[1:], strict=True)
        return [(a, b) for a, b in pairs if not a.final < b.final]

    def values(self, budget: Budget) -> tuple[float, ...] | None:
        """F / K of each when it had used as much as the one that used least did in its whole run;
        None where that is not known, or seconds of a CPU and of a GPU would be compared."""
        if budget == "seconds" and not alike(*self.runs):
            return None
        least = min(float(budget_used(run, budget)[-1]) for run in self.runs)
        return tuple(value_at(run, budget, least) for run in self.runs) if least > 0 else None

    def holds(self, budget: Budget) -> bool:
        found = self.values(budget)
        return found is not None and all(a < b for a, b in pairwise(found))


def alike(*runs: BenchRun) -> bool:
    """Whether their seconds can be compared."""
    return len({run.backend for run in runs}) == 1


def budget_used(run: BenchRun, budget: Budget) -> np.ndarray:
    """What a run had used by each entry of its curve."""
    curve = run.curves[0]
    if budget == "steps":
        return np.asarray(np.cumsum(curve.lm_steps) / run.devices)
    return curve.seconds if budget == "seconds" else curve.iterations


def value_at(run: BenchRun, budget: Budget, most: float) -> float:
    """F / K at the last entry within a budget."""
    at = int(np.searchsorted(budget_used(run, budget), most, side="right")) - 1
    return float(run.curves[0].values[max(at, 0)])


def comparisons(results: Results) -> list[Comparison]:
    """Everything that all three methods were run on."""
    found = []
    for loss in results.losses:
        for problem in results.problems:
            for devices in results.devices:
                runs = [results.get(problem, name, devices, loss) for name in ORDER]
                known = tuple(run for run in runs if run is not None)
                if len(known) == 3:
                    found.append(Comparison(problem, devices, loss, known))
    return sorted(found, key=lambda c: results.problems.index(c.problem))


def order_table(results: Results) -> Table:
    every = comparisons(results)
    mixed = " (– where one ran on a GPU and another did not)"
    kept = {budget: sum(c.holds(budget) for c in every) for budget in get_args(Budget)}
    rows: list[list[Entry]] = [
        [
            results.label(c.problem),
            f"{c.devices}, {c.loss}",
            *(number(run.final, 6) for run in c.runs),
            Cell("no" if c.broken else "yes", bold=not c.broken),
            *(_beside(c, budget) for budget in ("steps", "seconds")),
        ]
        for c in every
    ]
    return Table(
        title="The paper's order: DABA < ADMM < DR",
        about=f"It holds on **{kept['iterations']} of {len(every)}** combinations of problem, "
        "devices and loss when each method has made all its iterations; on "
        f"**{kept['steps']}** when each has made as many accepted LM steps on a device as the one "
        f"that made fewest, and on **{kept['seconds']}** when each has had the time of the "
        f"fastest{mixed * any(not alike(*c.runs) for c in every)}. The last two columns give F / K "
        "then, DABA / ADMM / DR, bold where the order holds.",
        head=[
            "problem",
            "devices, loss",
            *(METHODS[name].label for name in ORDER),
            "holds",
            "at equal LM steps",
            "at equal time",
        ],
        rows=rows,
    )


def reasons_table(results: Results) -> Table:
    """Where the order does not hold, what the runs themselves show."""
    rows: list[list[Entry]] = [
        [
            results.label(c.problem),
            f"{c.devices}, {c.loss}",
            Cell(" ".join(_why(a, b) for a, b in c.broken), prose=True),
        ]
        for c in comparisons(results)
        if c.broken
    ]
    return Table(
        title="Where the order is another, and why",
        about="What the runs themselves show: whether a curve was still falling over the last "
        "tenth of its iterations, how many accepted LM steps an iteration had, and how long it "
        "took.",
        head=["problem", "devices, loss", "what the runs show"],
        rows=rows,
    )


def _beside(comparison: Comparison, budget: Budget) -> Cell:
    found = comparison.values(budget)
    if found is None:
        return Cell("–")
    return Cell(several(number(v, 5) for v in found), bold=comparison.holds(budget))


def _why(expected: BenchRun, other: BenchRun) -> str:
    """Why `expected` did not end below `other`, in words, from their curves."""
    a, b = METHODS[expected.method].label, METHODS[other.method].label
    words = [f"{b} ended below {a}: {a} {trend(expected.curves[0])}, {b} {trend(other.curves[0])}"]
    ours, theirs = (
        float(budget_used(run, "steps")[-1]) / max(run.made, 1) for run in (expected, other)
    )
    if min(ours, theirs) > 0:
        words.append(f"in an iteration {b} made {theirs:.2f} LM steps on a device, {a} {ours:.2f}")
    if alike(expected, other):
        slower = (other.seconds / max(other.made, 1)) / (expected.seconds / max(expected.made, 1))
        words.append(f"an iteration of {b} took {number(slower, 2)} times as long")
    return "; ".join(words) + "."


def trend(curve: Curve) -> str:
    """Whether a curve was falling, standing or risen at its end."""
    values = curve.values
    least = int(np.argmin(values))
    if values[-1] > (1.0 + STILL) * values[least]:
        return f"has risen from {number(float(values[least]), 5)} at {int(curve.iterations[least])}"
    tail = values[int((1.0 - TAIL) * (len(values) - 1))]
    fall = float(tail - values[-1]) / float(values[-1])
    return f"was still falling ({100 * fall:.2g} %)" if fall > STILL else "had settled"
