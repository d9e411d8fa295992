"""The report: Markdown tables, figures, and one page with everything."""

from __future__ import annotations

from pathlib import Path

from daba.core.text import as_html
from daba.core.version import __version__
from daba.io.files import open_output, writing_folder
from daba.tools.bench.accuracy import accuracy_table, problems_table
from daba.tools.bench.cases import CENTRAL
from daba.tools.bench.communication import communication_table, winners_table
from daba.tools.bench.counts import counts_table
from daba.tools.bench.figures import draw_figures
from daba.tools.bench.measures import Kind
from daba.tools.bench.methods import METHODS
from daba.tools.bench.order import order_table, reasons_table
from daba.tools.bench.pixels import pixels_table
from daba.tools.bench.refinement import gains_table, refinement_table
from daba.tools.bench.resources import resources_table
from daba.tools.bench.results import Results
from daba.tools.bench.summary import big_numbers, verdict
from daba.tools.bench.times import times_table
from daba.tools.report.page import cards, figure, folded, page
from daba.tools.report.tables import Cell, Entry, Table, prose

CAPTIONS = {
    "profiles": "Performance profiles (Fig. 3): the share of problems that a method has brought to "
    "F_ref + 1e-4 (F_init − F_ref) by each iteration. Higher and further left is better.",
    "convergence": "How the methods converge: what is left of the objective above the lowest value "
    "that any run reached, as a share of what there was at the start. Below the grey line the "
    "target of the profiles is met.",
    "rounds": "The same against rounds of exchange with neighbours, of which an iteration of DABA "
    "has one, with sweeps four, of ADMM and DR two, and of LM three and two for each of its "
    "conjugate gradients'.",
    "bytes": "The same against bytes that all devices have told, each as a process of its own, in "
    "rounds and in sums over all.",
    "resources": "Memory and communication (Fig. 4): most memory of a device, and bytes sent by "
    "all in an iteration, from 1 to 32 devices, both axes logarithmic.",
}


def write_report(results: Results, folder: Path, kind: Kind = "paper") -> list[Path]:
    """Write tables.md, the figures and report.html; returns their paths."""
    with writing_folder(folder):
        folder.mkdir(parents=True, exist_ok=True)
    drawn = draw_figures(results, folder, kind)
    sections = _sections(results, kind)
    paths = [folder / "report.html", folder / "tables.md"]
    for path, text in zip(
        paths,
        (_page(results, sections, drawn, kind), _markdown(results, sections, kind)),
        strict=True,
    ):
        with open_output(path) as out:
            out.write(text.encode())
    return [*paths, *(folder / f"{name}.{s}" for name in drawn for s in ("png", "svg"))]


def _sections(results: Results, kind: Kind) -> dict[str, list[Table]]:
    """The tables under each heading."""
    losses = results.losses
    pixels = (pixels_table(results, loss) for loss in losses)
    found = {
        "Accuracy": [*(accuracy_table(results, loss) for loss in losses), counts_table(results)],
        "Order": [order_table(results), reasons_table(results)],
        "Iterations": [],
        "Rounds and bytes": [
            winners_table(results, kind),
            *(communication_table(results, loss, kind) for loss in losses),
        ],
        "Time": [times_table(results, loss) for loss in losses],
        "Refinement": [
            gains_table(results, kind),
            *(refinement_table(results, loss, kind) for loss in losses),
        ],
        "Memory and communication": [resources_table(results)],
        "Pixel error": [table for table in pixels if table is not None],
        "Problems and methods": [problems_table(results), methods_table(results)],
        "What failed": [failures_table(results)] if results.failed else [],
    }
    return {heading: [t for t in tables if t.rows] for heading, tables in found.items()}


FIGURES = {
    "Iterations": ("profiles", "convergence"),
    "Rounds and bytes": ("rounds", "bytes"),
    "Memory and communication": ("resources",),
}
FOLDED = ("Rounds and bytes", "Time", "Refinement", "Memory and communication", "Order")
"""Long tables are folded on the page."""
LONG = 16
"""Rows that make a table long."""


def _page(
    results: Results, sections: dict[str, list[Table]], drawn: dict[str, str], kind: Kind
) -> str:
    summary = f"<p>{prose(verdict(results, kind))}</p>"
    parts = [("In short", cards(big_numbers(results, kind)) + summary)]
    for heading, tables in sections.items():
        body = "".join(
            figure(drawn[name], CAPTIONS[name])
            for name in FIGURES.get(heading, ())
            if name in drawn
        )
        for table in tables:
            long = heading in FOLDED and len(table.rows) > LONG
            body += folded(table.title, table.html()) if long else table.html()
        if body:
            parts.append((heading, body))
    problems = len(results.problems)
    lead = (
        f"{problems} problem{'s' * (problems != 1)}, {len(results.names('method'))} methods, "
        f"{_words(results.devices)} devices, {_words(results.losses)} loss: "
        f"{sum(run.done for run in results.runs)} runs, reported as in the paper "
        "<em>Decentralization and Acceleration Enables Large-Scale Bundle Adjustment</em>."
    )
    return page(
        "Bundle adjustment, decentralized: a comparison",
        lead,
        as_html(_meta(results, kind)),
        parts,
    )


def _markdown(results: Results, sections: dict[str, list[Table]], kind: Kind) -> str:
    numbers = "\n".join(f"- **{big}** {text}" for big, text in big_numbers(results, kind))
    parts = ["# Benchmark", _meta(results, kind), numbers, verdict(results, kind)]
    for heading, tables in sections.items():
        if tables:
            parts += [f"## {heading}", *(table.markdown() for table in tables)]
    return "\n\n".join(parts) + "\n"


def _words(values: list[object] | list[int] | list[str]) -> str:
    texts = [str(value) for value in values]
    return (
        texts[0]
        if len(texts) == 1
        else f"{', '.join(texts[:-1])} and {texts[-1]}"
        if texts
        else "no"
    )


def _meta(results: Results, kind: Kind) -> str:
    """When, where, and how long the runs were."""
    machines = [run.data["machine"] for run in results.runs
                if "machine" in run.data and run.backend == "cpu"]  # fmt: skip
    words = [f"daba {__version__}"]
    if machines:
        dates = sorted({m["date"] for m in machines})
        loads = [m["load"] for m in machines if m["load"] is not None]
        words.append(dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}")
        threads = {run.case["threads"] for run in results.runs}
        used = " or ".join("all" if t is None else str(t) for t in sorted(threads, key=str))
        cores = " or ".join(map(str, sorted({m["cores"] for m in machines})))
        words.append(f"{cores} cores, threads: {used}")
        if loads:
            words.append(f"load {min(loads):.1f} to {max(loads):.1f}")
        words.append(f"Python {machines[0]['python']}, Numba {machines[0]['numba']}")
    made = {run.case["iterations"] for run in results.runs
            if run.devices > 1 and not METHODS[run.method].newton}  # fmt: skip
    if made:
        counts = " or ".join(f"{n:,}" for n in sorted(made))
        words.append(f"{counts} iterations decentralized, {CENTRAL} of LM and centralized")
    words += _on_gpus(results)
    words.append("F_ref: lowest of Ceres (without it, of LM)" if kind == "paper" else
                 "F_ref: lowest of all runs")  # fmt: skip
    return "; ".join(words) + "."


def _on_gpus(results: Results) -> list[str]:
    """Which runs were made on a GPU."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in results.runs:
        if run.backend == "gpu" and run.done:
            key = (str(run.data["machine"]["gpu"]), results.label(run.problem))
            found.setdefault(key, []).append(METHODS[run.method].label)
    return [
        f"{_words(list(dict.fromkeys(names)))} on {problem} ran on a GPU ({name})"
        for (name, problem), names in found.items()
    ]


def methods_table(results: Results) -> Table:
    rows: list[list[Entry]] = [
        [METHODS[name].label, Cell(METHODS[name].about, prose=True), METHODS[name].rounds]
        for name in METHODS
        if name in results.names("method")
    ]
    return Table(
        title="Methods",
        about="All methods on several devices share partition and kernels; ADMM and DR make up to "
        "20 accepted steps of each device in an iteration, DABA one, and LM one of all together.",
        head=["method", "what it is", "exchanges per iteration"],
        rows=rows,
    )


def failures_table(results: Results) -> Table:
    """Failures by reason: one that holds for many runs is reported once."""
    reasons: dict[tuple[str, int, str], list[str]] = {}
    for run in results.failed:
        known = METHODS.get(run.method)
        name = "memory and bytes" if known is None else known.label
        reasons.setdefault((results.label(run.problem), run.devices, run.error), []).append(name)
    rows: list[list[Entry]] = [
        [problem, str(devices), Cell(", ".join(dict.fromkeys(names)), prose=True),
         Cell(error, prose=True)]
        for (problem, devices, error), names in reasons.items()
    ]  # fmt: skip
    return Table(
        title="What failed",
        about="These runs have no result, for the reason given; `--retry` runs them again.",
        head=["problem", "devices", "what", "why"],
        rows=rows,
    )
