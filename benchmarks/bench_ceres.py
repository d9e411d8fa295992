"""Ceres and daba on the same problems, in one go: `make bench-ceres`.

Time to F_ref + Δ (F_init − F_ref), where F_ref is the lowest value that any configuration of
Ceres reaches, by the paper's ray error and by pixels (--error); and 1000 iterations of DABA against
40 of Ceres ITERATIVE_SCHUR.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import daba
from daba.runtime.environment import environment
from daba.tools.bench.ceres import CONFIGURATIONS, MOST_CAMERAS_FOR_DENSE, agree, call, read_text
from daba.tools.report.tables import seconds
from report import HERE, machine_words, save_json, say, table, warn_if_busy

PROGRAM = HERE / "ceres" / "build" / "ceres_ba"
DATA = HERE.parent.parent / "shared" / "data"
DEFAULT = ("ladybug-49", "trafalgar-21", "kitti-vo-250", "notredame-150")
DELTA = 2.5e-4
ITERATIONS = 40
DABA_ITERATIONS = 1000
PATIENCE = 4.0
"""A configuration is stopped after this many times the shortest complete run so far …"""
LEAST_LIMIT = 1.0
"""… but never before this many seconds."""
SHORT, MORE_OFTEN = 0.2, 4
"""Runs shorter than so many seconds vary by three and more from one to the next, here as in Ceres;
both sides repeat them this many times more often."""
WORTH_REPEATING = 2.5
"""Configurations up to this much slower than the best are timed again, others cannot win."""

MORE = {
    "dense_schur, radius 1e5": "--linear-solver dense_schur --initial-radius 1e5",
    "dense_schur, lapack": "--linear-solver dense_schur --dense-library lapack",
    "dense_schur, auto": "--linear-solver dense_schur --jacobian auto",
    "sparse_schur, radius 1e5": "--linear-solver sparse_schur --initial-radius 1e5",
    "sparse_schur, auto": "--linear-solver sparse_schur --jacobian auto",
    "iterative_schur, explicit, radius 1e5": (
        "--linear-solver iterative_schur --explicit-schur --initial-radius 1e5"
    ),
    "iterative_schur, auto": "--linear-solver iterative_schur --jacobian auto",
    "iterative_schur, cluster_jacobi": (
        "--linear-solver iterative_schur --preconditioner cluster_jacobi"
    ),
    "iterative_schur, cluster_tridiagonal": (
        "--linear-solver iterative_schur --preconditioner cluster_tridiagonal"
    ),
    "sparse_normal_cholesky": "--linear-solver sparse_normal_cholesky",
    "cgnr": "--linear-solver cgnr",
}


@dataclass
class Case:
    """One problem, in memory for both."""

    name: str
    text: bytes
    """BAL, as the program reads it."""
    problem: daba.Problem
    error: str


@dataclass
class Timing:
    """One configuration on one problem; the times are those of the best run."""

    name: str
    arguments: list[str]
    first: dict[str, Any]
    """What the program said of its first run."""
    times: list[float] = field(default_factory=list)
    """To the target, one per run."""
    reached_at: int = 0
    """Iteration that reached the target."""

    @property
    def best(self) -> float | None:
        return min(self.times, default=None)

    @property
    def made(self) -> int:
        return int(self.first["iterations"][-1]["iteration"])

    @property
    def stopped_early(self) -> bool:
        return self.made < ITERATIONS and "solver time" in self.first["reason"]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if not PROGRAM.exists():
        say(f"{PROGRAM.relative_to(HERE.parent)} is missing: make -C benchmarks/ceres build")
        return 2
    warn_if_busy()
    words = machine_words(options.threads)
    data: dict[str, Any] = {"machine": environment() | {"threads": options.threads}, "delta": DELTA}
    with tempfile.TemporaryDirectory() as folder:
        paths = options.problems or default_problems(options.data, Path(folder))
        parts = [f"# Ceres and daba\n\n{words}."]
        if options.only != "daba":
            errors = ("ray", "pixel") if options.error == "both" else (options.error,)
            for error in errors:
                comparisons = [compare(read_case(path, error), options) for path in paths]
                data[f"problems, {error}"] = comparisons
                parts += [summary(comparisons, error), *(details(c) for c in comparisons)]
        if options.only != "lm":
            data["thousand"] = thousand(read_case(paths[0], "ray"), options)
            parts.append(thousand_words(data["thousand"]))
    text = "\n\n".join(parts) + "\n"
    say(f"results: {save_json('ceres', data).relative_to(HERE.parent)}")
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", type=Path, help="BAL files (.txt, .bz2, .gz)")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the default problems")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the best counts")
    parser.add_argument("--all", action="store_true", help="try every configuration of Ceres")
    parser.add_argument("--error", choices=("both", "ray", "pixel"), default="both")
    parser.add_argument("--only", choices=("lm", "daba"), help="only one of the comparisons")
    parser.add_argument("--output", type=Path, help="write the Markdown here, too")
    return parser.parse_args(arguments)


# Problems


def default_problems(folder: Path, scratch: Path) -> list[Path]:
    """The four real problems, or two synthetic ones where they are absent."""
    found = [sorted(folder.glob(f"{name}*.txt*")) for name in DEFAULT]
    if all(found):
        return [paths[0] for paths in found]
    say(f"the default problems are not in {folder}: using synthetic ones (or use --data)")
    paths = []
    for scene, cameras, points in (("city", 100, 10_000), ("orbit", 60, 8_000)):
        paths.append(scratch / f"{scene}-{cameras}.txt")
        wanted: dict[str, Any] = {"scene": scene, "cameras": cameras, "points": points}
        daba.save(daba.generate(daba.SceneOptions(**wanted)).start, paths[-1])
    return paths


def read_case(path: Path, error: str) -> Case:
    """In pixels, f, k1 and k2 mean what they mean to other solvers."""
    problem = daba.load(path, intrinsics="standard" if error == "pixel" else "paper")
    return Case(path.name.split(".")[0], read_text(path), problem, error)


# Time to the target


def compare(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Both on one problem; the first run of each configuration finds F_ref."""
    problem, threads = case.problem, options.threads
    sizes = f"{problem.num_cameras} cameras, {problem.num_observations} observations"
    say(f"{case.name}, {case.error} error: {sizes}")
    warm = daba.solve(
        problem, method="lm", error=case.error, threads=threads, iterations=ITERATIONS
    )
    timings = first_runs(case, options)
    start = timings[0].first["initial_objective"]
    agree(start, warm.history[0].objective)
    reference = min(t.first["final_objective"] for t in timings)
    target = reference + DELTA * (start - reference)
    for timing in timings:
        note(timing, timing.first, target)
    ours: list[float] = []
    repeats, repeat = options.repeat, 0
    while repeat < repeats:
        if repeat:
            for timing in worth_repeating(timings):
                limit = ("--iterations", str(timing.reached_at + 2))
                note(timing, run_ceres(case, [*timing.arguments, *limit], threads), target)
        took = time_lm(case, target, threads)
        say(f"  daba lm: {seconds(took)}")
        ours += [] if took is None else [took]
        if took is not None and took < SHORT:
            repeats = MORE_OFTEN * options.repeat
        repeat += 1
    return as_dict(case, timings, ours, warm, target)


def first_runs(case: Case, options: argparse.Namespace) -> list[Timing]:
    timings: list[Timing] = []
    complete: list[float] = []
    for name, text in (CONFIGURATIONS | MORE if options.all else CONFIGURATIONS).items():
        if "dense" in name and case.problem.num_cameras > MOST_CAMERAS_FOR_DENSE:
            continue
        arguments = text.split()
        limit = max(LEAST_LIMIT, PATIENCE * min(complete)) if complete else 1e6
        ran = run_ceres(case, [*arguments, "--max-seconds", f"{limit:g}"], options.threads)
        timings.append(Timing(name, arguments, ran))
        if not timings[-1].stopped_early:
            complete.append(ran["seconds"])
        say(f"  {name}: {timings[-1].made} iterations, {seconds(ran['seconds'])}")
    return timings


def run_ceres(case: Case, arguments: list[str], threads: int) -> dict[str, Any]:
    common = [
        "--error", case.error, "--threads", str(threads), "--iterations", str(ITERATIONS),
    ]  # fmt: skip
    return call(PROGRAM, case.text, [*common, *arguments])


def note(timing: Timing, ran: dict[str, Any], target: float) -> None:
    """Add the time at which this run was at the target, if it was."""
    for row in ran["iterations"]:
        if row["objective"] <= target:
            timing.times.append(row["seconds"])
            timing.reached_at = timing.reached_at or row["iteration"]
            return


def worth_repeating(timings: list[Timing]) -> list[Timing]:
    fastest = best_of(timings).best or 0.0
    return [t for t in timings if t.best is not None and t.best <= WORTH_REPEATING * fastest]


def best_of(timings: list[Timing]) -> Timing:
    return min(timings, key=lambda t: float("inf") if t.best is None else t.best)


def time_lm(case: Case, target: float, threads: int) -> float | None:
    """Seconds to the target, setting up included, with the default options."""
    result = daba.solve(
        case.problem, method="lm", error=case.error, threads=threads,
        callback=lambda row: row.objective <= target,
    )  # fmt: skip
    return result.seconds if result.objective <= target else None


def as_dict(
    case: Case, timings: list[Timing], ours: list[float], warm: daba.Result, target: float
) -> dict[str, Any]:
    K = case.problem.num_observations
    best, own = best_of(timings), min(ours, default=None)
    return {
        "name": case.name,
        "cameras": case.problem.num_cameras,
        "points": case.problem.num_points,
        "observations": K,
        "start": timings[0].first["initial_objective"] / K,
        "reference": min(t.first["final_objective"] for t in timings) / K,
        "target": target / K,
        "ceres": [ceres_dict(t, K) for t in timings],
        "best": best.name,
        "best_seconds": best.best,
        "daba_seconds": own,
        "daba_times": ours,
        "daba_final": warm.mean_objective,
        "daba_iterations": warm.history[-1].iteration,
        "daba_linear_solver": warm.linear_solver,
        "ratio": best.best / own if best.best and own else None,
    }


def ceres_dict(timing: Timing, K: int) -> dict[str, Any]:
    return {
        "name": timing.name,
        "arguments": timing.arguments,
        "iterations": timing.made,
        "seconds": timing.first["seconds"],
        "stopped_early": timing.stopped_early,
        "final": timing.first["final_objective"] / K,
        "to_target": timing.best,
        "times": timing.times,
        "reached_at": timing.reached_at,
    }


def summary(comparisons: list[dict[str, Any]], error: str) -> str:
    rows = [
        [
            c["name"],
            f"{c['cameras']:,} / {c['points']:,} / {c['observations']:,}",
            f"{c['start']:.6g}",
            f"{c['reference']:.6g}",
            f"{c['daba_final']:.6g}",
            f"{seconds(c['best_seconds'])} ({c['best']})",
            seconds(c["daba_seconds"]),
            times(c["ratio"]),
        ]
        for c in comparisons
    ]
    head = (
        "problem", "cameras / points / observations", "F / K, start", f"Ceres, ≤ {ITERATIONS} it.",
        f"daba lm, ≤ {ITERATIONS} it.", "time to target, best Ceres", "daba lm", "ratio",
    )  # fmt: skip
    words = f"## Time to F_ref + {DELTA:g} (F_init − F_ref), {error} error"
    return f"{words}\n\n{table(head, rows)}"


def times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.1f}×"


def details(comparison: dict[str, Any]) -> str:
    own = comparison["daba_seconds"]
    rows = []
    for c in comparison["ceres"]:
        took = f"{c['iterations']} it., {seconds(c['seconds'])}"
        if c["stopped_early"]:
            took += " (stopped: too slow)"
        reached = f"{seconds(c['to_target'])} (it. {c['reached_at']})" if c["times"] else "–"
        ratio = times(c["to_target"] / own if c["times"] and own else None)
        rows.append([c["name"], took, f"{c['final']:.6g}", reached, ratio])
    made = f"{comparison['daba_iterations']} it., {comparison['daba_linear_solver']}"
    rows.append(
        [
            "**daba lm**",
            made,
            f"{comparison['daba_final']:.6g}",
            f"**{seconds(own)}**",
            f"**{times(comparison['ratio'])}** to the best",
        ]
    )
    head = ("configuration", "whole run", "F / K at its end", "time to target", "over daba")
    return f"### {comparison['name']}\n\n{table(head, rows)}"


# 1000 iterations of DABA


def thousand(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """1000 DABA iterations with 8 devices against 40 of ITERATIVE_SCHUR, all complete."""
    say(f"{case.name}: {DABA_ITERATIONS} DABA iterations")
    settings: dict[str, Any] = {
        "method": "daba",
        "devices": 8,
        "refine": "none",
        "threads": options.threads,
        "function_tolerance": 0.0,
    }
    daba.solve(case.problem, iterations=3, **settings)
    took: dict[str, list[float]] = {"analytic": [], "auto": [], "daba": []}
    made: dict[str, int] = {}
    for _ in range(options.repeat):
        for jacobian in ("analytic", "auto"):
            arguments = ["--linear-solver", "iterative_schur", "--jacobian", jacobian]
            ran = run_ceres(case, arguments, options.threads)
            took[jacobian].append(ran["seconds"])
            made[jacobian] = ran["iterations"][-1]["iteration"]
        result = daba.solve(case.problem, iterations=DABA_ITERATIONS, **settings)
        took["daba"].append(result.seconds)
        say("  " + ", ".join(f"{name} {seconds(t[-1])}" for name, t in took.items()))
    best = {name: min(t) for name, t in took.items()}
    return {
        "problem": case.name,
        "iterations": result.history[-1].iteration,
        "ceres_iterations": made,
        "mean_objective": result.mean_objective,
        "times": took,
        "ratio": {name: best["daba"] / best[name] for name in ("analytic", "auto")},
    }


def thousand_words(t: dict[str, Any]) -> str:
    rows = [
        [
            f"ITERATIVE_SCHUR, {t['ceres_iterations'][name]} it., {name} Jacobian",
            seconds(min(t["times"][name])),
            f"{t['ratio'][name]:.2f}",
        ]
        for name in ("analytic", "auto")
    ]
    ours = f"daba, 8 devices, refine none, {t['iterations']} it. (F / K {t['mean_objective']:.5g})"
    rows.append([ours, seconds(min(t["times"]["daba"])), "1"])
    head = (t["problem"], "time", "daba's time over it")
    return f"## {DABA_ITERATIONS} DABA iterations\n\n{table(head, rows)}"


if __name__ == "__main__":
    sys.exit(main())
