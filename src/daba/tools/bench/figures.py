"""The pictures: convergence, performance profiles (Fig. 3), memory and communication (Fig. 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from daba.core.text import size
from daba.io.files import open_output
from daba.tools.bench.cases import ALL_DEVICES
from daba.tools.bench.measures import (
    PROFILE_DELTA,
    Kind,
    Spent,
    iterations_to,
    lowest,
    profile,
    reference,
    target,
)
from daba.tools.bench.methods import DISTRIBUTED, METHODS
from daba.tools.bench.results import Results
from daba.tools.plotting import COLOURS, FAINT, few_ticks, our_style
from daba.tools.report.drawing import PAGE_STYLE, plain_ticks

COLOUR = dict(zip(DISTRIBUTED, (COLOURS[i] for i in (0, 5, 3, 8, 1, 2, 4)), strict=True))
"""One for each method, in every picture."""
DASH = {"duba": (0, (4, 2)), "admm": (0, (6, 1.5)), "dr": (0, (1.5, 1.5))}
"""Told apart without colour, too."""
ACROSS = 4
"""Panels in a row."""


def draw_figures(results: Results, folder: Path, kind: Kind) -> dict[str, str]:
    """Write every figure as PNG and SVG; returns the SVG text by name."""
    drawn: dict[str, str] = {}
    makers: list[tuple[str, Callable[[Results, Kind], Any]]] = [
        ("profiles", profiles),
        ("convergence", partial(convergence, over="iterations")),
        ("rounds", partial(convergence, over="rounds")),
        ("bytes", partial(convergence, over="bytes")),
        ("resources", resources),
    ]
    with our_style(PAGE_STYLE):
        for name, make in makers:
            figure = make(results, kind)
            if figure is not None:
                drawn[name] = _save(figure, folder, name)
    return drawn


def _save(figure: Any, folder: Path, name: str) -> str:
    text = ""
    for suffix, metadata in (("png", {}), ("svg", {"Date": None})):
        memory = BytesIO()
        figure.savefig(memory, format=suffix, dpi=150, metadata=metadata)
        with open_output(folder / f"{name}.{suffix}") as out:
            out.write(memory.getvalue())
        text = memory.getvalue().decode() if suffix == "svg" else text
    return text


def profiles(results: Results, kind: Kind) -> Any:
    """Share of problems solved to Δ = 1e-4 against iterations; a panel per loss and devices."""
    shown = [name for name in DISTRIBUTED if name in results.names("method")]
    last = max((run.made for run in results.runs if run.method in shown and run.done), default=0)
    if not last or not any(
        reference(results, p, ls) for p in results.problems for ls in results.losses
    ):
        return None
    axis = np.unique(np.geomspace(1, last, 200).astype(int))
    rows, columns = len(results.losses), len(results.devices)
    figure, panels = _figure(rows, columns, share_y=True)
    for i, loss in enumerate(results.losses):
        for j, devices in enumerate(results.devices):
            axes = panels[i, j]
            for name in shown:
                some = [p for p in results.problems if results.get(p, name, devices, loss)]
                at = [
                    iterations_to(results, p, name, devices, loss, PROFILE_DELTA, kind)
                    for p in some
                ]
                if some:
                    share = [100 * s for s in profile(at, axis.tolist())]
                    axes.step(axis, share, where="post", label=METHODS[name].label, **_line(name))
            axes.set(xscale="log", xlim=(1, max(last, 2)), ylim=(-4, 104))
            axes.set_title(f"{loss}, {devices} devices")
            plain_ticks(axes.xaxis)
            axes.grid(True)
            if j == 0:
                axes.set_ylabel("% of problems solved")
            if i == rows - 1:
                axes.set_xlabel("iteration")
    _legend(figure, panels)
    return figure


def convergence(results: Results, kind: Kind, over: Spent) -> Any:
    """(F − F_low) / (F_init − F_low) against iterations, rounds or bytes: a panel per problem, at
    one number of devices and with the first loss."""
    shown = [name for name in DISTRIBUTED if name in results.names("method")]
    known = sorted({run.devices for run in results.runs if run.done and run.devices > 1})
    counted = (run.curves[0] for run in results.runs if run.devices > 1 and run.curves)
    if not known or not shown or not any(getattr(curve, over)[-1] for curve in counted):
        return None
    devices = 8 if 8 in known else known[0]
    loss = results.losses[0]
    some = [p for p in results.problems if any(results.get(p, n, devices, loss) for n in shown)]
    if not some:
        return None
    figure, panels = _figure(math.ceil(len(some) / ACROSS), min(len(some), ACROSS))
    for axes, problem in _panels(panels, some):
        runs = [r for r in results.runs if (r.problem, r.loss) == (problem, loss) and r.curves]
        low, first = min(lowest(run) for run in runs), max(run.start for run in runs)
        for name in shown:
            run = results.get(problem, name, devices, loss)
            if run is not None:
                gap = (run.curves[0].values - low) / (first - low)
                k = getattr(run.curves[0], over)
                axes.plot(k[gap > 0], gap[gap > 0], label=METHODS[name].label, **_line(name))
        F_ref = reference(results, problem, loss, kind)
        if F_ref is not None:
            level = (target(F_ref, first, PROFILE_DELTA) - low) / (first - low)
            axes.axhline(level, color=FAINT, linewidth=0.9, zorder=0)
        axes.set(yscale="log", ylim=(1e-6, 2), title=results.label(problem))
        _over(axes, over)
        axes.grid(True)
    _legend(figure, panels)
    return figure


def _over(axes: Any, over: Spent) -> None:
    """The axis along which runs go, from nothing on."""
    if over == "bytes":
        told = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) > 2]
        first = math.ceil(math.log10(min((x[1] for x in told), default=1.0)))
        last = math.floor(math.log10(max((x[-1] for x in told), default=10.0)))
        axes.set_xscale("symlog", linthresh=10.0**first, linscale=0.4)
        axes.set_xticks([0, *(10.0**n for n in range(first, last + 1))])
        axes.xaxis.set_major_formatter(lambda value, _: size(value) if value else "0")
        axes.minorticks_off()
    else:
        axes.set_xscale("symlog", linthresh=1, linscale=0.4)
        plain_ticks(axes.xaxis)
    axes.set_xlim(left=0)
    axes.set_xlabel({"iterations": "iteration", "bytes": "bytes told"}.get(over, over))


def resources(results: Results, kind: Kind) -> Any:
    """Most memory of a device, and bytes of an iteration, for 1 to 32 devices."""
    some = [p for p in results.problems if results.footprint(p, 2)]
    if not some:
        return None
    lines = ("daba", "daba-sweep", "admm", "dr", "lm-devices")
    bands = math.ceil(len(some) / ACROSS)
    figure, panels = _figure(2 * bands, min(len(some), ACROSS))
    for n, problem in enumerate(some):
        band, column = divmod(n, ACROSS)
        footprints = {d: t for d in ALL_DEVICES if (t := results.footprint(problem, d)) is not None}
        for what, axes in zip(
            ("memory", "bytes"), panels[2 * band : 2 * band + 2, column], strict=True
        ):
            for name in lines:
                if (what, name) == ("memory", "daba-sweep"):
                    continue  # as without
                x = [d for d in footprints if what == "memory" or d > 1]
                y = [footprints[d][name][what] / 1e6 for d in x]
                axes.plot(x, y, "o", ls=DASH.get(name, "-"), ms=3.5, lw=1.7, color=COLOUR[name],
                          label=METHODS[name].label)  # fmt: skip
            axes.set_xscale("log", base=2)
            axes.set(yscale="log", xticks=list(ALL_DEVICES), xlim=(0.9, 36))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            unit = "MB per device" if what == "memory" else "MB per iteration"
            axes.set_title(f"{results.label(problem)}: {unit}")
            few_ticks(axes)
            axes.grid(True)
            if what == "bytes":
                axes.set_xlabel("devices")
    for empty in range(len(some), bands * ACROSS):
        band, column = divmod(empty, ACROSS)
        for axes in panels[2 * band : 2 * band + 2, column] if panels.shape[1] > column else ():
            axes.axis("off")
    _legend(figure, panels, row=1)
    return figure


def _figure(rows: int, columns: int, share_y: bool = False) -> tuple[Any, np.ndarray]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(3.1 * columns, 4.2), 2.5 * rows + 0.5), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharey=share_y)


def _panels(panels: np.ndarray, names: list[str]) -> Iterable[tuple[Any, str]]:
    flat = panels.ravel()
    for axes in flat[len(names) :]:
        axes.axis("off")
    return zip(flat[: len(names)], names, strict=True)


def _line(name: str) -> dict[str, Any]:
    return {
        "color": COLOUR[name],
        "linestyle": DASH.get(name, "-"),
        "linewidth": 1.8,
        "alpha": 0.95,
    }


def _legend(figure: Any, panels: np.ndarray, row: int = 0) -> None:
    """One legend for all panels, above them."""
    found: dict[str, Any] = {}
    for axes in panels.ravel():
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    across = max(3, min(len(found), int(figure.get_figwidth() / 1.3)))
    figure.legend(found.values(), found.keys(), loc="outside upper left", ncols=across)
