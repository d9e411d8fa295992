"""What the method promises of every iteration, verified (`--check`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from daba.backends.table import Row
from daba.core.errors import DabaError
from daba.core.types import Floats

if TYPE_CHECKING:
    from daba.solver.state import Checkpointed


CARRIED = 1e-5
"""Rounding of the largest F so far that F^α and E^α may still carry, in units of the backend's
tolerance. They follow the iterations by differences, so that what was rounded at the start stays:
1e-16 of it, on a scene without noise, over 300 iterations in which F fell by 14 orders."""


class Before(NamedTuple):
    """What an iteration is compared with."""

    F: float
    F_bar: Floats
    largest: float
    """F where it was largest."""

    @staticmethod
    def of(solver: Checkpointed, largest: float = 0.0) -> Before:
        F = solver.objective
        return Before(F, solver.row(Row.F_BAR), max(F, largest))


def check(solver: Checkpointed, before: Before) -> Before:
    """Raise `DabaError` if a guarantee fails by more than rounding; returns what the next iteration
    is to be compared with.

    DABA: ΣF^α = F, F^α ≤ E^α ≤ F̄^α of the iteration before, F̄^α not rising (Lemma 1). DUBA and
    LM: F not rising. That F may climb below F̄ is no failure of DABA; a solve that ends above its
    start goes back there (`Loop.outcome`).
    """
    tolerance = solver.operations.tolerance
    now = Before.of(solver, before.largest)
    if solver.accelerated:
        scale = tolerance * (now.F + CARRIED * now.largest)
        F, E = solver.row(Row.F), solver.row(Row.E)
        total = float(solver.comm.gather(F[:, None]).sum())
        failed = {
            "ΣF^α = F": abs(total - now.F) - scale,
            "F^α ≤ E^α": float((F - E).max()) - scale,
            "E^α ≤ F̄^α": float((E - before.F_bar).max()) - scale,
            "F̄^α never rises": float((now.F_bar - before.F_bar).max()) - scale,
        }
    else:
        failed = {"F never rises": now.F - before.F * (1 + max(1e-12, 1e-3 * tolerance))}
    broken = {name: by for name, by in failed.items() if not by <= 0.0}
    if broken:
        words = ", ".join(f"{name} (by {by:.2g}, F is {now.F:.6g})" for name, by in broken.items())
        raise DabaError(f"a guarantee of the method failed in rounding or in code: {words}")
    return now
