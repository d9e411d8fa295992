"""The result table: a solve in a few lines of words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from daba.core.text import size
from daba.runtime.result import Result
from daba.solver.interface import Counts

Rows = list[tuple[str, str]]

METHODS = {
    "lm": "Levenberg–Marquardt (lm)",
    "daba": "DABA, decentralized and accelerated (daba)",
    "duba": "DABA without acceleration (duba)",
    "admm": "ADMM, consensus on cameras (admm)",
    "dr": "Douglas–Rachford, consensus on points (dr)",
}
ERRORS = {"pixel": "pixels", "ray": "rays"}
LINEAR_SOLVERS = {"pcg": "conjugate gradients", "direct": "sparse Cholesky"}


def rows(result: Result) -> Rows:
    """(what, value) pairs."""
    p, first, last = result.sizes, result.history[0], result.history[-1]
    made = last.iteration
    method = "lm" if result.options.centralized else result.options.method
    total = Counts()
    for entry in result.history:
        total.add(Counts(**{name: getattr(entry, name) for name in asdict(total)}))
    each = f", {1e3 * (last.seconds - first.seconds) / made:.3g} ms each" if made else ""
    images = result.images
    sizes = f"{images.count(p.cameras)}, {p.points:,} points, {p.observations:,} observations"
    table = [
        ("problem", f"{p.name}: {sizes}"),
        ("method", _method_words(result, method)),
        *([("chosen", f"because {result.chosen}")] if result.chosen else []),
        ("pixel error, rms", _pixel_words(result)),
        *_colmap_rows(result),
        ("cost per observation", f"{first.mean_objective:.6g} → {last.mean_objective:.6g}"),
        *_refined_rows(result),
        *_constraint_rows(result),
        ("iterations", f"{made} in {last.seconds:.2f} s{each}"),
    ]
    if method == "daba":
        table.append(("restarts", f"{total.restarts} of {made * result.options.devices} steps"))
    table.append(("linear solver", _linear_words(result.linear_solver, total)))
    if result.options.devices > 1:
        table += _communication_rows(result, total)
    if result.corrected:
        table.append((f"points behind {images.noun}s", f"{result.corrected:,}, brought in front"))
    if result.dropped is not None:
        table += result.dropped.rows()
    if len(result.ranks) > 1:
        table.append(("processes", _process_words(result)))
    table += [("stopped", result.reason), *(("note", note) for note in result.remarks)]
    return [*table, ("WORSE THAN THE START", result.worse)] if result.worse else table


def _constraint_rows(result: Result) -> Rows:
    """Nothing for a plain problem."""
    first, last = result.history[0], result.history[-1]
    notes = result.constraints
    rows = [("constraints", "; ".join(notes))] if notes else []
    if first.prior_objective > 0 or last.prior_objective > 0:
        was, now = first.prior_objective, last.prior_objective
        rows.append(("cost of the priors", f"{was:.6g} → {now:.6g}"))
    return rows


def _pixel_words(result: Result) -> str:
    if result.solution is None:
        first, last = result.history[0], result.history[-1]
        return f"{first.rms_pixels:.4g} → {last.rms_pixels:.4g} px (to first order)"
    return (
        f"{result.start_pixel_error.rms:.4g} → {result.pixel_error.rms:.4g} px "
        f"(median {result.pixel_error.median:.3g})"
    )


def _colmap_rows(result: Result) -> Rows:
    if (errors := result.colmap_errors) is None:
        return []
    words = f"{errors['start_px']:.6g} → {errors['mean_px']:.6g} px"
    rows = [("mean reprojection error", f"{words}, as COLMAP reports it")]
    if "fit_rms_px" in errors:
        fit = f"rms {errors['fit_rms_px']:.2g}, largest {errors['fit_max_px']:.2g} px"
        rows.append(("intrinsics fit", fit))
    return rows


def _refined_rows(result: Result) -> Rows:
    """Of each camera model what was refined and what was held, in pixels."""
    if result.options.error != "pixel" or result.solution is None:
        return []
    from daba.problem.optics_summary import refinements

    optics = result.solution.optics
    rows = [("refined", "; ".join(refinements(optics)))]
    if optics.refined_sensors is not None:
        moved, all_ = int(optics.refined_sensors.sum()), len(optics.refined_sensors) - 1
        rows.append(("sensor from rig", f"{moved} of {all_} refined"))
    return rows


def _communication_rows(result: Result, total: Counts) -> Rows:
    """What devices have told each other, each as if it were a process."""
    words = f"{total.rounds:,} rounds of exchange, {size(total.boundary_bytes)}"
    if total.all_reduces:
        words += f"; {total.all_reduces:,} sums over all devices, {size(total.summed_bytes)}"
    rows = [("communication", words)]
    options = result.options
    if options.simulate_latency is not None:
        added = sum(entry.network_seconds for entry in result.history[1:])
        rows.append((
            "simulated network",
            f"{options.simulate_latency:g} ms and {options.simulate_bandwidth:g} Gbit/s add "
            f"{added:.3g} s, with {len(result.history) - 1:,} sums to tell F",
        ))  # fmt: skip
    return rows


def _process_words(result: Result) -> str:
    ranks, made = result.ranks, max(result.history[-1].iteration, 1)
    total = sum(sum(r.bytes_sent.values()) for r in ranks)
    busy = [
        sum(getattr(r, f"{what}_seconds") for r in ranks) / len(ranks)
        for what in ("compute", "waiting", "exchange")
    ]
    return (
        f"{len(ranks)}; {total / made / 1e6:.4g} MB sent per iteration; mean seconds "
        f"computing {busy[0]:.3g}, waiting {busy[1]:.3g}, exchanging {busy[2]:.3g}; peak "
        f"memory {max(r.peak_memory for r in ranks) / 1e6:.0f} MB"
    )


def _method_words(result: Result, method: str) -> str:
    loss = result.options.loss
    words = METHODS[method] + f" on {ERRORS[result.options.minimised]}"
    if loss.name != "trivial":
        words += f", {loss.name} loss beyond {loss.radius:g} px"
    if result.options.devices > 1:
        share = f"{100 * result.inter_share:.1f} % of observations between them"
        words += f", {result.options.devices} devices ({share})"
    return words if method == "lm" else words + f", refine {result.options.refine}"


def _linear_words(name: str, total: Counts) -> str:
    words = LINEAR_SOLVERS.get(name, name)
    if total.pcg_iterations:
        each = total.pcg_iterations / max(total.lm_steps + total.lm_retries, 1)
        words += f", {total.pcg_iterations:,} iterations ({each:.3g} a step)"
    return words + (f", {total.lm_retries:,} unsuccessful steps" if total.lm_retries else "")


def curve(costs: Sequence[float], width: int = 420, height: int = 90) -> str:
    """The cost over the iterations on a logarithmic scale, as a small SVG; nothing where there is
    no curve."""
    known = [(n, math.log(cost)) for n, cost in enumerate(costs) if 0 < cost < math.inf]
    if len(known) < 2:
        return ""
    low, high = min(y for _, y in known), max(y for _, y in known)
    scale = (width / max(known[-1][0], 1), (height - 4) / ((high - low) or 1.0))
    line = " ".join(f"{scale[0] * x:.1f},{2 + scale[1] * (high - y):.1f}" for x, y in known)
    return (
        f'<svg width="{width}" height="{height}" role="img"><title>cost over iterations</title>'
        f'<polyline points="{line}" fill="none" stroke="#2563eb" stroke-width="2"/></svg>'
    )
