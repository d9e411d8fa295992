"""Results made up by hand, so that what the tables must say can be told by eye."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daba.tools.bench.results import BenchRun, Results

ROUNDS = {"daba-points": 2, "daba-sweep": 4, "admm": 2, "dr": 2, "lm-devices": 7}
"""Of an iteration; 1 of others, and 500 bytes in each."""
SIZES = {"cameras": 10, "points": 100, "observations": 500}


def run(
    problem: str,
    method: str,
    devices: int,
    values: Sequence[float],
    loss: str = "trivial",
    seconds: float = 1.0,
    sizes: dict[str, int] = SIZES,
    steps: int = 1,
    **more: Any,
) -> BenchRun:
    """A run with these F / K, one per iteration, each of which took `seconds`, and `steps` of
    Levenberg–Marquardt on every device."""
    return BenchRun(case(problem, method, devices, loss, len(values) - 1), {
        "sizes": sizes,
        "histories": [
            history(values, seconds, steps=steps * devices, rounds=ROUNDS.get(method, 1))
        ],
        "inter_share": 0.25,
        "pixels": 1.25,
        "start_pixels": 5.5,
        **more,
    })  # fmt: skip


def history(
    values: Sequence[float], seconds: float = 1.0, name: str = "", steps: int = 1, rounds: int = 0
) -> dict[str, Any]:
    return {
        "name": name,
        "iteration": list(range(len(values))),
        "seconds": [seconds * k for k in range(len(values))],
        "mean_objective": list(values),
        "restarts": [0] * len(values),
        "lm_steps": [0] + [steps] * (len(values) - 1),
        "rounds": [0] + [rounds] * (len(values) - 1),
        "boundary_bytes": [0] + [500 * rounds] * (len(values) - 1),
    }


def case(problem: str, method: str, devices: int, loss: str, iterations: int) -> dict[str, Any]:
    return {
        "problem": problem,
        "method": method,
        "devices": devices,
        "loss": loss,
        "iterations": iterations,
        "threads": 1,
    }


def footprint(problem: str, devices: int, **told: tuple[int, int]) -> BenchRun:
    """(memory, bytes) by method, with - written as _."""
    entries = {name.replace("_", "-"): {"memory": m, "bytes": b} for name, (m, b) in told.items()}
    return BenchRun(case(problem, "footprint", devices, "", 0), {"footprint": entries})


def failed(problem: str, method: str, devices: int, error: str) -> BenchRun:
    return BenchRun(case(problem, method, devices, "trivial", 10), {"error": error})


def one_problem() -> Results:
    """DABA is overtaken by ADMM, sweeps are below Ceres, DR is worst."""
    return Results([
        run("toy", "daba", 4, [10.0, 6.0, 3.0, 2.5]),
        run("toy", "daba-points", 4, [10.0, 3.0, 1.5, 1.1]),
        run("toy", "daba-sweep", 4, [10.0, 2.0, 1.0, 0.9]),
        run("toy", "duba", 4, [10.0, 8.0, 7.0, 6.5]),
        run("toy", "admm", 4, [10.0, 4.0, 2.0, 1.2], seconds=3.0, steps=2),
        run("toy", "dr", 4, [10.0, 5.0, 4.0, 4.5], seconds=2.0),
        run("toy", "lm-devices", 4, [10.0, 1.05, 1.0]),
        run("toy", "lm", 1, [10.0, 1.05, 1.0]),
        run("toy", "ceres", 1, [10.0, 2.0, 1.0], seconds=4.0),
        footprint("toy", 4, daba=(100, 1000), daba_points=(100, 1000), daba_sweep=(100, 2000),
                  duba=(100, 1000), admm=(160, 400), dr=(130, 1500), lm_devices=(150, 3000)),
        footprint("toy", 2, daba=(200, 500), daba_points=(200, 500), daba_sweep=(200, 1000),
                  duba=(200, 500), admm=(220, 200), dr=(230, 700), lm_devices=(250, 2000)),
    ])  # fmt: skip
