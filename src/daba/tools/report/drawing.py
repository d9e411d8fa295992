"""Figures of a page: drawn by matplotlib, small, with text that stays text."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from daba.tools.plotting import our_style

PAGE_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": ["sans-serif"],
    "font.size": 9,
}
"""Letters are those of the page's own font."""


def draw(make: Callable[[Any], None], width: float = 4.6, height: float = 2.9) -> str:
    """The SVG of one panel that `make` fills; sizes in inches."""
    from matplotlib.figure import Figure

    with our_style(PAGE_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        make(figure.subplots())
        memory = BytesIO()
        figure.savefig(memory, format="svg", dpi=150, metadata={"Date": None})
    return memory.getvalue().decode()


def plain_ticks(axis: Any) -> None:
    """1000 rather than 10³."""
    axis.set_major_formatter(lambda value, _: f"{value:g}")
