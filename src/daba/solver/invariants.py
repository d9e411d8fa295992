"""What the method promises of every iteration, verified (`--check`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from daba.backends.table import Row
from daba.core.errors import DabaError
from daba.core.types import Floats

if TYPE_CHECKING:
    from daba.solver.state import Checkpointed


class Before(NamedTuple):
    """What an iteration is compared with."""

    F: float
    F_bar: Floats

    @staticmethod
    def of(solver: Checkpointed) -> Before:
        return Before(solver.objective, solver.row(Row.F_BAR))


def check(solver: Checkpointed, before: Before) -> Before:
    """Raise `DabaError` if a guarantee fails by more than rounding; returns what the next iteration
    is to be compared with.

    DABA: ΣF^α = F, F^α ≤ E^α ≤ F̄^α of the iteration before, F̄^α not rising (Lemma 1). DUBA and
    LM: F not rising.
    """
    tolerance = solver.operations.tolerance
    now = Before.of(solver)
    if solver.accelerated:
        scale = tolerance * now.F
        F, E = solver.row(Row.F), solver.row(Row.E)
        total = float(solver.comm.gather(F[:, None]).sum())
        broken = {
            "ΣF^α = F": abs(total - now.F) > scale,
            "F^α ≤ E^α": bool((F > E + scale).any()),
            "E^α ≤ F̄^α": bool((E > before.F_bar + scale).any()),
            "F̄^α never rises": bool((now.F_bar > before.F_bar + scale).any()),
        }
    else:
        broken = {"F never rises": before.F * (1 + max(1e-12, 1e-3 * tolerance)) < now.F}
    if any(broken.values()):
        names = ", ".join(name for name, failed in broken.items() if failed)
        raise DabaError(f"a guarantee of the method failed in rounding or in code: {names}")
    return now
