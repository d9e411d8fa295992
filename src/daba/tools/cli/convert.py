"""`daba convert`: from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from daba.core.errors import DabaError
from daba.core.types import frozen
from daba.tools.cli.arguments import Arg, Intrinsics, Kind, Overwrite, Quiet, Rigs, parse
from daba.tools.cli.outputs import check_problem_target


@frozen
class ConvertCommand:
    """Read a problem in one format and write it in another; suffixes say which.

    BAL and Bundler are written in the standard forward model, which every other tool reads; .npz
    and .daba, a store shared out to devices, lose nothing; .ply is for viewers.
    OUT is a store if it ends in .daba or if --devices is given. Of a COLMAP model, any other name
    is the folder of a COLMAP model.

    examples:
      daba convert problem.txt.bz2 problem.npz
      daba convert solution.txt solution.ply --intrinsics standard
      daba convert problem.npz problem.daba --devices 8
      daba convert problem.daba problem.npz
      daba convert sparse/0 model.ply
      daba convert sparse/0 sparse/text --kind text
    """

    input: Annotated[Path, Arg("IN", positional=True)]
    """What to read: BAL (.txt, .bal), Bundler (.out), .npz, or the folder of a COLMAP model or a
    store."""
    output: Annotated[Path, Arg("OUT", positional=True)]
    """What to write: BAL, Bundler, .npz, .ply, a store (.daba), or from a COLMAP model a folder."""
    devices: Annotated[int | None, Arg("S")] = None
    """Write a store for so many devices; 1 if OUT ends in .daba."""
    intrinsics: Intrinsics = "auto"
    rigs: Rigs = "keep"
    kind: Kind = "same"
    overwrite: Overwrite = False
    quiet: Quiet = False


def run(argv: list[str]) -> int:
    command, _ = parse(ConvertCommand, argv)
    fit = (_to_store if _is_store(command) else _to_file)(command)
    if not command.quiet:
        print(f"{command.input} -> {command.output}")
        if fit is not None:
            print(f"intrinsics fit: rms {fit['rms_px']:.3g}, largest {fit['max_px']:.3g} px")
    return 0


def _is_store(command: ConvertCommand) -> bool:
    from daba.io.files import split_suffix
    from daba.io.formats import FORMATS

    suffix, _ = split_suffix(command.output)
    file = any(suffix in form.suffixes for form in FORMATS if form.name != "store")
    if command.devices is not None and file:
        raise DabaError(
            f"{command.output}: --devices is for stores, so give a name that ends in .daba"
        )
    return command.devices is not None or suffix == ".daba"


def _to_file(command: ConvertCommand) -> dict[str, float] | None:
    """Convert, and give the residual of the intrinsics' fit, if there was one."""
    from daba.io.formats import load, save

    check_problem_target(command.output, command.input, command.overwrite)
    problem = load(command.input, command.intrinsics, rigs=command.rigs)
    save(problem, command.output, kind=command.kind, overwrite=command.overwrite)
    return problem.info.get("intrinsics_fit")


def _to_store(command: ConvertCommand) -> dict[str, float] | None:
    from daba.io.store.store import Store
    from daba.io.store.streaming import partition_to_store

    devices = 1 if command.devices is None else command.devices
    partition_to_store(command.input, devices, 0, command.output, command.intrinsics)
    return Store(command.output).info.get("intrinsics_fit")
