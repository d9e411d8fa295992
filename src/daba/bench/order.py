"""Is the order that of the paper, DABA before ADMM before DR? Where not, what do the runs say?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daba.bench.methods import METHODS
from daba.bench.results import Curve, Results, Run
from daba.report.tables import Cell, Entry, Table, number

ORDER = ("daba", "admm", "dr")
"""Best first, as in every row of the paper's Table I."""
TAIL = 0.1
"""Share of the iterations over which a run is said to be falling or not."""
STILL = 1e-4
"""Falling by less of F over the tail is standing still."""


@dataclass(frozen=True)
class Comparison:
    """The three methods on one problem."""

    problem: str
    devices: int
    loss: str
    runs: tuple[Run, Run, Run]

    @property
    def broken(self) -> list[tuple[Run, Run]]:
        """Pairs of neighbours in the order that ended the other way round."""
        pairs = zip(self.runs[:-1], self.runs[1:], strict=True)
        return [(a, b) for a, b in pairs if not a.final < b.final]


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
    return found


def order_table(results: Results) -> Table:
    every = comparisons(results)
    held = [c for c in every if not c.broken]
    rows: list[list[Entry]] = [
        [
            results.label(c.problem),
            f"{c.devices}, {c.loss}",
            *(number(run.final, 6) for run in c.runs),
            Cell(
                "holds" if not c.broken else ". ".join(_pair(a, b) for a, b in c.broken), prose=True
            ),
        ]
        for c in sorted(every, key=lambda c: results.problems.index(c.problem))
    ]
    return Table(
        title="The paper's order: DABA < ADMM < DR",
        about=f"It holds on **{len(held)} of {len(every)}** combinations of problem, devices and "
        "loss. Where it does not, the last column says what the runs themselves show: whether a "
        "curve was still falling over its last tenth, and where the other stood when the first "
        "had used its time.",
        head=[
            "problem",
            "devices, loss",
            *(METHODS[name].label for name in ORDER),
            "what the runs show",
        ],
        rows=rows,
    )


def _pair(expected: Run, other: Run) -> str:
    """Why `expected` did not end below `other`, from their curves."""
    a, b = METHODS[expected.method].label, METHODS[other.method].label
    words = f"{b} < {a}: {a} {trend(expected.curves[0])}, {b} {trend(other.curves[0])}"
    first, second = sorted((expected, other), key=lambda run: run.seconds)
    labels = METHODS[first.method].label, METHODS[second.method].label
    at = at_seconds(second.curves[0], first.seconds)
    k, value = int(second.curves[0].iterations[at]), float(second.curves[0].values[at])
    return (
        f"{words}; in the {number(first.seconds, 2)} s of {labels[0]}'s run {labels[1]} made "
        f"{k} of its {second.made} iterations and stood at {number(value, 5)}"
    )


def trend(curve: Curve) -> str:
    """Whether a curve was falling, standing or risen at its end."""
    values = curve.values
    least = int(np.argmin(values))
    if values[-1] > (1.0 + STILL) * values[least]:
        return f"has risen from {number(float(values[least]), 5)} at {int(curve.iterations[least])}"
    tail = values[int((1.0 - TAIL) * (len(values) - 1))]
    fall = float(tail - values[-1]) / float(values[-1])
    return f"was still falling ({100 * fall:.2g} %)" if fall > STILL else "had settled"


def at_seconds(curve: Curve, seconds: float) -> int:
    """The last entry within the time."""
    return max(int(np.searchsorted(curve.seconds, seconds, side="right")) - 1, 0)
