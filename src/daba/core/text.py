"""Text that comes from files, made safe for where it is shown.

A name in a file may hold anything: terminal commands, HTML, bytes that are not UTF-8. Whatever is
shown goes through one of these functions: `printable` for a terminal, `as_html` for a page,
`safe_json` for JSON. Each shows what it does not let through, rather than drop it. `as_bytes` is
for files that are to hold the name as it was read. `parse_json` reads what others may have written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but for tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # they turn the direction of writing
    "\u2028\u2029"  # line ends that are not newlines
    "\ud800-\udfff]"  # bytes that are no UTF-8, as Python keeps them
)

_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def printable(text: object) -> str:
    r"""The text with control characters as escapes: `\x1b[31m` does not turn a terminal red."""
    return _UNSAFE.sub(lambda found: _escape(ord(found[0])), str(text))


def as_html(text: object) -> str:
    """The text for a page, be it between tags or in a quoted attribute."""
    import html

    return html.escape(printable(text))


def html_table(rows: Iterable[tuple[str, str]]) -> str:
    """Pairs of what and value, as a notebook shows them."""
    cell = '<td style="text-align: left; vertical-align: top">'
    inside = "".join(
        f"<tr>{cell}<b>{as_html(what)}</b></td>{cell}{as_html(value)}</td></tr>"
        for what, value in rows
    )
    return f"<table>{inside}</table>"


def safe_json(text: str) -> str:
    """JSON that was made with `ensure_ascii=False`, safe to print and to encode; it means the
    same, because such characters occur only within its strings."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def parse_json(text: str | bytes) -> Any:
    """What JSON from a file says; `ValueError` for all that is none, be it nested without end."""
    import json

    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def as_bytes(text: str) -> bytes:
    """The bytes that a name was read from; what no byte can have been becomes an escape."""
    text = _NO_BYTE.sub(lambda found: _escape(ord(found[0])), text)
    return text.encode("utf-8", "surrogateescape")


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # os.fsdecode and our readers put a byte there
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def size(count: float | None) -> str:
    """Bytes to three digits; – where nobody knows."""
    if count is None:
        return "–"
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:.3g} {unit}"
    return f"{count:.0f} B"
