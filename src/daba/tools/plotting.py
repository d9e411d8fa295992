"""Pictures: how solves converged, and what a scene looks like before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec

import numpy as np

from daba.core.errors import DabaError
from daba.core.text import printable
from daba.io.files import PathLike, open_output
from daba.partition.partition import Partition
from daba.problem.problem import Floats, Problem
from daba.runtime.result import Result
from daba.tools.orientation import Frame, bounds

SUFFIXES = (".png", ".svg", ".pdf")
COLOURS = (
    "#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626", "#0891b2", "#ca8a04", "#db2777",
    "#475569", "#65a30d", "#7c3aed", "#0d9488",
)  # fmt: skip
INK, FAINT = "#1e293b", "#94a3b8"
STYLE: dict[str, Any] = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "figure.facecolor": "white",
    "font.size": 10,
    "grid.color": "#e2e8f0",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "svg.hashsalt": "daba",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}

Run = Result | Mapping[str, Any]
"""A result, or what its `to_dict` or a history.json holds."""


P = ParamSpec("P")


class _Curve(NamedTuple):
    label: str
    problem: str
    iterations: Floats
    seconds: Floats
    values: Floats
    restarts: np.ndarray


def check_suffix(path: PathLike) -> None:
    """Refuse a file name that no picture can have."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise DabaError(f"{path}: a plot is written as {', '.join(SUFFIXES)}")


@contextmanager
def our_style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Our style, with some changes, whatever the user's own matplotlib settings are."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        style: Any = {**STYLE, **(changes or {})}
        mpl.rcParams.update(style)
        yield


def _styled(draw: Callable[P, None]) -> Callable[P, None]:
    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> None:
        with our_style():
            draw(*args, **kwargs)

    return styled


@_styled
def convergence(
    runs: Run | Sequence[Run],
    path: PathLike,
    labels: Sequence[str] | None = None,
    best: float | None = None,
) -> None:
    """Draw F / K against iterations, and its distance to the best against time.

    runs     one or more results, or dictionaries read from history.json
    labels   their names; method and devices if absent
    best     F / K that the distance is measured to; the lowest of all runs if absent
    """
    check_suffix(path)
    several = [runs] if isinstance(runs, Result | Mapping) else list(runs)
    if not several:
        raise DabaError("nothing to plot: no runs were given")
    curves = [_curve(run, labels[n] if labels else None) for n, run in enumerate(several)]
    lowest = min(curve.values.min() for curve in curves) if best is None else best

    figure, (left, right) = _figure(10, 4.2, 1, 2)
    for n, curve in enumerate(curves):
        _draw(left, right, curve, lowest, COLOURS[n % len(COLOURS)])
    left.set_xscale("symlog", linthresh=1, linscale=0.4)  # there is an iteration 0
    left.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    left.set(xlabel="iteration", yscale="log", title="cost per observation, F / K")
    to = "the lowest reached" if best is None else f"{best:.6g}"
    right.set(xlabel="seconds", yscale="log", title=f"cost per observation above {to}")
    for axes in (left, right):
        axes.grid(True)
        axes.margins(x=0.02)
        axes.set_xlim(left=0)
    few_ticks(left)
    handles, names = left.get_legend_handles_labels()
    if handles:
        right.legend(handles, names, loc="upper right")
    problems = list(dict.fromkeys(curve.problem for curve in curves))
    figure.suptitle(", ".join(problems), x=0.012, ha="left", fontsize=12, fontweight="bold")
    _save(figure, path)


def _curve(run: Run, label: str | None) -> _Curve:
    data = run.to_dict() if isinstance(run, Result) else run
    try:
        rows, options = data["iterations"], data["options"]
        columns = ("iteration", "seconds", "mean_objective", "restarts")
        table = np.array([[row[name] for name in columns] for row in rows], float).reshape(-1, 4)
        name, p = label or _words(options), data["problem"]
        size = f"{p['cameras']:,} cameras, {p['points']:,} points, {p['observations']:,} obs."
        problem = _words_alone(f"{p['name']} ({size})")
    except (KeyError, TypeError, ValueError) as error:
        raise DabaError(f"this is not a history of daba: {error!r} is missing or wrong") from error
    if len(table) == 0:
        raise DabaError("this history has no iterations")
    return _Curve(_words_alone(name), problem, *table.T)


def _words_alone(text: str) -> str:
    """Text in which matplotlib finds no formula, and no byte that is not text."""
    return printable(text).replace("$", r"\$")


def _words(options: Mapping[str, Any]) -> str:
    if options["devices"] == 1:
        return "lm"
    return f"{options['method']}, {options['devices']} devices, refine {options['refine']}"


def _draw(left: Any, right: Any, curve: _Curve, lowest: float, colour: str) -> None:
    marker = {"marker": "o", "markersize": 3} if len(curve.values) < 60 else {}
    line = {"color": colour, "linewidth": 1.8, "solid_capstyle": "round", **marker}
    label = f"{curve.label}: {curve.values[-1]:.6g}"
    left.plot(curve.iterations, curve.values, label=label, **line)
    above = curve.values - lowest
    shown = above > 1e-12 * abs(lowest)
    right.plot(curve.seconds[shown], above[shown], **line)
    again = curve.restarts > 0
    if again.any():
        spot = {"linestyle": "none", "marker": "|", "markersize": 9, "color": colour, "alpha": 0.7}
        count = int(curve.restarts.sum())
        left.plot(curve.iterations[again], curve.values[again], label=f"{count} restarts", **spot)
        both = again & shown
        right.plot(curve.seconds[both], above[both], **spot)


def few_ticks(axes: Any) -> None:
    """Plain numbers on a logarithmic axis that covers little."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_ylim()
    steps = (1.0,) if high / low > 300 else (1.0, 2.0, 5.0) if high / low > 3 else range(1, 10)
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


@_styled
def scene(
    before: Problem, after: Problem | None, path: PathLike, partition: Partition | None = None
) -> None:
    """Draw points and cameras obliquely from above, before and, if given, after a solve.

    partition   colours everything by the device that owns it
    """
    check_suffix(path)
    problems = [before] if after is None else [before, after]
    view = _View.of(problems[-1])
    low, high = view.frame(problems[-1])
    aspect = float((high[1] - low[1]) / (high[0] - low[0]))
    width = 12.0 / len(problems)
    figure, panels = _figure(12, width * aspect + 0.35, 1, len(problems))
    for axes, problem in zip(np.atleast_1d(panels), problems, strict=True):
        _draw_scene(axes, problem, view, partition)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        axes.axis("off")
    if after is not None:
        from daba.problem.pixel_errors import pixel_error

        for axes, problem, what in zip(panels, problems, ("before", "after"), strict=True):
            axes.set_title(f"{what}: rms {pixel_error(problem).rms:.3g} px")
    _save(figure, path, dpi=120)


class _View(NamedTuple):
    """An oblique look at the scene: axes (2, 3) of the picture, and the depth behind it."""

    axes: Floats
    depth: Floats
    sign: float

    @staticmethod
    def of(problem: Problem) -> _View:
        sign = float(problem.info.get("world_sign", 1))
        right, away, up = Frame.of(sign * problem.rotations, sign * problem.centers)
        tilt = np.radians(50.0)
        return _View(
            np.stack([right, np.cos(tilt) * up + np.sin(tilt) * away]),
            np.cos(tilt) * away - np.sin(tilt) * up,
            sign,
        )

    def __call__(self, x: Floats) -> Floats:
        return np.asarray(self.sign * x @ self.axes.T)

    def frame(self, problem: Problem) -> tuple[Floats, Floats]:
        """Corners of the picture: nearly all points and all but stray cameras."""
        low, high = bounds(self(problem.points), self(problem.centers))
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        half[1] = np.clip(half[1], 0.45 * half[0], 1.1 * half[0])
        half[0] = max(half[0], half[1] / 1.1)
        return middle - half, middle + half


def _draw_scene(axes: Any, problem: Problem, view: _View, partition: Partition | None) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    from daba.io.ply import EDGES, pyramids

    far_first = np.argsort(-(view.sign * problem.points @ view.depth))
    if partition is None:
        height = view.sign * problem.points @ np.cross(view.depth, view.axes[0])
        low, high = np.percentile(height, [2, 98])
        share = np.clip((height - low) / max(high - low, 1e-300), 0, 1)[:, None]
        colours = (1 - share) * to_rgb("#1e3a8a") + share * np.array(to_rgb("#38bdf8"))
        ink: Any = "#ea580c"
    else:
        table = np.array([to_rgb(colour) for colour in COLOURS])
        colours = table[partition.point_device % len(table)]
        ink = np.repeat(table[partition.camera_device % len(table)] * 0.55, len(EDGES), axis=0)
    xy = view(problem.points)[far_first]
    size = np.clip(3e4 / problem.num_points, 0.2, 4.0)
    axes.scatter(*xy.T, s=size, c=colours[far_first], linewidths=0, rasterized=True)
    corners = view(pyramids(problem).reshape(-1, 3)).reshape(-1, 5, 2)
    lines = corners[:, EDGES].reshape(-1, 2, 2)
    axes.add_collection(LineCollection(list(lines), colors=ink, linewidths=0.8))


def _figure(width: float, height: float, rows: int, columns: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # not pyplot: no window, no state, no backend

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns)


def _save(figure: Any, path: PathLike, dpi: int = 150) -> None:
    kind = Path(path).suffix.lower()[1:]
    dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[kind]
    with open_output(path) as out:  # without the date, the same picture is the same file
        figure.savefig(out, format=kind, dpi=dpi, metadata=dated)
