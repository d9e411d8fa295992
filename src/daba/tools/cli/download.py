"""`daba download`: fetch problems of the BAL collection, or list them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

from daba.core.errors import DabaError
from daba.core.types import frozen
from daba.tools.cli.arguments import Arg, Json, parse
from daba.tools.cli.console import make_console, to_json
from daba.tools.datasets import DATASETS, Dataset, cache_folder, fetch, find
from daba.tools.progress import LIVE, PLAIN


@frozen
class DownloadCommand:
    """Fetch problems of Bundle Adjustment in the Large, and print where they are.

    A file that is there already is not fetched again, an interrupted download goes on where it
    stopped, and each is read as a whole before it counts. Paths go to stdout, all else to stderr.

    examples:
      daba download --list
      daba download ladybug-49
      daba solve $(daba download trafalgar-21) --devices 4 --output solution.txt
      daba download venice-52 final-93 --output data
    """

    names: Annotated[
        tuple[str, ...],
        Arg("NAME", positional=True),
    ] = ()
    """Problems by collection and cameras, as in ladybug-49."""
    show: Annotated[bool, Arg(word="list")] = False
    """List all problems instead."""
    output: Annotated[Path | None, Arg("FOLDER", "-o")] = None
    """Where to put the files; a folder for caches, which --list names, if absent."""
    mirror: Annotated[str | None, Arg("URL")] = None
    """Another site with the collection's folders; $DABA_MIRROR, or its own, if absent."""
    quiet: bool = False
    """Print nothing but paths, warnings and errors."""
    json: Json = False


def run(argv: list[str]) -> int:
    command, _ = parse(DownloadCommand, argv)
    if command.show and command.names:
        raise DabaError("give names to download, or --list, but not both")
    if command.show:
        _list(command)
        return 0
    if not command.names:
        raise DabaError("give the name of a problem, as in `daba download ladybug-49`, or --list")
    paths = {}
    for dataset in [find(name) for name in command.names]:  # a wrong name costs no download
        line = None if command.quiet else _Line(dataset.name)
        try:
            paths[dataset.name] = fetch(dataset, command.output, command.mirror, line)
        finally:
            if line is not None:
                line.close()
        if not command.json:
            print(paths[dataset.name], flush=True)
    if command.json:
        print(to_json({name: str(path) for name, path in paths.items()}))
    return 0


def _list(command: DownloadCommand) -> None:
    folder = cache_folder() if command.output is None else command.output
    if command.json:
        print(to_json([_entry(dataset, folder) for dataset in DATASETS]))
        return
    console = make_console()
    head = ["name", "cameras", "points", "observations", "row in the paper", "here"]
    rows = []
    for d in DATASETS:
        known = "" if d.observations is None else f"{d.observations:,}"
        here = "yes" if (folder / d.file).is_file() else ""
        rows.append([d.name, f"{d.cameras:,}", f"{d.points:,}", known, d.paper, here])
    console.numbers(head, rows, left=(0, 4))
    console.say(f"{len(DATASETS)} problems; downloads are kept in {folder}")


def _entry(dataset: Dataset, folder: Path) -> dict[str, object]:
    path = folder / dataset.file
    return {
        "name": dataset.name,
        "cameras": dataset.cameras,
        "points": dataset.points,
        "observations": dataset.observations,
        "paper": dataset.paper or None,
        "address": dataset.address(),
        "path": str(path) if path.is_file() else None,
    }


class _Line:
    """How a download is going, on stderr: kept up to date on a terminal, else now and then."""

    def __init__(self, name: str) -> None:
        self.name, self.live = name, sys.stderr.isatty()
        self.due = 0.0
        self.first: tuple[float, int] | None = None
        self.latest = ""

    def __call__(self, here: int, total: int | None) -> None:
        now = time.perf_counter()
        if self.first is None:
            self.first = now, here
        seconds, bytes_before = self.first
        speed = (here - bytes_before) / max(now - seconds, 1e-3)
        words = [self.name, _size(here) if total is None else f"{_size(here)} of {_size(total)}"]
        if total:
            words.append(f"{100 * here // total} %")
        if here == total:
            words.append("checking")  # the largest take minutes to read
        elif here > bytes_before:
            words.append(f"{_size(speed)}/s")
        self.latest = "  ".join(words)
        if now >= self.due or here == total:
            self.due = now + (LIVE if self.live else PLAIN)
            self._show()

    def close(self) -> None:
        """Let what follows begin on a line of its own."""
        if self.latest and self.live:
            print(file=sys.stderr)

    def _show(self) -> None:
        text = f"\r{self.latest:<60}" if self.live else f"{self.latest}\n"
        print(text, end="", file=sys.stderr, flush=True)


def _size(count: float) -> str:
    return f"{count / 1e6:.1f} MB"
