"""A table as data, and as Markdown and HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field

from daba.core.text import as_html
from daba.core.types import frozen

BETTER = "†"
"""Marks, in Markdown, what is better than the reference; in HTML a colour does, too."""


@frozen
class Cell:
    """One entry."""

    text: str
    bold: bool = False
    better: bool = False
    faint: bool = False
    worse: bool = False
    """Worse than before: in HTML it is red."""
    prose: bool = False
    """Words rather than a number: it may wrap."""

    def markdown(self) -> str:
        text = self.text.replace("|", "\\|") + (BETTER if self.better else "")
        return f"**{text}**" if self.bold else text

    def html(self, words: bool = False) -> str:
        kinds = ("bold", "better", "faint", "worse", "prose")
        names = [name for name in kinds if getattr(self, name)]
        names += ["words"] if words else []
        kind = f' class="{" ".join(names)}"' if names else ""
        return f"<td{kind}>{as_html(self.text)}</td>"


Entry = Cell | str


@frozen
class Table:
    """Rows under a head, with a title and a sentence that explains it."""

    title: str
    about: str
    head: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    notes: Sequence[str] = field(default=())
    """Sentences below it."""

    def markdown(self) -> str:
        rule = ["---" if words else "---:" for words in self.wordy()]
        lines = [
            f"| {' | '.join(self.head)} |",
            f"| {' | '.join(rule)} |",
            *(f"| {' | '.join(_cell(e).markdown() for e in row)} |" for row in self.rows),
        ]
        parts = [f"### {self.title}", self.about, "\n".join(lines), *self._notes()]
        return "\n\n".join(parts)

    def wordy(self) -> list[bool]:
        """Which columns have words, which begin at the left, rather than numbers."""
        columns = zip(*(map(_cell, row) for row in self.rows), strict=True)
        return [
            not any(cell.text[:1].isdigit() or cell.text[:1] == "–" for cell in column)
            for column in columns
        ]

    def _notes(self) -> list[str]:
        return ["\n".join(f"- {note}" for note in self.notes)] if self.notes else []

    def html(self) -> str:
        kinds = [' class="words"' if words else "" for words in self.wordy()]
        head = "".join(
            f"<th{kind}>{as_html(name)}</th>" for kind, name in zip(kinds, self.head, strict=True)
        )
        body: list[str] = []
        before = ""
        for row in self.rows:
            first = _cell(row[0])
            again = first.text == before
            new = "" if again or not body else ' class="new"'
            cells = [Cell("" if again else first.text), *map(_cell, row[1:])]
            line = (cell.html(words) for cell, words in zip(cells, self.wordy(), strict=True))
            body.append(f"<tr{new}>{''.join(line)}</tr>")
            before = first.text
        notes = "".join(f"<li>{prose(note)}</li>" for note in self.notes)
        title = f"<h3>{as_html(self.title)}</h3>" if self.title else ""
        about = f"<p>{prose(self.about)}</p>" if self.about else ""
        return (
            f"{title}{about}"
            f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table></div>"
            + (f'<ul class="notes">{notes}</ul>' if notes else "")
        )


def prose(text: str) -> str:
    """Markdown's emphasis and code in a sentence, as HTML."""
    text = as_html(text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", text)


def _cell(entry: Entry) -> Cell:
    return entry if isinstance(entry, Cell) else Cell(entry)


def number(value: float | None, digits: int = 5) -> str:
    """The value to so many digits; – where there is none."""
    return "–" if value is None else f"{value:.{digits}g}"


def plain(value: float, digits: int = 4) -> str:
    """The value to so many digits, without a power of ten where that is easy to read."""
    if 10**digits <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def several(texts: Iterable[str]) -> str:
    """Values beside each other in one cell; – alone where there is none at all."""
    known = list(texts)
    return "–" if set(known) == {"–"} else " / ".join(known)


def small(value: float) -> str:
    """1e-4 rather than 0.0001."""
    digits, _, power = f"{value:.6e}".partition("e")
    return f"{float(digits):g}e{int(power)}"


def seconds(value: float | None) -> str:
    """A time to three digits."""
    if value is None:
        return "–"
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
