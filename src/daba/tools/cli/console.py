"""Printing: tables that look good in a terminal and stay plain in a file."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from daba.core.text import printable, safe_json
from daba.distributed.comm.launcher import launched_rank


class SafeConsole(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit on its own; `main` knows what to do

    def say(self, text: str) -> None:
        """Print words, some of which may come from a file."""
        self.print(printable(text), markup=False, soft_wrap=True)


def make_console() -> SafeConsole:
    """A console on today's stdout; never narrower than a table needs when it is a file."""
    # mpiexec gives each process a terminal of its own, wherever its output goes to
    terminal = None if launched_rank() is None else False
    console = SafeConsole(file=sys.stdout, highlight=False, force_terminal=terminal)
    if not console.is_terminal:
        console.width = max(console.width, 120)
    return console


def pairs_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Two columns: what, and its value."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for what, value in rows:
        table.add_row(Text(what), Text(printable(value)))
    return table


def numbers_table(columns: list[str]) -> Table:
    """A header and right-aligned numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def to_json(value: Any) -> str:
    """JSON that every reader takes: numbers that are not finite become null."""
    return safe_json(json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
