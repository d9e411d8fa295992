"""Whether a result is worse than its start by the measure that users judge by: pixel errors.

F cannot tell. The ray error, weights, priors and robust losses all make it another measure than the
reprojection error by which a file is judged, and on weak geometry F falls while a model is
destroyed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daba.core.types import Floats

if TYPE_CHECKING:
    from daba.problem.problem import Problem
    from daba.runtime.result import Result

RISE = 1.05
"""Share of the start's error from which on a result is clearly worse. Solves of rays, which weigh
pixels a little differently, have ended up to 1 % above a start that was optimal in pixels."""
RISE_WITH_PRIORS = 1.5
"""The same where priors pull at the model: surveyed positions honestly cost pixels."""
FLOOR = 0.05
"""Pixels that nobody calls clearly worse: a model without noise, and priors that have some."""
SAMPLE = 100_000
"""Observations that are compared: enough for a mean, and quick where there are many more."""
HIDDEN = 1e-3
"""Share of observations that may come out behind their cameras, beyond those at the start."""


def verdict(result: Result) -> str:
    """How a result is clearly worse than its start; empty where it is not.

    Mean and rms must both have risen: least squares lowers the rms, and may raise the mean where a
    start was robust. With a robust loss or a filter mean and median must: letting go of outliers
    raises mean and rms, while the median falls.
    """
    from daba.problem.intrinsics import pixel_errors

    if result.solution is None:
        return _by_rms(result)
    robust = result.options.loss.name != "trivial" or result.options.filter is not None
    start, end = (pixel_errors(_sample(problem)) for problem in (result.start, result.solution))
    hidden = [int(np.count_nonzero(~np.isfinite(errors))) for errors in (start, end)]
    if hidden[1] > hidden[0] + HIDDEN * len(end):
        return (
            f"{hidden[1]:,} observations are of points that their images do not see, "
            f"{hidden[0]:,} at the start"
        )
    was, now = (_measures(errors, robust) for errors in (start, end))
    rise = RISE_WITH_PRIORS if result.history[-1].prior_objective > 0 else RISE
    if all(after > rise * before + FLOOR for before, after in zip(was, now, strict=True)):
        return f"the mean reprojection error has risen from {was[0]:.4g} to {now[0]:.4g} px"
    return ""


def _sample(problem: Problem) -> Problem:
    """All of it, or evenly chosen observations of a large one."""
    step = -(-problem.num_observations // SAMPLE)
    if step == 1:
        return problem
    return problem.with_observations(np.arange(0, problem.num_observations, step))


def _measures(errors: Floats, robust: bool) -> tuple[float, float]:
    seen = errors[np.isfinite(errors)]
    if not len(seen):
        return 0.0, 0.0
    other = np.median(seen) if robust else np.sqrt(np.mean(seen**2))
    return float(np.mean(seen)), float(other)


def _by_rms(result: Result) -> str:
    """Where nobody holds the whole problem, by what the solve itself has summed up."""
    was, now = result.history[0].rms_pixels, result.history[-1].rms_pixels
    if result.options.loss.name == "trivial" and now > RISE * was:
        return f"the rms of pixel errors has risen from {was:.4g} to {now:.4g} px"
    return ""
