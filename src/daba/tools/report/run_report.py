"""A report on runs: what stands where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daba.core.text import as_html, size
from daba.core.version import __version__
from daba.io.files import PathLike, open_output
from daba.runtime.result import Result
from daba.runtime.summary import METHODS
from daba.tools.report import figures
from daba.tools.report.page import caption, cards, folded, key, page, panels
from daba.tools.report.run_tables import (
    changed_options,
    communication_table,
    devices_table,
    errors_table,
    lenses_table,
    options_table,
    pixels,
    problems_table,
    processes_table,
    runs_table,
    versions_table,
    worse,
    worst_table,
)
from daba.tools.report.runs import RecordedRun, make_runs
from daba.tools.report.tables import plain, seconds

UNKNOWN = "Not recorded in {}: write the history with `daba solve --history`."


def write_report(
    runs: Sequence[Result | Mapping[str, Any]],
    path: PathLike,
    names: Sequence[str] | None = None,
) -> None:
    """Write one page about runs, side by side: results, or what history.json holds.

    Args:
        names: what the runs are called; by default method and devices
    """
    text = report_page(make_runs(runs, names))
    with open_output(path) as out:
        out.write(text.encode())


def report_page(runs: list[RecordedRun]) -> str:
    several = len(runs) > 1
    legend = key([(run.name, figures.colour(n)) for n, run in enumerate(runs)]) if several else ""
    noun = next((run.overview.noun for run in runs if run.overview is not None), "camera")
    work = _work(runs)
    sections = [
        ("In short", _short(runs)),
        ("Pixel errors", _errors(runs)),
        ("Filtered", _filtered(runs)),
        (f"Worst {noun}s", _worst(runs, noun)),
        ("Intrinsics", _lenses(runs)),
        ("Scene" if all(run.devices == 1 for run in runs) else "Scene and devices", _scene(runs)),
        ("Convergence", legend + _convergence(runs)),
        ("Work", legend + work if work else ""),
        ("Communication and memory", _processes(runs)),
        ("Options and versions", _options(runs)),
    ]
    problems = list(dict.fromkeys(run.problem["name"] for run in runs))
    title = f"Bundle adjustment of {', '.join(problems)}"
    said = [(heading, body) for heading, body in sections if body]
    return page(title, _lead(runs, noun), f"Made by daba {as_html(__version__)}.", said)


def _lead(runs: list[RecordedRun], noun: str) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs side by side: {as_html('; '.join(r.name for r in runs))}."
    run = runs[0]
    p = run.problem
    words = f"{p['cameras']:,} {noun}s, {p['points']:,} points, {p['observations']:,} observations"
    how = f", on {run.devices} devices" if run.devices > 1 else ""
    return as_html(f"{words}, solved by {METHODS.get(run.method, run.method)}{how}.")


def _short(runs: list[RecordedRun]) -> str:
    shown = ""
    if len(runs) == 1:
        run = runs[0]
        first, last = run.ends("mean_objective")
        px = run.pixels
        each = (run.seconds - run.history["seconds"][0]) / max(run.made, 1)
        entries = [
            (f"{pixels(px[0], 3)} → {pixels(px[1], 3)} px", "pixel error, root mean square"),
            (f"{run.made:,} in {seconds(run.seconds)}", f"iterations, {seconds(each)} each"),
            (f"{plain(first)} → {plain(last)}", "cost per observation, which was minimised"),
        ]
        if run.colmap is not None:
            means = f"{pixels(run.colmap[0], 3)} → {pixels(run.colmap[1], 3)} px"
            entries.insert(1, (means, "mean reprojection error, as COLMAP reports it"))
        if run.devices > 1:
            share = f"{100 * run.problem['inter_share']:.1f} %"
            entries.append((share, f"of observations between the {run.devices} devices"))
        shown = cards(entries, worse=0 if worse(*px) else None)
    stopped = "".join(
        caption(f"{name_of(run, runs)}stopped: {run.reason}.{_memory(run)}") for run in runs
    )
    notes = "".join(
        caption(f"{name_of(run, runs)}note: {note}.") for run in runs for note in run.notes
    )
    chosen = "".join(
        caption(f"{name_of(run, runs)}method: {run.method}, because {run.chosen}.")
        for run in runs
        if run.chosen
    )
    return shown + runs_table(runs).html() + chosen + stopped + notes + _unknown(runs)


def name_of(run: RecordedRun, runs: list[RecordedRun]) -> str:
    """How a sentence about one of several runs begins."""
    return f"**{run.name}**, " if len(runs) > 1 else ""


def _memory(run: RecordedRun) -> str:
    most = max((process.memory for process in run.processes), default=float("nan"))
    where = "" if len(run.processes) == 1 else " of the largest process"
    return f" Peak memory{where}: {size(most)}." if most > 0 else ""


def _scene(runs: list[RecordedRun]) -> str:
    parts = [problems_table(runs).html()]
    known = [run for run in runs if run.overview is not None]
    if known:
        alone = len(known) == 1
        wide = 8.5 if alone else figures.WIDE
        shown = [
            (figures.seen_from_above(run, wide), "" if len(runs) == 1 else _map_caption(run))
            for run in known
        ]
        parts.append(panels(shown, "panel" if alone else "panels"))
        parts.append(caption(
            "Seen from above, at the solution: points as dots, cameras as circles, each in the "
            "colour of its device. Of many, an even selection; a few that lie far out are cut off."
        ))  # fmt: skip
    for run in known:
        if run.devices > 1:
            table = devices_table(run)
            parts.append(folded(table.title, table.html()))
    return "".join(parts)


def _map_caption(run: RecordedRun) -> str:
    share = f", {100 * run.problem['inter_share']:.1f} % between devices" * (run.devices > 1)
    return f"**{run.name}**{share}"


def _convergence(runs: list[RecordedRun]) -> str:
    shown = []
    for over in ("iteration", "seconds"):
        shown += [
            (figures.curves(runs, "mean_objective", over, "cost per observation"), ""),
            (figures.gaps(runs, over, "cost above the lowest"), ""),
        ]
    restarts = " Short strokes are restarts: steps of a device that were made again without "
    restarts = restarts + "acceleration." if any(run.total("restarts") for run in runs) else ""
    several = " The lowest is that of all runs of the same problem with the same loss."
    return panels(shown, "panels pairs") + caption(
        "Seconds count from the beginning of the solve, setting up included and compiling excluded."
        f"{restarts}{several if len(runs) > 1 else ''}"
    )


def _work(runs: list[RecordedRun]) -> str:
    """What was counted, unless it was nothing."""
    shown = [
        (figures.counted(runs, column, title, summed), "")
        for column, title, summed in (
            ("restarts", "restarts so far", True),
            ("pcg_iterations", "CG iterations in each iteration", False),
            ("lm_retries", "steps tried again so far", True),
        )
        if any(run.total(column) for run in runs)
    ]
    return panels(shown) + caption("Summed over devices.") if shown else ""


def _processes(runs: list[RecordedRun]) -> str:
    told = [run for run in runs if run.total("rounds")]
    several = [run for run in runs if len(run.processes) > 1]
    shown = [
        (figures.gaps(runs, over, "cost above the lowest"), "")
        for over in (("rounds so far", "bytes so far") if told else ())
    ]
    shown += [(figures.times(run), f"**{run.name}**") for run in several]
    if any(run.total("bytes_sent") for run in runs):
        sent = figures.counted(runs, "bytes_sent", "bytes sent since the report before")
        shown.append((sent, ""))
    parts = [communication_table(told).html()] if told else []
    parts += [panels(shown)] if shown else []
    parts += [folded(t.title, t.html()) for t in map(processes_table, several)]
    return "".join(parts)


def _errors(runs: list[RecordedRun]) -> str:
    shown = [
        (figures.histogram(run, n), f"**{run.name}**" if len(runs) > 1 else "")
        for n, run in enumerate(runs)
        if run.overview is not None
    ]
    table = errors_table(runs)
    return panels(shown) + table.html() if shown else ""


def _filtered(runs: list[RecordedRun]) -> str:
    return "".join(
        caption(f"{name_of(run, runs)}{what}: {words}.")
        for run in runs
        for what, words in run.dropped
    )


def _worst(runs: list[RecordedRun], noun: str) -> str:
    known = [run for run in runs if run.overview is not None and run.overview.worst]
    if not known:
        return ""
    tables = "".join(f"<div>{worst_table(run, len(runs) == 1).html()}</div>" for run in known)
    about = f"The {noun}s with the largest mean error at the solution; red is worse than before."
    return caption(about) + f'<div class="beside">{tables}</div>'


def _lenses(runs: list[RecordedRun]) -> str:
    known = [run for run in runs if run.overview is not None and run.overview.lenses]
    about = caption(
        "Before and after, in the parameters of each camera's model: the cameras whose focal "
        "length changed most. What has not changed is not listed."
    )
    tables = "".join(lenses_table(run, len(runs) == 1).html() for run in known)
    return about + tables if known else ""


def _options(runs: list[RecordedRun]) -> str:
    changed = "".join(
        caption(f"{name_of(run, runs)}other than by default: {changed_options(run)}")
        for run in runs
    )
    table = options_table(runs)
    versions = versions_table(runs)
    return changed + folded(table.title, table.html()) + folded(versions.title, versions.html())


def _unknown(runs: list[RecordedRun]) -> str:
    names = [run.name for run in runs if run.overview is None]
    return caption(UNKNOWN.format("; ".join(names))) if names else ""
