"""Printing: tables that look good in a terminal and stay plain in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any

from daba.core.text import printable
from daba.distributed.comm.launcher import launched_rank

BOLD, YELLOW, GREEN, CYAN, GREY = "1", "1;33", "32", "36", "90"
"""Styles, as terminals number them."""
GAP = "  "
"""Between two columns."""


class Console:
    """A stream that knows whether somebody looks at it."""

    def __init__(
        self, file: IO[str], terminal: bool | None = None, width: int | None = None
    ) -> None:
        self.file = file
        self.is_terminal = file.isatty() if terminal is None else terminal
        self._width = width

    @property
    def width(self) -> int:
        """Columns, as they are now."""
        import shutil

        return shutil.get_terminal_size().columns if self._width is None else self._width

    def say(self, text: str = "", style: str | None = None) -> None:
        """Print words, some of which may come from a file."""
        self._write(self._styled(printable(text), style) + "\n")

    def rewrite(self, line: str) -> None:
        """Print a line over the one before it."""
        self._write(f"{line}\r")

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Two columns: what, and its value; folded in a terminal, and whole in a file."""
        rows = [(what, printable(value)) for what, value in rows]
        first = max((len(what) for what, _ in rows), default=0)
        room = max(self.width - first - len(GAP), 20) if self.is_terminal else None
        lines: list[str] = []
        for what, value in rows:
            head, *more = _folded(value, room)
            lines.append(self._styled(f"{what:<{first}}", BOLD) + GAP + head)
            lines += [" " * (first + len(GAP)) + line for line in more]
        self._write("\n".join(lines) + "\n")

    def numbers(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        total: Sequence[str] | None = None,
        left: Sequence[int] = (),
    ) -> None:
        """A header and right-aligned columns, all but those in `left`; the total comes last."""
        every = [head, *rows, *([] if total is None else [total])]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        rule = GAP.join("─" * width for width in widths)

        def line(row: Sequence[str]) -> str:
            sides = ["<" if n in left else ">" for n in range(len(row))]
            cells = zip(row, sides, widths, strict=True)
            return GAP.join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()

        lines = [self._styled(line(head), BOLD), rule, *map(line, rows)]
        if total is not None:
            lines += [rule, self._styled(line(total), BOLD)]
        self._write("\n".join(lines) + "\n")

    def _styled(self, text: str, style: str | None) -> str:
        return text if style is None else styled(text, style, self.is_terminal)

    def _write(self, text: str) -> None:
        self.file.write(text)
        self.file.flush()


def make_console() -> Console:
    """A console on today's stdout."""
    # mpiexec gives each process a terminal of its own, wherever its output goes to
    return Console(sys.stdout, None if launched_rank() is None else False)


def styled(text: str, style: str, terminal: bool) -> str:
    """With the codes of a terminal, unless $NO_COLOR asks for none."""
    plain = not terminal or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[{style}m{text}\x1b[0m"


def _folded(text: str, room: int | None) -> list[str]:
    if room is None or len(text) <= room:
        return [text]
    import textwrap

    return textwrap.wrap(text, room, break_on_hyphens=False) or [text]


def to_json(value: Any) -> str:
    """JSON that every reader takes: numbers that are not finite become null."""
    import json

    from daba.core.text import safe_json

    return safe_json(json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    import math

    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
