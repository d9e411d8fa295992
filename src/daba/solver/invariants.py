"""What the method promises of every iteration, verified (`--check`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daba.core.errors import DabaError
from daba.core.types import Floats

if TYPE_CHECKING:
    from daba.backends.gpu.solver import GpuSolver
    from daba.solver.algorithm import Algorithm1


def check(solver: Algorithm1 | GpuSolver, tolerance: float) -> tuple[float, Floats]:
    """Raise `DabaError` if a guarantee fails by more than `tolerance` of F; returns F and F̄^α, to
    be compared with next time.

    DABA: ΣF^α = F, F^α ≤ E^α ≤ F̄^α of the iteration before, F̄^α not rising (Lemma 1). DUBA and
    LM: F not rising.
    """
    F, metrics = solver.objective, solver.metrics
    last_F, last_bar = solver.checked
    if solver.accelerated:
        scale = tolerance * F
        total = float(solver.comm.gather(metrics.F[:, None]).sum())
        broken = {
            "ΣF^α = F": abs(total - F) > scale,
            "F^α ≤ E^α": bool((metrics.F > metrics.E + scale).any()),
            "E^α ≤ F̄^α": bool((metrics.E > last_bar + scale).any()),
            "F̄^α never rises": bool((metrics.F_bar > last_bar + scale).any()),
        }
    else:
        broken = {"F never rises": last_F * (1 + max(1e-12, 1e-3 * tolerance)) < F}
    if any(broken.values()):
        names = ", ".join(name for name, failed in broken.items() if failed)
        raise DabaError(f"a guarantee of the method failed in rounding or in code: {names}")
    return F, metrics.F_bar.copy()
