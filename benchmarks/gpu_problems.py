"""Problems on a GPU: how long a solve takes to set up and to iterate; and real ones against the
CPU's runs and against Ceres.

    python benchmarks/gpu_problems.py --table FILES…            # times; also of scenes, by name
    python benchmarks/gpu_problems.py --prepare FOLDER FILES…   # with the CPU: references
    python benchmarks/gpu_problems.py FOLDER FILES…             # with the GPU, here or elsewhere

Scenes are city-1723, city-1778 and smaller ones (`daba.generate`), and landscape-13682
(`scene.py`). `--prepare` leaves, for each problem, its partition and the values of F that the CPU
finds. All but that needs NumPy, SciPy, torch and Triton only; for Ceres `ceres_ba` is called
($DABA_CERES or benchmarks/ceres).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

import daba
from daba.tools.bench.ceres import (
    CONFIGURATIONS,
    MOST_CAMERAS_FOR_DENSE,
    call,
    find_program,
    read_text,
)
from scene import landscape

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
import constrained

DEVICES, ITERATIONS, LM_ITERATIONS = 8, 1000, 40
KINDS = ("none", "sweep")
EVER: dict[str, Any] = {"function_tolerance": 0.0, "patience": 10**6}
"""Never stop before the last iteration."""
CITIES = {"city-1723": (1_723, 156_502, 678_718), "city-1778": (1_778, 993_923, 5_001_946)}
SCENES: dict[str, tuple[Literal["street", "city", "orbit"], int, int]] = {
    "street-100": ("street", 100, 6_000), "street-300": ("street", 300, 20_000),
    "street-800": ("street", 800, 50_000), "street-2000": ("street", 2_000, 120_000),
    "city-100": ("city", 100, 8_000), "city-300": ("city", 300, 25_000),
    "city-800": ("city", 800, 60_000),
    "orbit-100": ("orbit", 100, 8_000), "orbit-300": ("orbit", 300, 20_000),
}  # fmt: skip
"""Kind, cameras and points of those that `backends/gpu/sparsity.py` was decided by."""
LANDSCAPES = {"landscape-13682": (13_682, 4_456_117, 28_987_644)}
METHODS: dict[str, dict[str, Any]] = {
    "lm": {"method": "lm", "devices": 1},
    "none": {"method": "daba", "refine": "none"},
    "sweep": {"method": "daba", "refine": "sweep"},
    "lm, 8 devices": {"method": "lm"},
    "admm": {"method": "admm"},
    "dr": {"method": "dr"},
}
TIMED = 40
"""Iterations that are timed."""
NEAR = 1e-4
"""A solve has arrived at F_ref + NEAR (F_init − F_ref)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", help="but for --table a folder comes first")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--table", action="store_true")
    default = ["lm", "none", "sweep"]
    parser.add_argument("--methods", nargs="*", default=default, choices=list(METHODS))
    parser.add_argument(
        "--constraints", choices=list(constrained.KINDS), help="of tests/helpers/constrained.py"
    )
    parser.add_argument("--linear-solver", default="auto", choices=("auto", "direct", "pcg"))
    parser.add_argument("--precision", nargs="*", default=["auto", "float64"])
    parser.add_argument("--only", choices=("daba", "lm"))
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of Ceres")
    args = parser.parse_args()
    if args.table:
        for file in args.files:
            times(file, args.methods, args.linear_solver, args.constraints)
        return
    folder, *files = args.files
    for file in files:
        name = "-".join(file.name.split(".")[0].split("-")[:2])
        problem, kept = daba.load(file), folder / f"{name}.npz"
        if args.prepare:
            prepare(problem, kept)
            continue
        with np.load(kept) as found:
            known = dict(found)
        if args.only != "lm":
            compare(name, problem, known, args.precision)
        if args.only != "daba":
            race(name, problem, float(known["lm"]), read_text(file), args.threads)


def times(file: Path, methods: list[str], linear_solver: str, constraints: str | None) -> None:
    """Seconds from arrays in memory to the first iteration, milliseconds of an iteration, and of lm
    how long it takes to arrive; all by the clock of `daba.solve`, which compiling stops."""
    problem = named(file)
    partition = daba.make_partition(problem, DEVICES)
    if constraints:
        problem = constrained.KINDS[constraints](problem)
    for name in methods:
        options: Any = {"backend": "gpu", "error": "ray", "linear_solver": linear_solver}
        options |= METHODS[name]
        if options.pop("devices", DEVICES) == DEVICES:
            options["partition"] = partition
        began = time.perf_counter()
        daba.solve(problem, iterations=3, **options)
        first = time.perf_counter() - began
        run = daba.solve(problem, iterations=TIMED, **options, **EVER)
        seconds = np.array([entry.seconds for entry in run.history])
        each = 1e3 * np.diff(seconds)
        gradients = np.mean([entry.pcg_iterations for entry in run.history[1:]])
        print(
            f"{file.name.split('.')[0]:<26}{name:<15}set up {seconds[0]:.3f} s, iterations median "
            f"{np.median(each):.2f} ms, mean {each.mean():.2f} ms, {gradients:.0f} CG; F/K "
            f"{run.history[-1].mean_objective:.6f}; {run.linear_solver}; first call {first:.1f} s",
            flush=True,
        )
        if name.startswith("lm"):
            arrival(problem, options)


def arrival(problem: daba.Problem, options: dict[str, Any]) -> None:
    """The best of many iterations is the reference."""
    run = daba.solve(problem, iterations=10 * TIMED, **options, **EVER)
    F = np.array([entry.objective for entry in run.history])
    at = int(np.flatnonzero(F <= F.min() + NEAR * (F[0] - F.min()))[0])
    print(f"    arrives after {run.history[at].seconds:.3f} s, {at} iterations; reference F/K "
          f"{F.min() / problem.num_observations:.6f}", flush=True)  # fmt: skip


def named(file: Path) -> daba.Problem:
    """A scene by its name, or a file."""
    if file.name in CITIES:
        cameras, points, observations = CITIES[file.name]
        made = daba.SceneOptions(
            scene="city", cameras=cameras, points=points, observations=observations, drift=0.003,
            seed=5,
        )  # fmt: skip
        return daba.generate(made).start
    if file.name in SCENES:
        kind, cameras, points = SCENES[file.name]
        small = daba.SceneOptions(scene=kind, cameras=cameras, points=points, drift=0.003, seed=3)
        return daba.generate(small).start
    if file.name in LANDSCAPES:
        return landscape(*LANDSCAPES[file.name])
    return daba.load(file)


def prepare(problem: daba.Problem, kept: Path) -> None:
    """A partition, and F after the CPU's runs."""
    partition = daba.make_partition(problem, DEVICES)
    found: dict[str, Any] = {"camera": partition.camera_device, "point": partition.point_device}
    for refine in KINDS:
        run = daba.solve(problem, partition=partition, refine=refine, iterations=ITERATIONS, **EVER)
        found[refine] = run.history[-1].objective
    run = daba.solve(problem, method="lm", iterations=LM_ITERATIONS, **EVER)
    found["lm"] = run.history[-1].objective
    kept.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(kept, **found)
    told = [f"{key} {found[key] / problem.num_observations:.6f}" for key in (*KINDS, "lm")]
    print(f"{kept}: F/K {', '.join(told)}", flush=True)


def compare(
    name: str, problem: daba.Problem, known: dict[str, np.ndarray], precisions: list[str]
) -> None:
    """1000 iterations, with the CPU's partition."""
    partition = daba.partition_from_arrays(problem, known["camera"], known["point"])
    for precision in precisions:
        for refine in KINDS:
            options: Any = {"refine": refine, "precision": precision, "backend": "gpu"}
            daba.solve(problem, partition=partition, iterations=3, **options)  # compile
            run = daba.solve(problem, partition=partition, iterations=ITERATIONS, **options, **EVER)
            last = run.history[-1]
            off = last.objective / float(known[refine]) - 1.0
            print(
                f"{name:<16}{refine:<7}{precision:<9} F/K {last.mean_objective:.6f}, "
                f"{off:+.1e} against the CPU, {1e3 * last.seconds / last.iteration:.2f} ms each",
                flush=True,
            )


def race(name: str, problem: daba.Problem, target: float, text: bytes, threads: int) -> None:
    """Time to the F that the CPU reaches in 40 iterations of LM, and Ceres' on the host."""
    target *= 1 + 1e-6
    best = np.inf
    for _ in range(3):  # the first compiles
        run = daba.solve(problem, method="lm", backend="gpu", iterations=2 * LM_ITERATIONS, **EVER)
        reached = [e.seconds for e in run.history if e.objective <= target]
        best = min([best, *reached[:1]])
    told = f"{name:<16}lm to F/K {target / problem.num_observations:.6f}: GPU {best:.4f} s"
    program = find_program()
    if program is None:
        print(told + ", no Ceres here", flush=True)
        return
    times = {}
    for label, arguments in CONFIGURATIONS.items():
        if "dense" in label and problem.num_cameras > MOST_CAMERAS_FOR_DENSE:
            continue
        limit = ["--iterations", "200", "--threads", str(threads), "--max-seconds", "20"]
        rows = call(program, text, [*limit, *arguments.split()])["iterations"]
        reached = [row["seconds"] for row in rows if row["objective"] <= target]
        times[label] = reached[0] if reached else np.inf
        lowest = min(row["mean_objective"] for row in rows)
        print(f"    {label}: {times[label]:.3f} s, lowest F/K {lowest:.6f}", flush=True)
    fastest = min(times, key=lambda label: times[label])
    ratio = times[fastest] / best
    print(f"{told}; Ceres {times[fastest]:.3f} s ({fastest}, {threads} threads), {ratio:.1f} times")


if __name__ == "__main__":
    main()
