"""`daba solve`: read, solve with live progress, write what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from daba.cli.arguments import Flag, Intrinsics, Quiet, flags_of, parse
from daba.cli.console import make_console, pairs_table, to_json
from daba.cli.outputs import check_problem_target, check_target
from daba.errors import DabaError
from daba.losses import LOSSES, make_loss
from daba.options import Options

if TYPE_CHECKING:
    from rich.console import Console

    from daba.problem import Problem

GROUPS = {
    "method": (
        "method", "devices", "iterations", "loss", "loss_radius", "refine", "threads", "seed",
    ),
    "stopping": (
        "function_tolerance", "gradient_tolerance", "patience", "max_seconds", "check",
    ),
    "surrogate and restart": (
        "xi", "split", "eta", "eta_growth", "restart_ratio", "momentum_clip", "momentum_reset",
    ),
    "linear solver": ("linear_solver", "pcg_forcing", "pcg_residual", "pcg_iterations"),
    "trust region": ("lm_radius", "lm_tries", "lm_gain"),
}  # fmt: skip
LOSS_FLAGS = (
    Flag("loss", Literal[tuple(LOSSES)], "trivial", "Robust loss; trivial is least squares."),
    Flag("loss_radius", float, 32.0, "Where the loss turns robust, in pixels."),
)


@dataclass(frozen=True)
class Solve:
    """Solve a bundle adjustment problem and write the solution.

    With --devices S the problem is shared by S devices that only exchange what lies on their
    boundary; with one device it is solved by Levenberg–Marquardt. Ctrl-C stops early and still
    writes everything asked for.

    examples:
      daba solve problem.txt.bz2 --output solution.txt
      daba solve problem.txt.bz2 --devices 8 --iterations 200 --loss huber --loss-radius 32
      daba solve problem.txt.bz2 --devices 8 --output solution.txt --output solution.ply \\
          --history history.json --plot convergence.png
    """

    input: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="IN", metavar="IN")]
    """Problem to solve: BAL (.txt, .bal, also with .bz2 or .gz) or .npz."""
    output: Annotated[
        tyro.conf.UseAppendAction[tuple[Path, ...]], tyro.conf.arg(metavar="OUT")
    ] = ()
    """Where to write the solution: BAL, .npz or .ply by suffix. Give it again for more files."""
    history: Annotated[Path | None, tyro.conf.arg(metavar="H.json", help_behavior_hint="")] = None
    """Where to write options, every iteration and the result, as JSON."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="P.png", help_behavior_hint="")] = None
    """Where to draw the convergence: .png, .svg or .pdf."""
    intrinsics: Intrinsics = "paper"
    quiet: Quiet = False


def run(argv: list[str]) -> int:
    command, values = parse(Solve, argv, solve_flags(), GROUPS)
    options = make_options(values)
    _check_outputs(command)

    from daba.io import load
    from daba.partition import make_partition
    from daba.progress import Progress
    from daba.run import solve

    problem = load(command.input, command.intrinsics)
    if not options.centralized and options.devices > problem.num_cameras:
        make_partition(problem, options.devices)  # says why not, before anything is compiled
    console = None if command.quiet else _announced(problem)
    with Progress(console, options.most_iterations, options.max_seconds) as progress:
        result = solve(problem, options, callback=progress)
    written, errors = _write(command, result)
    if console is not None:
        console.print()
        console.print(pairs_table([*result.rows(), *(("written", str(path)) for path in written)]))
    if errors:
        raise DabaError("\n".join(errors))
    return 130 if result.reason == "interrupted" else 0


def _announced(problem: Problem) -> Console | None:
    """A console on which the problem and its oddities are told; None if nobody listens."""
    from daba.inspect import inspect

    console = make_console()
    try:
        console.print(
            f"{problem.name}: {problem.num_cameras:,} cameras, {problem.num_points:,} points, "
            f"{problem.num_observations:,} observations",
            markup=False,
        )
        for note in inspect(problem).warnings:
            console.print(f"  note: {note}", markup=False)
    except BrokenPipeError:  # what is to be written will be
        return None
    return console


def solve_flags() -> dict[str, Flag]:
    """Every option of `daba.solve`, with the loss as a name and a radius."""
    return flags_of(Options, {"loss": LOSS_FLAGS})


def make_options(values: dict[str, Any]) -> Options:
    """`Options` from the values of `solve_flags`."""
    values = dict(values)
    loss = make_loss(values.pop("loss"), values.pop("loss_radius"))
    return Options(**values, loss=loss)


def _check_outputs(command: Solve) -> None:
    """Refuse what cannot be written now rather than after an hour."""
    for path in command.output:
        check_problem_target(path)
    if command.history is not None:
        check_target(command.history)
    if command.plot is not None:
        from daba.plot import check_suffix

        check_suffix(command.plot)
        check_target(command.plot)
    paths = [*command.output, command.history, command.plot]
    known = [path.resolve() for path in paths if path is not None]
    for path in known:
        if known.count(path) > 1:
            raise DabaError(f"{path} is to be written twice; give every file a name of its own")


def _write(command: Solve, result: Any) -> tuple[list[Path], list[str]]:
    """Write every file that can be written; returns those, and what went wrong with others."""
    from daba.io import save
    from daba.io.files import open_output

    def write_history(path: Path) -> None:
        with open_output(path) as out:
            out.write(to_json(result.to_dict()).encode() + b"\n")

    def write_plot(path: Path) -> None:
        from daba.plot import convergence

        convergence(result, path)

    tasks: list[tuple[Path | None, Callable[[Path], None]]] = [
        *((path, lambda path: save(result.problem, path)) for path in command.output),
        (command.history, write_history),
        (command.plot, write_plot),
    ]
    written, errors = [], []
    for path, write in tasks:
        if path is not None:
            try:
                write(path)
                written.append(path)
            except DabaError as error:
                errors.append(str(error))
    return written, errors
