"""`daba solve`: read, solve with live progress, write the outputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from daba.core.errors import DabaError
from daba.core.losses import LOSSES, make_loss
from daba.core.options import Options
from daba.io.constraint_options import ConstraintOptions, constrain
from daba.io.store.store import Store
from daba.runtime.checkpoint import Checkpoints
from daba.runtime.signals import REASONS
from daba.tools.cli.arguments import Flag, Intrinsics, Kind, Overwrite, Quiet, Rigs, flags_of, parse
from daba.tools.cli.console import make_console, pairs_table
from daba.tools.cli.outputs import check_outputs, check_shared, write_outputs
from daba.tools.cli.watching import make_recorder, stay

if TYPE_CHECKING:
    from rich.console import Console

    from daba.problem.problem import Problem

EXIT_CODES = {reason: 128 + number for number, reason in REASONS.items()}
"""Exit codes of solves that a signal has ended, as a shell reports them; everything is written."""

GROUPS = {
    "method": (
        "method", "devices", "iterations", "loss", "loss_radius", "filter",
        "points_in_front", "refine", "backend", "precision", "threads", "seed",
    ),
    "constraints": (
        "fix", "share_intrinsics", "position_priors", "control_points", "intrinsics_prior",
        "prior_loss", "prior_radius", "align",
    ),
    "stopping": (
        "function_tolerance", "gradient_tolerance", "patience", "max_seconds", "report_every",
        "check",
    ),
    "surrogate and restart": (
        "xi", "split", "eta", "eta_growth", "restart_ratio", "momentum_clip", "momentum_reset",
    ),
    "consensus": ("penalty", "metric", "relaxation", "inner_steps"),
    "linear solver": ("linear_solver", "pcg_forcing", "pcg_residual", "pcg_iterations"),
    "trust region": ("lm_radius", "lm_tries", "lm_gain"),
}  # fmt: skip
LOSS_FLAGS = (
    Flag("loss", Literal[tuple(LOSSES)], "trivial", "Robust loss; trivial is least squares."),
    Flag("loss_radius", float, 32.0, "Where the loss turns robust, in pixels."),
)


@dataclass(frozen=True)
class SolveCommand:
    """Solve a bundle adjustment problem and write the solution.

    With --devices S the problem is shared by S devices that only exchange what lies on their
    boundary; with one device it is solved by Levenberg–Marquardt. Ctrl-C stops early and still
    writes every output. Under mpiexec the devices are assigned to the processes; of a store
    (see daba partition --output) each process reads only its own part.

    examples:
      daba solve problem.txt.bz2 --output solution.txt
      daba solve problem.txt.bz2 --devices 8 --iterations 200 --loss huber --loss-radius 32
      daba solve problem.npz --share-intrinsics all --fix gauge --output solution.npz
      daba solve problem.npz --position-priors gnss.csv --prior-loss huber --output solution.npz
      daba solve problem.txt.bz2 --devices 8 --output solution.txt --output solution.ply \\
          --history history.json --plot convergence.png
      daba solve sparse/0 --output sparse/ba --filter 4
      daba partition problem.txt.bz2 --devices 8 --output problem.daba
      mpiexec -n 4 daba solve problem.daba --output solution.daba --checkpoint saved \\
          --checkpoint-every 10m
    """

    input: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="IN", metavar="IN")]
    """Problem to solve: BAL (.txt, .bal), Bundler (.out), .npz, or the folder of a COLMAP model or
    a store."""
    output: Annotated[
        tyro.conf.UseAppendAction[tuple[Path, ...]], tyro.conf.arg(metavar="OUT")
    ] = ()
    """Where to write the solution: BAL, .npz, .ply or a store (.daba) by suffix; of a COLMAP model
    also a folder. Give it again for more files."""
    history: Annotated[Path | None, tyro.conf.arg(metavar="H.json", help_behavior_hint="")] = None
    """Where to write options, every iteration and the result, as JSON."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="P.png", help_behavior_hint="")] = None
    """Where to draw the convergence: .png, .svg or .pdf."""
    report: Annotated[Path | None, tyro.conf.arg(metavar="R.html", help_behavior_hint="")] = None
    """Where to write a page about this solve, as daba report makes it of a history."""
    checkpoint: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Where to keep checkpoints; the two latest stay."""
    checkpoint_every: Annotated[
        str | None, tyro.conf.arg(metavar="N|MINUTESm", help_behavior_hint="")
    ] = None
    """Save after so many iterations (50) or minutes (10m); at the end and when stopped in any
    case."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Go on from the latest checkpoint in DIR, as if the solve had never stopped, on any number
    of processes."""
    log: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Folder for a log of every process: its own F, times, bytes and memory, at each report."""
    record: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """New folder for snapshots of cameras and some points, to be played by daba view DIR."""
    view: Annotated[bool, tyro.conf.arg(help_behavior_hint="")] = False
    """Show the solve in the browser while it runs (pip install 'daba[viewer]'); the address is
    printed, and the page stays until Ctrl-C."""
    view_port: int = 8080
    """Port of that page; if it is taken, the next one that is free."""
    intrinsics: Intrinsics = "auto"
    rigs: Rigs = "keep"
    kind: Kind = "same"
    overwrite: Overwrite = False
    quiet: Quiet = False


def run(argv: list[str]) -> int:
    flags = flags_of(ConstraintOptions)
    command, values = parse(SolveCommand, argv, solve_flags() | flags, GROUPS)
    constraints = ConstraintOptions(**{name: values.pop(name) for name in flags})
    options = make_options(values)
    checkpoints = _checkpoints(command)
    check_outputs(command)

    from daba.distributed.comm.launcher import communicator
    from daba.distributed.scatter import options_for
    from daba.io.folders import is_store
    from daba.partition.partition import make_partition
    from daba.runtime.solve import solve
    from daba.tools.progress import Progress

    comm = communicator()
    first = comm.rank == 0
    problem: Problem | Store | None = None
    if is_store(command.input):
        problem = Store(command.input)
        options = options_for(problem, options)
        if not constraints.nothing:
            raise DabaError(
                f"{command.input} is a store, which holds its constraints: give --fix, "
                "--share-intrinsics and priors to daba partition when it is written"
            )
    elif first:
        from daba.io.formats import load

        read = load(command.input, command.intrinsics, rigs=command.rigs)
        problem = constrain(read, constraints)
        check_shared(command, problem)
        if not options.centralized and options.devices > problem.num_cameras:
            make_partition(problem, options.devices)  # says why not, before anything is compiled
    port = command.view_port if command.view else None
    recorder = make_recorder(command.record, port, problem, first, command.quiet)
    console = _announced(problem) if first and not command.quiet else None
    with Progress(console, options.most_iterations, options.max_seconds) as progress:
        result = solve(
            problem,
            options,
            callback=progress if first else None,
            comm=comm,
            checkpoints=checkpoints,
            log=command.log,
            recorder=recorder,
        )
    written, errors = write_outputs(command, result, comm)
    if console is not None:
        console.print()
        console.print(pairs_table([*result.rows(), *(("written", str(path)) for path in written)]))
    comm.barrier()
    if errors:
        raise DabaError("\n".join(errors))
    if result.reason not in EXIT_CODES:
        stay(recorder, command.quiet)
    return EXIT_CODES.get(result.reason, 0)


def _checkpoints(command: SolveCommand) -> Checkpoints | None:
    """`--checkpoint`, `--checkpoint-every` and `--resume`, understood."""
    every: int | None = None
    minutes: float | None = None
    if (text := command.checkpoint_every) is not None:
        try:
            if text.endswith("m"):
                minutes = float(text.removesuffix("m"))
            else:
                every = int(text)
        except ValueError:
            raise DabaError(
                f"--checkpoint-every takes a number of iterations, such as 50, or of minutes, such "
                f"as 10m, not '{text}'"
            ) from None
    if command.checkpoint is None and command.resume is None and text is None:
        return None
    return Checkpoints(command.checkpoint, every, minutes, command.resume)


def _announced(problem: Problem | Store | None) -> Console | None:
    """A console on which the problem and its diagnostics are printed; None if nobody reads it."""
    from daba.problem.diagnostics import inspect

    console = make_console()
    try:
        if isinstance(problem, Store):
            e = problem.extent
            sizes = e.cameras, e.points, e.observations
            notes = [f"a store of {e.devices} devices"]
        else:
            assert problem is not None
            sizes = problem.num_cameras, problem.num_points, problem.num_observations
            report = inspect(problem)
            notes = [*report.constraints, *report.warnings]
        console.say("{}: {:,} cameras, {:,} points, {:,} observations".format(problem.name, *sizes))
        for note in notes:
            console.say(f"  note: {note}")
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
