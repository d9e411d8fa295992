"""Which kernels are compiled when: run by `tests/gpu` in a process of its own. Prints those that
are compiled only when they are launched, or "all ahead"."""

from __future__ import annotations

from typing import Any

import constrained
import numpy as np
import triton
from scene_for_gpu import tiny_problem

import daba

late: list[str] = []


def note(*, fn: Any, is_manual_warmup: bool, **others: Any) -> None:
    if not is_manual_warmup:
        late.append(fn.name)


def main() -> None:
    triton.knobs.runtime.jit_post_compile_hook = note
    problem = tiny_problem(12, 400)
    partition = daba.partition_from_arrays(problem, np.arange(12) % 3)
    chosen: list[dict[str, Any]] = [
        {"method": "daba", "refine": refine} for refine in ("none", "points", "sweep")
    ]
    chosen += [{"method": method} for method in ("duba", "admm", "dr", "lm")]
    chosen += [{"method": "lm", "linear_solver": "pcg"}]
    for options in chosen:
        daba.solve(problem, partition=partition, backend="gpu", iterations=12, **options)
    for tie, method in (
        (constrained.everything, "daba"),
        (constrained.all_but_across, "duba"),
        (constrained.held, "dr"),
    ):
        given = tie(problem)
        daba.solve(given, partition=partition, backend="gpu", iterations=12, method=method)
    for solver in ("auto", "direct"):
        daba.solve(problem, method="lm", backend="gpu", iterations=12, linear_solver=solver)
    print(*late or ("all", "ahead"))


if __name__ == "__main__":
    main()
