"""`daba convert`: from one format to another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from daba.cli.arguments import Intrinsics, Quiet, parse
from daba.cli.outputs import check_problem_target


@dataclass(frozen=True)
class Convert:
    """Read a problem in one format and write it in another; suffixes say which.

    BAL is written in the standard forward model, which every other tool reads; .npz loses
    nothing; .ply holds points and cameras for a viewer.

    examples:
      daba convert problem.txt.bz2 problem.npz
      daba convert solution.txt solution.ply --intrinsics standard
    """

    input: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="IN", metavar="IN")]
    """File to read: BAL (.txt, .bal, also with .bz2 or .gz) or .npz."""
    output: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="OUT", metavar="OUT")]
    """File to write: BAL, .npz or .ply."""
    intrinsics: Intrinsics = "paper"
    quiet: Quiet = False


def run(argv: list[str]) -> int:
    command, _ = parse(Convert, argv)
    from daba.io import load, save

    check_problem_target(command.output)
    problem = load(command.input, command.intrinsics)
    save(problem, command.output)
    if not command.quiet:
        print(f"{command.input} -> {command.output}")
        fit = problem.info.get("intrinsics_fit")
        if fit is not None:
            print(f"intrinsics fit: rms {fit['rms_px']:.3g}, largest {fit['max_px']:.3g} px")
    return 0
