"""The errors of an estimate in a panel: a few numbers, and how they are spread."""

from __future__ import annotations

import numpy as np

from daba.core.types import frozen
from daba.problem.problem import Floats
from daba.tools.viewer import paint

BARS = 36
HIGH = 3.2
"""Height of the longest bar, in em."""


@frozen
class Spread:
    """Errors of observations, in pixels, counted."""

    rms: float
    mean: float
    median: float
    edges: Floats
    """Of the bars; the first bar holds all that is smaller, the last all that is larger."""
    counts: np.ndarray

    @staticmethod
    def of(errors: Floats) -> Spread:
        low, high = paint.error_range(errors)
        edges = np.geomspace(0.3 * low, 2.0 * high, BARS + 1)
        bar = np.clip(np.searchsorted(edges, errors, side="right") - 1, 0, BARS - 1)
        with np.errstate(over="ignore"):
            rms = float((errors @ errors / len(errors)) ** 0.5)
        counts = np.bincount(bar, minlength=BARS)
        return Spread(rms, float(errors.mean()), float(np.median(errors)), edges, counts)

    @property
    def words(self) -> str:
        return f"rms {self.rms:.3g} px, mean {self.mean:.3g}, median {self.median:.3g}"

    def html(self, low: float, high: float, threshold: float) -> str:
        """Bars in the colours of a scale from low to high; what is below the threshold is faint."""
        middles = np.sqrt(self.edges[1:] * self.edges[:-1])
        colours = paint.by_error(middles, low, high)
        most = max(int(self.counts.max()), 1)
        bars = "".join(
            f'<i style="flex: 1; height: {HIGH * count / most:.2f}em; opacity: '
            f'{0.25 if edge < threshold else 1}; background: rgb({r},{g},{b})"></i>'
            for count, edge, (r, g, b) in zip(self.counts, self.edges[1:], colours, strict=True)
        )
        ends = f"<span>{self.edges[0]:.2g}</span><span>observations, by pixel error</span>"
        return (
            '<div style="margin: 0 .9em .6em; font-size: .8em">'
            f'<div style="display: flex; align-items: flex-end; gap: 1px; height: {HIGH}em">'
            f'{bars}</div><div style="display: flex; justify-content: space-between; '
            f'opacity: .75">{ends}<span>{self.edges[-1]:.2g}</span></div></div>'
        )
