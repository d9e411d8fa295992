"""`daba solve`: read, solve with live progress, write the outputs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from daba.core.errors import DabaError
from daba.core.losses import LOSSES, Trivial, make_loss
from daba.core.options import Options
from daba.core.types import frozen
from daba.io.constraint_options import ConstraintOptions, constrain
from daba.runtime.observers import REASONS, Interrupt
from daba.tools.cli.arguments import (
    Arg,
    Flag,
    Intrinsics,
    Kind,
    Overwrite,
    Quiet,
    Rigs,
    flags_of,
    parse,
)
from daba.tools.cli.console import Console, make_console
from daba.tools.cli.outputs import check_outputs, check_shared, write_outputs

if TYPE_CHECKING:
    from daba.io.store.store import Store
    from daba.problem.problem import Problem
    from daba.runtime.checkpoint import Checkpoints
    from daba.runtime.result import Iteration

EXIT_CODES = {reason: 128 + number for number, reason in REASONS.items()}
"""Exit codes of solves that a signal has ended, as a shell reports them; everything is written."""

WORSE = 3
"""Exit code of a solve whose result is clearly worse than its start."""
ADVICE = (
    "Try --error pixel, --fix intrinsics or a robust loss such as --loss huber; daba info tells "
    "what is weak about the model."
)
GROUPS = {
    "method": (
        "method", "error", "devices", "iterations", "loss", "loss_radius", "filter", "backend",
        "max_seconds",
    ),
    "what is refined in pixels": (
        "refine_focal_length", "refine_extra_params", "refine_principal_point",
        "refine_sensor_from_rig",
    ),
    "constraints": ("fix", "share_intrinsics", "position_priors", "control_points"),
}  # fmt: skip
"""Options of every day."""
RESEARCH = {
    "more of the method": (
        "finish", "refine", "points_in_front", "precision", "threads", "seed", "check",
        "report_every",
    ),
    "priors": ("intrinsics_prior", "prior_loss", "prior_radius", "align"),
    "simulated network": ("simulate_latency", "simulate_bandwidth"),
    "stopping": ("function_tolerance", "gradient_tolerance", "patience"),
    "surrogate and restart": (
        "xi", "split", "eta", "eta_growth", "restart_ratio", "momentum_clip", "momentum_reset",
    ),
    "consensus": ("penalty", "metric", "relaxation", "inner_steps"),
    "linear solver": ("linear_solver", "pcg_forcing", "pcg_residual", "pcg_iterations"),
    "trust region": ("lm_radius", "lm_tries", "lm_gain"),
}  # fmt: skip
"""Options that only `--help-all` shows, and with them …"""
RARE = (
    "history", "plot", "checkpoint", "checkpoint_every", "resume", "log", "record", "view_port",
    "intrinsics", "rigs", "kind",
)  # fmt: skip
"""… these fields of the command."""
LOSS_FLAGS = (
    Flag("loss", Literal[tuple(LOSSES)], "trivial",
         Arg(help="Robust loss; trivial is least squares.")),
    Flag("loss_radius", float, None,
         Arg(help="Where the loss turns robust, in pixels; by default 32.")),
)  # fmt: skip


@frozen
class SolveCommand:
    """Solve a bundle adjustment problem and write the solution.

    A COLMAP model goes in and comes out adjusted; so do BAL and Bundler files. With --devices S
    the problem is shared by S devices. Ctrl-C stops early and still writes every output. Under
    mpiexec the devices are assigned to the processes; of a store (see daba partition) each
    process reads only its own part.

    examples:
      daba solve sparse/0 -o sparse/better
      daba solve sparse/0 -o sparse/better --filter 4 --report how.html
      daba solve problem.txt.bz2 -o solution.txt --loss huber --loss-radius 4
      daba solve problem.txt.bz2 -o solution.txt -o solution.ply --devices 8
      daba solve sparse/0 -o sparse/there --position-priors gnss.csv
      daba partition problem.txt.bz2 --devices 8 -o problem.daba
      mpiexec -n 4 daba solve problem.daba -o solution.daba
    """

    input: Annotated[Path, Arg("IN", positional=True)]
    """Problem to solve: BAL (.txt, .bal), Bundler (.out), .npz, or the folder of a COLMAP model or
    a store."""
    output: Annotated[tuple[Path, ...], Arg("OUT", "-o")] = ()
    """Where to write the solution: BAL, .npz, .ply or a store (.daba) by suffix; of a COLMAP model
    also a folder. Give it again for more files."""
    history: Annotated[Path | None, Arg("H.json")] = None
    """Where to write options, every iteration and the result, as JSON."""
    plot: Annotated[Path | None, Arg("P.png")] = None
    """Where to draw the convergence: .png, .svg or .pdf."""
    report: Annotated[Path | None, Arg("R.html")] = None
    """Where to write a page about this solve, as daba report makes it of a history."""
    checkpoint: Annotated[Path | None, Arg("DIR")] = None
    """Where to keep checkpoints; the two latest stay."""
    checkpoint_every: Annotated[str | None, Arg("N|MINUTESm")] = None
    """Save after so many iterations (50) or minutes (10m); at the end and when stopped in any
    case."""
    resume: Annotated[Path | None, Arg("DIR")] = None
    """Go on from the latest checkpoint in DIR, as if the solve had never stopped, on any number
    of processes."""
    log: Annotated[Path | None, Arg("DIR")] = None
    """Folder for a log of every process: its own F, times, bytes and memory, at each report."""
    record: Annotated[Path | None, Arg("DIR")] = None
    """New folder for snapshots of cameras and some points, to be played by daba view DIR."""
    view: bool = False
    """Show the solve in the browser while it runs (pip install 'daba[viewer]'); the address is
    printed, and the page stays until Ctrl-C."""
    view_port: int = 8080
    """Port of that page; if it is taken, the next one that is free."""
    intrinsics: Intrinsics = "auto"
    rigs: Rigs = "keep"
    kind: Kind = "same"
    overwrite: Overwrite = False
    force: bool = False
    """Write the solution even where it is clearly worse than the start."""
    quiet: Quiet = False


def run(argv: list[str]) -> int:
    flags = flags_of(ConstraintOptions)
    command, values = parse(SolveCommand, argv, solve_flags() | flags, GROUPS, RESEARCH, RARE)
    constraints = ConstraintOptions(**{name: values.pop(name) for name in flags})
    options = make_options(values)
    checkpoints = _checkpoints(command)
    check_outputs(command)

    from daba.distributed.comm.launcher import communicator
    from daba.distributed.scatter import options_for
    from daba.io.folders import is_store
    from daba.partition.partition import make_partition
    from daba.runtime.solve import solve
    from daba.tools.cli.watching import make_recorder, stay
    from daba.tools.progress import Progress

    comm = communicator()
    first = comm.rank == 0
    problem: Problem | Store | None = None
    if is_store(command.input):
        from daba.io.store.store import Store

        problem = Store(command.input)
        options = options_for(problem, options)
        if not constraints.nothing:
            raise DabaError(
                f"{command.input} is a store, which holds its constraints: give --fix, "
                "--share-intrinsics and priors to daba partition when it is written"
            )
    elif first:
        from daba.io.formats import load

        intrinsics = command.intrinsics
        if intrinsics == "auto" and options.error == "pixel":
            intrinsics = "standard"  # the forward model, as every other solver has it
        read = load(command.input, intrinsics, rigs=command.rigs)
        problem = constrain(read, constraints)
        check_shared(command, problem)
        if not options.centralized and options.devices > problem.num_cameras:
            make_partition(problem, options.devices)  # says why not, before anything is compiled
    port = command.view_port if command.view else None
    recorder = make_recorder(command.record, port, problem, first, command.quiet)
    console = None
    if first and not command.quiet:
        console = _announced(problem, command, options, comm.size)
    interrupt = Interrupt(patient=False)
    with interrupt:
        with Progress(console, options.most_iterations, options.max_seconds) as progress:

            def report(entry: Iteration) -> None:
                interrupt.wait()  # from now on there is a result to write
                progress(entry)

            result = solve(
                problem,
                options,
                callback=report if first else None,
                comm=comm,
                checkpoints=checkpoints,
                log=command.log,
                recorder=recorder,
            )
        interrupt.wait()
        worse = comm.broadcast(result.worse)
        written, errors = write_outputs(command, result, comm, bool(worse) and not command.force)
    if console is not None:
        console.say()
        rows = [("written", str(path)) for path in written]
        if not command.output:
            rows.append(("not written", "the solution: -o OUT says where to"))
        elif worse and not command.force:
            rows.append(("not written", "the solution, which is worse: --force writes it"))
        console.pairs([*result.rows(), *rows])
    comm.barrier()
    if errors:
        raise DabaError("\n".join(errors))
    reason = interrupt.reason or result.reason
    if interrupt.reason and first:
        print(f"daba: {reason} while outputs were written; they are complete", file=sys.stderr)
    if worse and first:
        print(f"daba: {ADVICE}", file=sys.stderr)
    if reason not in EXIT_CODES:
        stay(recorder, command.quiet)
    return EXIT_CODES.get(reason, WORSE if worse else 0)


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
    from daba.runtime.checkpoint import Checkpoints

    return Checkpoints(command.checkpoint, every, minutes, command.resume)


def _announced(
    problem: Problem | Store | None, command: SolveCommand, options: Options, processes: int
) -> Console | None:
    """A console on which the problem, its diagnostics and the method are printed; None if nobody
    reads it."""
    from daba.problem.diagnostics import inspect
    from daba.problem.images import ImageNames
    from daba.problem.problem import Problem
    from daba.runtime.choice import choose_method
    from daba.runtime.runs import error_of

    console = make_console()
    try:
        assert problem is not None
        if isinstance(problem, Problem):
            sizes = problem.num_cameras, problem.num_points, problem.num_observations
            report = inspect(problem)
            notes = [*report.constraints, *report.warnings]
        else:
            e = problem.ranges
            sizes = e.cameras, e.points, e.observations
            notes = [f"a store of {e.devices} devices"]
        images = ImageNames.of(problem.info, sizes[0]).count(sizes[0])
        if not command.output:
            notes.append("the solution will not be written, because no --output says where to")
        points, seen = sizes[1:]
        console.say(f"{problem.name}: {images}, {points:,} points, {seen:,} observations")
        for note in notes:
            console.say(f"  note: {note}")
        chosen = choose_method(options, error_of(problem, options), processes)
        console.say(f"method: {chosen.line(options.devices)}")
    except OSError:  # nobody reads it, or the disk is full; what is to be written will be
        return None
    return console


def solve_flags() -> dict[str, Flag]:
    """Every option of `daba.solve`, with the loss as a name and a radius."""
    return flags_of(Options, {"loss": LOSS_FLAGS})


def make_options(values: dict[str, Any]) -> Options:
    """`Options` from the values of `solve_flags`."""
    values = dict(values)
    name, radius = values.pop("loss"), values.pop("loss_radius")
    if radius is None:
        return Options(**values, loss=make_loss(name))
    if name == Trivial.name:
        raise DabaError(
            f"--loss-radius {radius:g} needs a robust loss: say which, such as --loss huber"
        )
    return Options(**values, loss=make_loss(name, radius))
