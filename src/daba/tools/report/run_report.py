"""A report on runs: what stands where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daba.core.text import as_html
from daba.core.version import __version__
from daba.io.files import PathLike, open_output
from daba.runtime.result import Result
from daba.tools.report import figures
from daba.tools.report.page import caption, cards, folded, key, page, panels
from daba.tools.report.run_tables import (
    changed_options,
    devices_table,
    errors_table,
    options_table,
    problems_table,
    processes_table,
    runs_table,
    versions_table,
    worst_table,
)
from daba.tools.report.runs import RecordedRun, make_runs
from daba.tools.report.tables import plain, seconds, size

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
    sections = [
        ("In short", _short(runs)),
        ("Problem and partition", _partition(runs)),
        ("Convergence", legend + _convergence(runs)),
        ("Restarts and linear solver", legend + _work(runs)),
        ("Communication and memory", _processes(runs)),
        ("Pixel errors", _errors(runs)),
        ("Worst cameras", _worst(runs)),
        ("Options and versions", _options(runs)),
    ]
    problems = list(dict.fromkeys(run.problem["name"] for run in runs))
    title = f"Bundle adjustment of {', '.join(problems)}"
    return page(title, _lead(runs), f"Made by daba {as_html(__version__)}.", sections)


def _lead(runs: list[RecordedRun]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs side by side: {as_html('; '.join(r.name for r in runs))}."
    run = runs[0]
    p = run.problem
    words = f"{p['cameras']:,} cameras, {p['points']:,} points, {p['observations']:,} observations"
    how = f"{run.devices} devices" if run.devices > 1 else "one device"
    return as_html(f"{words}, solved by {run.method} on {how}.")


def _short(runs: list[RecordedRun]) -> str:
    shown = ""
    if len(runs) == 1:
        run = runs[0]
        first, last = run.ends("mean_objective")
        px = run.ends("rms_pixels")
        if run.overview is not None:
            px = run.overview.start.rms, run.overview.solution.rms
        each = (run.seconds - run.history["seconds"][0]) / max(run.made, 1)
        shown = cards([
            (f"{plain(first)} → {plain(last)}", "F / K, the objective over observations"),
            (f"{px[0]:.3g} → {px[1]:.3g} px", "pixel error, root mean square"),
            (f"{run.made:,} in {seconds(run.seconds)}", f"iterations, {seconds(each)} each"),
            (f"{100 * run.problem['inter_share']:.1f} %",
             f"of observations between devices, of which there are {run.devices}")
            if run.devices > 1 else ("1 device", "Levenberg–Marquardt"),
        ])  # fmt: skip
    stopped = "".join(caption(f"**{run.name}** stopped: {run.reason}.") for run in runs)
    return shown + runs_table(runs).html() + stopped


def _partition(runs: list[RecordedRun]) -> str:
    parts = [problems_table(runs).html()]
    known = [run for run in runs if run.overview is not None]
    if known:
        alone = len(known) == 1
        wide = 8.5 if alone else figures.WIDE
        shown = [(figures.seen_from_above(run, wide), _map_caption(run)) for run in known]
        parts.append(panels(shown, wide=alone))
        parts.append(caption(
            "Seen from above, at the solution: points as dots, cameras as circles, each in the "
            "colour of its device. Of many, an even selection; a few that lie far out are cut off."
        ))  # fmt: skip
    for run in known:
        if run.devices > 1:
            table = devices_table(run)
            parts.append(folded(table.title, table.html()))
    return "".join(parts) + _unknown(runs)


def _map_caption(run: RecordedRun) -> str:
    share = f", {100 * run.problem['inter_share']:.1f} % between devices" * (run.devices > 1)
    return f"**{run.name}**{share}"


def _convergence(runs: list[RecordedRun]) -> str:
    shown = []
    for over in ("iteration", "seconds"):
        shown += [
            (figures.curves(runs, "mean_objective", over, "F / K"), ""),
            (figures.gaps(runs, over, "F / K above the lowest"), ""),
            (figures.curves(runs, "rms_pixels", over, "pixel error, rms (first order)"), ""),
        ]
    return panels(shown) + caption(
        "Above against iterations, below against seconds, which count from the beginning of the "
        "solve, setting up included and compiling excluded. Short strokes are restarts: steps of "
        "a device that were made again without acceleration. The lowest is that of all runs of "
        "the same problem with the same loss."
    )


def _work(runs: list[RecordedRun]) -> str:
    shown, none = [], []
    for column, title, summed in (
        ("restarts", "restarts so far", True),
        ("pcg_iterations", "PCG iterations in each iteration", False),
        ("lm_retries", "steps tried again so far", True),
    ):
        if any(run.total(column) for run in runs):
            shown.append((figures.counted(runs, column, title, summed), ""))
        else:
            none.append({"restarts": "restarts", "pcg_iterations": "PCG iterations"}.get(
                column, "steps that had to be tried again"))  # fmt: skip
    words = "; ".join(f"{run.name}: {run.linear_solver}" for run in runs)
    absent = f" There were no {', and no '.join(none)}." if none else ""
    return (panels(shown) if shown else "") + caption(
        f"Summed over devices. Linear solver: {words}. A direct one makes no PCG iterations."
        f"{absent}"
    )


def _processes(runs: list[RecordedRun]) -> str:
    several = [run for run in runs if len(run.processes) > 1]
    shown = [(figures.times(run), f"**{run.name}**") for run in several]
    if any(run.total("bytes_sent") for run in runs):
        sent = figures.counted(runs, "bytes_sent", "bytes sent since the report before")
        shown.append((sent, ""))
    parts = [panels(shown)] if shown else []
    parts += [folded(t.title, t.html()) for t in map(processes_table, several)]
    for run in runs:
        if run not in several:
            memory = f" Its peak memory was {size(run.processes[0].memory)}." * bool(run.processes)
            parts.append(caption(f"**{run.name}**: one process, which sends nothing.{memory}"))
    return "".join(parts)


def _errors(runs: list[RecordedRun]) -> str:
    shown = [
        (figures.histogram(run, n), f"**{run.name}**" if len(runs) > 1 else "")
        for n, run in enumerate(runs)
        if run.overview is not None
    ]
    table = errors_table(runs)
    return (panels(shown) + table.html() if shown else "") + _unknown(runs)


def _worst(runs: list[RecordedRun]) -> str:
    known = [run for run in runs if run.overview is not None]
    tables = "".join(f"<div>{worst_table(run).html()}</div>" for run in known)
    about = "Cameras with the largest mean pixel error at the solution."
    return (caption(about) + f'<div class="beside">{tables}</div>' if known else "") + _unknown(
        runs
    )


def _options(runs: list[RecordedRun]) -> str:
    changed = "".join(
        caption(f"**{run.name}**, other than by default: {changed_options(run)}") for run in runs
    )
    table = options_table(runs)
    return changed + folded(table.title, table.html()) + versions_table(runs).html()


def _unknown(runs: list[RecordedRun]) -> str:
    names = [run.name for run in runs if run.overview is None]
    return caption(UNKNOWN.format("; ".join(names))) if names else ""
