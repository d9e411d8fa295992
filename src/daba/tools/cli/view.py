"""`daba view`: look at a reconstruction in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from daba.core.errors import DabaError
from daba.core.text import printable
from daba.core.types import frozen
from daba.tools.cli.arguments import Arg, Intrinsics, Quiet, parse

if TYPE_CHECKING:
    from daba.tools.viewer.subject import Subject


@frozen
class ViewCommand:
    """Look at a problem, at a problem and its solution, or at a recorded solve, in the browser.

    Points and cameras, coloured by image, by pixel error or by device; the errors and how they
    are spread; images are found by name, and a click on one shows what it sees. The page is
    served from here to this machine only; the command to reach it from another one over SSH is
    printed. Needs viser: pip install 'daba[viewer]'.

    examples:
      daba view problem.txt.bz2
      daba view sparse/0 sparse/better --images images
      daba view problem.txt.bz2 solution.txt
      daba solve problem.txt.bz2 --devices 8 --record film
      daba view film
    """

    input: Annotated[Path, Arg("X", positional=True)]
    """Problem or solution in any format that daba reads, or the folder of a recorded solve."""
    after: Annotated[
        Path | None,
        Arg("Y", positional=True),
    ] = None
    """The same problem after a solve, to switch between the two; read as daba writes it."""
    images: Annotated[Path | None, Arg("FOLDER")] = None
    """Folder with the images, to show the one that is picked."""
    devices: int = 8
    """Devices of the partition that is shown, unless X is a store, which has its own."""
    host: str = "localhost"
    """Address to listen on; 0.0.0.0 lets every machine in that can reach this one."""
    port: int = 8080
    """Port to listen on; if it is taken, the next one that is free."""
    intrinsics: Intrinsics = "auto"
    quiet: Quiet = False


def run(argv: list[str]) -> int:
    command, _ = parse(ViewCommand, argv)
    from daba.tools.viewer import serve
    from daba.tools.viewer.thumbnails import Thumbnails

    serve.import_viser()
    thumbnails = None if command.images is None else Thumbnails(command.images)
    subject = _subject(command)
    view = serve.View(subject, command.host, command.port, thumbnails)
    if not command.quiet:
        print(printable(f"{subject.name}: {subject.counts}"))
        print(f"{view.how_to_reach()}\nCtrl-C ends it", flush=True)
    serve.wait()
    view.stop()
    return 0


def _subject(command: ViewCommand) -> Subject:
    from daba.io.folders import is_store
    from daba.io.formats import load
    from daba.io.store.store import Store
    from daba.runtime.recording import is_recording, read_recording
    from daba.tools.viewer.subject import subject_of, subject_of_recording

    if command.devices < 1:
        raise DabaError(f"--devices must be at least 1, not {command.devices}")
    if is_recording(command.input):
        if command.after is not None:
            raise DabaError(f"{command.input} is a recording, with all its iterations: give no Y")
        return subject_of_recording(*read_recording(command.input))
    before = load(command.input, command.intrinsics)
    after = None if command.after is None else load(command.after, "standard")
    partition = Store(command.input).partition() if is_store(command.input) else None
    return subject_of(before, after, command.devices, partition)
