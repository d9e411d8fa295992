"""`daba info`: what a problem is like, and what is odd about it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from daba.core.types import frozen
from daba.problem.diagnostics import Diagnostics, Distribution, inspect
from daba.problem.images import ImageNames
from daba.problem.optics_summary import OpticsSummary, describe
from daba.tools.cli.arguments import Arg, Intrinsics, Json, Rigs, parse
from daba.tools.cli.console import GREEN, YELLOW, make_console, to_json


@frozen
class InfoCommand:
    """Count, measure and check a problem.

    Shows its size, how long tracks are and how much each camera sees, its pixel error
    and cost, and anything suspicious.

    examples:
      daba info problem.txt.bz2
      daba info solution.txt --intrinsics standard --json
      daba info sparse/0
    """

    input: Annotated[Path, Arg("IN", positional=True)]
    """Problem: BAL (.txt, .bal), Bundler (.out), .npz, or the folder of a COLMAP model or a
    store."""
    intrinsics: Intrinsics = "auto"
    rigs: Rigs = "keep"
    json: Json = False


def run(argv: list[str]) -> int:
    command, _ = parse(InfoCommand, argv)
    from daba.io.formats import load

    problem = load(command.input, command.intrinsics, rigs=command.rigs)
    report = inspect(problem)
    fit = problem.info.get("intrinsics_fit")
    taken_by = describe(problem)
    if command.json:
        print(to_json(report.to_dict() | {"intrinsics_fit": fit, "optics": taken_by.to_dict()}))
        return 0
    console, noun = make_console(), ImageNames.of(problem.info, problem.num_cameras).noun
    console.pairs(_rows(report, noun, taken_by, fit))
    for what, distribution in (
        ("observations per point", report.track_length),
        (f"observations per {noun}", report.camera_degree),
    ):
        console.say()
        console.say(f"{what}: {_in_words(distribution)}")
        counts = [f"{count:,}" for count in distribution.histogram.values()]
        console.numbers(list(distribution.histogram), [counts])
    if report.warnings:
        console.say("suspicious:", YELLOW)
        for warning in report.warnings:
            console.say(f"  {warning}")
    else:
        console.say("nothing suspicious", GREEN)
    return 0


def _rows(
    report: Diagnostics, noun: str, taken_by: OpticsSummary, fit: dict[str, float] | None
) -> list[tuple[str, str]]:
    error = report.pixel_error
    rows = [
        ("problem", report.name),
        (f"{noun}s", f"{report.cameras:,}"),
        ("camera models", "; ".join(taken_by.words())),
        ("points", f"{report.points:,}"),
        ("observations", f"{report.observations:,}"),
        (
            "pixel error",
            f"rms {error.rms:.4g}, mean {error.mean:.4g}, median {error.median:.4g}",
        ),
        ("cost", f"{report.objective:.8g}, {report.mean_objective:.6g} per observation"),
    ]
    if taken_by.frames is not None:
        rows.insert(3, ("rigs", f"{taken_by.frames:,} frames, {taken_by.sensors:,} sensors"))
    if taken_by.colmap_error is not None:
        rows.append(("COLMAP's mean error", f"{taken_by.colmap_error:.6g} px"))
    if report.constraints:
        rows.append(("constraints", "; ".join(report.constraints)))
    if fit is not None:
        words = ", ".join(f"{key.replace('_px', '')} {value:.3g}" for key, value in fit.items())
        rows.append(("intrinsics fit", f"{words} px"))
    return rows


def _in_words(d: Distribution) -> str:
    return f"{d.min:,} to {d.max:,}, median {d.median:g}, mean {d.mean:.2f}"
