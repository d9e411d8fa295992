"""Ceres on the same objective, from the same start: benchmarks/ceres, if it is built."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from daba.core.errors import DabaError
from daba.core.losses import make_loss
from daba.io.files import open_input, split_suffix
from daba.problem.problem import Problem
from daba.tools.bench.cases import RADIUS, Case

CONFIGURATIONS = {
    "iterative_schur, explicit": "--linear-solver iterative_schur --explicit-schur",
    "sparse_schur": "--linear-solver sparse_schur",
    "dense_schur": "--linear-solver dense_schur",
    "iterative_schur": "--linear-solver iterative_schur",
}
"""Ceres with analytic derivatives; which solver is best depends on the problem."""
MOST_CAMERAS_FOR_DENSE = 300
PATIENCE = 2.0
"""A configuration is stopped after this many times the shortest complete run so far …"""
LEAST_LIMIT = 1.0
"""… but never before this many seconds, and always where the case has its limit."""


def find_program() -> Path | None:
    """ceres_ba: the one that $DABA_CERES names, in a checkout, or on the path."""
    built = Path("benchmarks/ceres/build/ceres_ba")
    checkout = Path(__file__).resolve().parents[3] / built
    for path in (os.environ.get("DABA_CERES"), built, checkout, shutil.which("ceres_ba")):
        if path and Path(path).is_file():
            return Path(path).resolve()
    return None


def run_ceres(case: Case, problem: Problem) -> dict[str, Any]:
    """All configurations, each with its history: who reads them takes the best for each purpose."""
    program = find_program()
    if program is None:
        raise DabaError("Ceres is not built: make -C benchmarks/ceres build")
    if split_suffix(case.source.path)[0] not in (".txt", ".bal"):
        raise DabaError("our program for Ceres reads BAL files only")
    text = read_text(case.source.path)
    threads = case.threads or os.cpu_count() or 1
    common = ["--iterations", str(case.iterations), "--threads", str(threads),
              "--loss", case.loss, "--loss-radius", str(RADIUS)]  # fmt: skip
    histories: list[dict[str, Any]] = []
    stopped, shortest = [], float("inf")
    for name, arguments in CONFIGURATIONS.items():
        if "dense" in name and problem.num_cameras > MOST_CAMERAS_FOR_DENSE:
            continue
        limit = min(max(LEAST_LIMIT, PATIENCE * shortest), case.max_seconds or float("inf"))
        answer = call(program, text, [*common, *arguments.split(), *_limit(limit)])
        agree(answer["initial_objective"], problem.objective(make_loss(case.loss, RADIUS)))
        histories.append({"name": name} | _columns(answer["iterations"]))
        if "solver time" in answer["reason"]:
            stopped.append(name)
        else:
            shortest = min(shortest, answer["seconds"])
    return {"histories": histories, "stopped": stopped}


def call(program: Path, text: bytes, arguments: list[str]) -> dict[str, Any]:
    """One run of the program on a BAL file's text, in the words it reports it."""
    done = subprocess.run([str(program), "-", *arguments], input=text, capture_output=True)
    if -done.returncode in (signal.SIGINT, signal.SIGTERM):
        raise KeyboardInterrupt  # it was meant for all of us
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise DabaError(f"Ceres failed ({done.returncode}): {said}")
    try:
        return dict(json.loads(done.stdout))
    except ValueError as error:
        raise DabaError(f"Ceres has reported nothing that can be read: {error}") from error


def read_text(path: Path) -> bytes:
    """A BAL file, unpacked, as the program reads it."""
    with open_input(path) as stream:
        return stream.read()


def agree(theirs: float, ours: float) -> None:
    """Nothing can be compared unless both minimise the same function from the same start."""
    if abs(theirs - ours) > 1e-6 * abs(ours):
        raise DabaError(f"Ceres begins at F = {theirs:.9g}, daba at {ours:.9g}")


def _limit(seconds: float) -> list[str]:
    return [] if seconds == float("inf") else ["--max-seconds", f"{seconds:g}"]


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: [r[name] for r in rows] for name in ("iteration", "seconds", "mean_objective")}
