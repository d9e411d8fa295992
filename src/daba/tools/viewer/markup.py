"""The words of a page as HTML, in which everything is text: names come from files.

viser's Markdown lets HTML through, so nothing is shown with it.
"""

from __future__ import annotations

from daba.core.text import as_html


def block(title: str, *lines: str) -> str:
    """A title, and lines below it."""
    head = [f"<strong>{as_html(title)}</strong>"] if title else []
    inside = "<br>".join([*head, *(as_html(line) for line in lines)])
    return (
        '<div style="margin: 0 .9em .6em; font-size: .85em; line-height: 1.5; '
        f'overflow-wrap: anywhere">{inside}</div>'
    )
