"""`daba bench`: the paper's evaluation on given problems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.core.types import frozen
from daba.runtime.backend import why_no_gpu
from daba.tools.bench.cases import DEVICES, FULL, LOSSES, Backend, make_cases
from daba.tools.bench.folder import Folder
from daba.tools.bench.methods import METHODS
from daba.tools.bench.problems import SCENES, find_problems
from daba.tools.cli.arguments import Arg, Quiet, parse

REDUCED = 40
"""Iterations of the decentralized methods, unless more are wanted …"""
SECONDS = 3.0
"""… and the time that a run may then take: some rounds of ADMM and DR are long."""


@frozen
class BenchCommand:
    """Compare methods on problems, as the paper does, and write tables, figures and a report.

    Every run leaves a file in the output folder; the same command goes on where it was stopped,
    and runs only what is missing; started twice, the two share the work.
    Without problems, two synthetic scenes are solved.
    Ceres takes part if benchmarks/ceres is built, pycolmap if it is installed.

    examples:
      daba bench
      daba bench ladybug.txt.bz2 city:100:10000 --output results
      daba bench *.txt.bz2 --full --losses trivial
      daba bench ladybug.txt.bz2 --methods daba admm dr ceres --devices 8 --iterations 200
    """

    problems: Annotated[
        tuple[str, ...],
        Arg("PROBLEM", positional=True),
    ] = ()
    """Files, and synthetic scenes as SCENE:CAMERAS:POINTS."""
    output: Annotated[Path, Arg("DIR", "-o")] = Path("bench")
    """Folder for results, tables, figures and the report."""
    methods: Annotated[tuple[str, ...], Arg(row=True)] = ()
    """Which to compare: daba (as in the paper), daba-points, daba-sweep, duba, admm, dr,
    lm-devices (lm on all devices together), lm (on one), ceres, pycolmap; by default all that can
    be run here."""
    devices: Annotated[tuple[int, ...], Arg(row=True)] = DEVICES
    """Numbers of devices."""
    losses: Annotated[tuple[str, ...], Arg(row=True)] = LOSSES
    """trivial, huber (32 pixels), or both."""
    iterations: Annotated[int | None, Arg("INT")] = None
    """Iterations of the decentralized methods (default: 40, and at most 3 seconds a run). lm, on
    one device or many, and other centralized ones make 40, as in the paper."""
    full: bool = False
    """Make as many iterations as in the paper, 1000."""
    max_seconds: Annotated[float | None, Arg("S")] = None
    """Stop each run after so long, lm and centralized ones after five times that; the report says
    so."""
    threads: Annotated[int | None, Arg("INT")] = None
    """Threads of every method; all by default."""
    backend: Backend = "cpu"
    """gpu runs all of ours on the GPU, and Ceres and pycolmap on the CPU. The report takes runs of
    the other backend where the chosen ones are missing, and says so."""
    reference: Literal["paper", "best"] = "paper"
    """F_ref: paper, the lowest of Ceres (without it, of lm); best, the lowest of all runs."""
    retry: bool = False
    """Run again what failed."""
    report_only: bool = False
    """Run nothing; report what is there."""
    quiet: Quiet = False


def run(argv: list[str]) -> int:
    command, _ = parse(BenchCommand, argv)
    if command.full and command.iterations is not None:
        raise DabaError("give --full, which is --iterations 1000, or --iterations, but not both")
    if command.backend == "gpu" and not command.report_only and (missing := why_no_gpu()):
        raise DabaError(f"no GPU can be used: {missing}; use --backend cpu")
    reduced = not command.full and command.iterations is None
    iterations = FULL if command.full else command.iterations or REDUCED
    limit = SECONDS if reduced and command.max_seconds is None else command.max_seconds
    cases = make_cases(
        find_problems(command.problems or SCENES, command.output / "problems"),
        command.methods or available(),
        command.devices,
        command.losses,
        iterations,
        command.threads,
        limit,
        command.backend,
    )
    Options(iterations=iterations, max_seconds=limit, threads=command.threads)  # says what is wrong
    folder = Folder(command.output / "results")
    try:
        if not command.report_only:
            from daba.tools.bench.runner import run_cases

            run_cases(cases, folder, command.quiet, command.retry)
    finally:  # on Ctrl-C, too
        from daba.tools.bench.report import write_report

        results = folder.results(cases)
        written = write_report(results, command.output, command.reference)
        if not command.quiet:
            print("\n".join(str(path) for path in written))
    if not any(run.done for run in results.runs):
        why = results.failed[0].error if results.failed else "nothing has been run yet"
        raise DabaError(f"there is no result to report: {why}")
    return 0


def available() -> tuple[str, ...]:
    """All methods that can be run here."""
    from importlib.util import find_spec

    from daba.tools.bench.ceres import find_program

    there = {"ceres": find_program() is not None, "pycolmap": find_spec("pycolmap") is not None}
    return tuple(name for name in METHODS if there.get(name, True))
