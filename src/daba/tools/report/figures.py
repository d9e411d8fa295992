"""The panels of a report, each an SVG of its own, so that a narrow screen shows them in turn."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.text import size
from daba.problem.problem import Floats
from daba.tools.plotting import COLOURS, FAINT, INK, few_ticks
from daba.tools.report.drawing import draw, plain_ticks
from daba.tools.report.runs import ErrorCounts, RecordedRun, alike

WIDE = 4.4
HIGH = 2.75
"""Inches of a panel."""
MOST = 400
"""Points of a curve: more cannot be seen, and make the page large."""

TICKS = [m * 10**n for n in range(1, 7) for m in (1, 3)]
"""Ticks of a long axis of iterations, linear up to 10 and logarithmic from there."""


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def curves(runs: list[RecordedRun], column: str, over: str, title: str) -> str:
    """A column of the history against iterations, seconds, rounds or bytes."""

    def make(axes: Any) -> None:
        for n, run in enumerate(runs):
            x, y = thinned(run.history[over], run.history[column])
            axes.plot(x, y, **_line(n, len(x)))
            again = run.history["restarts"] > 0
            if again.any():
                spot = {"linestyle": "none", "marker": "|", "markersize": 8, "alpha": 0.6}
                x, y = thinned(run.history[over][again], run.history[column][again])
                axes.plot(x, y, color=colour(n), **spot)
        values = np.concatenate([run.history[column] for run in runs])
        positive = values[np.isfinite(values) & (values > 0)]
        if len(positive):
            axes.set_yscale("log")
            few_ticks(axes)
        _over(axes, runs, over)
        axes.set_title(title)

    return draw(make, WIDE, HIGH)


def gaps(runs: list[RecordedRun], over: str, title: str) -> str:
    """F / K above the lowest value that any run of the same problem and loss has reached."""

    def make(axes: Any) -> None:
        shown = False
        for n, run in enumerate(runs):
            low = min(np.nanmin(r.history["mean_objective"]) for r in runs if alike(r, run))
            above = run.history["mean_objective"] - low
            keep = above > 1e-12 * abs(low)
            if keep.any():
                x, y = thinned(run.history[over][keep], above[keep])
                axes.plot(x, y, **_line(n, len(x)))
                shown = True
        if shown:
            axes.set_yscale("log")
        else:
            axes.text(0.5, 0.5, "nothing above the lowest", transform=axes.transAxes, ha="center")
        _over(axes, runs, over)
        axes.set_title(title)

    return draw(make, WIDE, HIGH)


def counted(runs: list[RecordedRun], column: str, title: str, summed: bool = False) -> str:
    """What was counted in each iteration, or since the start."""

    def make(axes: Any) -> None:
        for n, run in enumerate(runs):
            values = run.history[column]
            x, y = thinned(run.history["iteration"], np.cumsum(values) if summed else values)
            axes.plot(x, y, drawstyle="steps-post" if summed else "default", **_line(n, MOST))
        axes.set_ylim(bottom=0)
        if axes.get_ylim()[1] < 1:
            axes.set_ylim(0, 1)
        _over(axes, runs, "iteration")
        axes.yaxis.set_major_locator(_whole_numbers())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_title(title)

    return draw(make, WIDE, HIGH)


def seen_from_above(run: RecordedRun, wide: float = WIDE) -> str:
    """Cameras and points of a run, each in the colour of its device."""
    o = run.overview
    assert o is not None
    high = float(np.clip(wide * o.size[1] / o.size[0], 0.3 * wide, 0.9 * wide))

    def make(axes: Any) -> None:
        for (xy, device), look in (
            (o.points, {"s": np.clip(14000 / max(len(o.points[0]), 1), 1.8, 6), "alpha": 0.55,
                        "linewidths": 0}),
            (o.cameras, {"s": np.clip(6000 / max(len(o.cameras[0]), 1), 7, 26), "marker": "o",
                         "edgecolors": INK, "linewidths": 0.7}),
        ):  # fmt: skip
            paint = [colour(d) for d in range(len(COLOURS))]
            shown = [paint[d % len(COLOURS)] for d in device]
            axes.scatter(*(xy * o.size).T, c=shown, rasterized=True, **look)
        axes.set_xlim(0, o.size[0])
        axes.set_ylim(0, o.size[1])
        axes.set_aspect("equal")
        axes.axis("off")

    return draw(make, wide, high)


def histogram(run: RecordedRun, number: int) -> str:
    """Pixel errors at the start and at the solution."""
    o = run.overview
    assert o is not None
    share = [100.0 * e.counts / max(e.counts.sum(), 1) for e in (o.start, o.solution)]
    first, last = _range(o.start, o.solution)
    ratio = o.edges[-1] / o.edges[-2]
    edges = np.concatenate([[o.edges[0] / ratio], o.edges, [o.edges[-1] * ratio]])

    def make(axes: Any) -> None:
        cut = slice(first, last + 1)
        inner = edges[first : last + 2]
        axes.stairs(share[0][cut], inner, fill=True, color=FAINT, alpha=0.35, label="start")
        axes.stairs(share[0][cut], inner, color=FAINT, linewidth=1.0)
        axes.stairs(share[1][cut], inner, fill=True, color=colour(number), alpha=0.25)
        axes.stairs(share[1][cut], inner, color=colour(number), linewidth=1.8, label="solution")
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        axes.set(xlabel="pixel error", title="% of observations")
        axes.grid(True, axis="y")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", handlelength=1.2)

    return draw(make, WIDE, HIGH)


def times(run: RecordedRun) -> str:
    """How each process spent its time."""
    some = run.processes
    height = float(np.clip(0.28 * len(some) + 0.9, 1.3, 7.0))

    def make(axes: Any) -> None:
        left: Floats = np.zeros(len(some))
        parts = (("computing", COLOURS[0]), ("waiting", "#cbd5e1"), ("exchanging", COLOURS[1]))
        for what, paint in parts:
            width = np.nan_to_num([getattr(p, what) for p in some])
            axes.barh([p.rank for p in some], width, left=left, color=paint, label=what, height=0.7)
            left = left + width
        axes.invert_yaxis()
        axes.yaxis.set_major_locator(_whole_numbers())
        axes.set(title="seconds of each process", ylabel="rank")
        axes.grid(True, axis="x")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, handlelength=1)

    return draw(make, WIDE, height)


def thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Not more than can be seen; first and last stay, and the early part, where most happens."""
    if len(x) <= MOST:
        return x, y
    keep = np.unique(np.rint(np.geomspace(1, len(x), MOST)).astype(int) - 1)
    even = np.linspace(0, len(x) - 1, MOST // 2).astype(int)
    keep = np.union1d(keep, even)
    return x[keep], y[keep]


def _line(number: int, points: int) -> dict[str, Any]:
    marker = {"marker": "o", "markersize": 2.5} if points < 30 else {}
    return {"color": colour(number), "linewidth": 1.7, "solid_capstyle": "round", **marker}


def _over(axes: Any, runs: list[RecordedRun], over: str) -> None:
    most = max(run.history[over][-1] for run in runs)
    if over == "iteration" and most > 150:
        axes.set_xscale("symlog", linthresh=10, linscale=1.0)
        axes.set_xticks([0, *(t for t in TICKS if t <= most)], minor=False)
        axes.minorticks_off()
        plain_ticks(axes.xaxis)
    axes.set_xlim(0, most or 1)
    axes.set_xlabel("bytes told" if over == "bytes so far" else over.removesuffix(" so far"))
    if over == "bytes so far":
        axes.xaxis.set_major_formatter(lambda value, _: size(value) if value else "0")
    axes.grid(True)


def _whole_numbers() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=6, integer=True)


def _range(*errors: ErrorCounts) -> tuple[int, int]:
    """First and last bin in which there is anything to see."""
    seen = np.flatnonzero(
        np.max([e.counts / max(e.counts.sum(), 1) for e in errors], axis=0) > 2e-4
    )
    return (int(seen[0]), int(seen[-1])) if len(seen) else (0, len(errors[0].counts) - 1)
