"""`daba report`: one page about one or more solves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from daba.core.errors import DabaError
from daba.core.types import frozen
from daba.io.files import file_target
from daba.tools.cli.arguments import Arg, Quiet, parse


@frozen
class ReportCommand:
    """Make one HTML page of what daba solve --history has written.

    The page shows pixel errors before and after, what was filtered, the worst images, intrinsics,
    the scene, convergence, communication and memory, options and versions. It needs nothing but
    itself: send it, or open it in any browser. Several runs stand side by side.

    examples:
      daba solve city.txt --devices 8 --history eight.json
      daba report eight.json
      daba solve city.txt --history one.json
      daba report one.json eight.json --output both.html
      daba report one.json eight.json --names alone shared
    """

    runs: Annotated[
        tuple[Path, ...],
        Arg("RUN.json", positional=True),
    ]
    """Histories, as daba solve --history writes them."""
    output: Annotated[Path, Arg("PAGE.html", "-o")] = Path("report.html")
    """Where to write the page."""
    names: Annotated[tuple[str, ...], Arg(row=True)] = ()
    """What the runs are called on the page, in their order; by default method and devices, or the
    names of the files."""
    quiet: Quiet = False


def run(argv: list[str]) -> int:
    command, _ = parse(ReportCommand, argv)
    if command.names and len(command.names) != len(command.runs):
        raise DabaError(f"{len(command.names)} names for {len(command.runs)} runs: name each once")
    file_target(command.output)
    if os.path.realpath(command.output) in map(os.path.realpath, command.runs):
        raise DabaError(f"{command.output} is a run to be read; write the page somewhere else")

    from daba.tools.report.run_report import write_report
    from daba.tools.report.runs import read_run

    runs = [read_run(path) for path in command.runs]
    write_report(runs, command.output, command.names or None)
    if not command.quiet:
        print(command.output)
    return 0
