"""What is computed from runs: references, targets, when they are reached, and profiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from daba.tools.bench.methods import CENTRALIZED, REFERENCES
from daba.tools.bench.results import BenchRun, Results

PROFILE_DELTA = 1e-4
"""Δ of the performance profiles (Fig. 3) …"""
TIME_DELTA = 2.5e-4
"""… and of the times (Tables III, V–VII)."""

Kind = Literal["paper", "best"]


def reference(results: Results, problem: str, loss: str, kind: Kind = "paper") -> float | None:
    """F_ref / K: the lowest that Ceres reaches, or LM where there is no Ceres; or any run."""
    if kind == "best":
        every = [r for r in results.runs if (r.problem, r.loss) == (problem, loss) and r.done]
        return min((lowest(run) for run in every if run.curves), default=None)
    run = reference_run(results, problem, loss)
    return None if run is None else lowest(run)


def reference_run(results: Results, problem: str, loss: str) -> BenchRun | None:
    found = (results.get(problem, method, 1, loss) for method in REFERENCES)
    return next((run for run in found if run is not None), None)


def lowest(run: BenchRun) -> float:
    return min(float(curve.values.min()) for curve in run.curves)


def target(F_ref: float, F_init: float, delta: float) -> float:
    """F_Δ = F_ref + Δ (F_init − F_ref)."""
    return F_ref + delta * (F_init - F_ref)


Spent = Literal["iterations", "seconds", "rounds", "bytes"]


def reached(run: BenchRun, value: float, what: Spent) -> float | None:
    """When F / K was first at the value or below: the earliest of the run's curves. None for rounds
    and bytes that were not counted."""
    times = [
        float(spent[np.argmax(curve.values <= value)])
        for curve in run.curves
        if (spent := getattr(curve, what))[-1] > 0 and (curve.values <= value).any()
    ]
    return min(times, default=None)


def profile(reached_at: Iterable[float | None], iterations: Sequence[int]) -> list[float]:
    """The share of problems solved by each iteration."""
    known = list(reached_at)
    return [
        sum(at is not None and at <= k for at in known) / max(len(known), 1) for k in iterations
    ]


def iterations_to(
    results: Results, problem: str, method: str, devices: int, loss: str, delta: float,
    kind: Kind = "paper",
) -> float | None:  # fmt: skip
    """Iterations of a run to F_Δ; None where it is not reached, or was not run."""
    run, yardstick = (
        results.get(problem, method, devices, loss),
        reference_run(results, problem, loss),
    )
    F_ref = reference(results, problem, loss, kind)
    if run is None or yardstick is None or F_ref is None or method in CENTRALIZED:
        return None
    return reached(run, target(F_ref, yardstick.start, delta), "iterations")
