"""A look at a problem before solving it: how large, how connected, how good, what is odd."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from daba.core.types import frozen, median
from daba.problem.constraints import describe
from daba.problem.images import ImageNames
from daba.problem.pixel_errors import (
    PixelError,
    pixel_error,
    pixel_errors,
    points_behind,
    summarize_errors,
)
from daba.problem.problem import Ints, Problem

_TRACKS = (0, 1, 2, 3, 5, 10, 20)  # last count of each bin of a histogram
_DEGREES = (0, 2, 10, 30, 100, 300, 1000, 3000)

_FAR = 1000.0  # times the usual distance from the centroid
_FOCAL = 10.0  # times the usual focal length, or as much less
_SAME_POSITION = 1e-9  # of the usual distance from the centroid
_GROSS = 100.0  # pixels

SHOWN = 5
ROOM = 100
"""Of what is odd, in one warning: at most so many examples, and so many characters."""


@frozen
class Distribution:
    """Counts such as track lengths, in a few numbers."""

    min: int
    median: float
    mean: float
    max: int
    histogram: dict[str, int]
    """How many have which count: '4-5' -> 1347."""


@frozen
class Diagnostics:
    """What `daba info` shows."""

    name: str
    cameras: int
    points: int
    observations: int
    track_length: Distribution
    """Observations per point."""
    camera_degree: Distribution
    """Observations per camera."""
    components: int
    """Parts of the scene that share no observation; 1 for a sound problem."""
    largest_component_cameras: int
    duplicates: int
    """Observations of a point by a camera that already sees it."""
    unobserved_points: int
    unobserved_cameras: int
    weak_points: int
    """Points with exactly one observation: their depth is not determined."""
    weak_cameras: int
    """Cameras with one or two observations: their pose is not determined."""
    behind: int
    """Observations whose point lies behind the camera."""
    gross_errors: int
    """Observations with a pixel error above 100."""
    far_points: int
    focal_outliers: int
    coincident_cameras: int
    """Cameras at the very position of another."""
    objective: float
    """F with the trivial loss, priors included."""
    mean_objective: float
    """F of the observations / K, the paper's mean reprojection error."""
    pixel_error: PixelError
    constraints: list[str]
    """What is fixed, shared and known beforehand, in words."""
    warnings: list[str]
    """Everything suspicious, in words."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect(problem: Problem) -> Diagnostics:
    """Count, measure and check a problem."""
    C, P, K = problem.num_cameras, problem.num_points, problem.num_observations
    tracks = np.bincount(problem.point_index, minlength=P)
    degrees = np.bincount(problem.camera_index, minlength=C)
    component = _camera_components(problem, degrees > 0)
    sizes = np.bincount(component) if len(component) else np.zeros(1, int)
    twice = _duplicates(problem)
    errors = pixel_errors(problem)
    behind = points_behind(problem)
    gross = np.flatnonzero(errors > _GROSS)
    far, same = _far_points(problem), _coincident(problem)
    ratio = problem.focal / median(problem.focal)
    zoomed = np.flatnonzero((ratio > _FOCAL) | (ratio < 1 / _FOCAL))
    objective = problem.objective()

    unseen, lonely = np.flatnonzero(tracks == 0), np.flatnonzero(tracks == 1)
    idle, weak = np.flatnonzero(degrees == 0), np.flatnonzero((degrees > 0) & (degrees < 3))
    behind_share = f", {100 * len(behind) / K:.0f} % of all" if len(behind) > K // 100 else ""
    images = ImageNames.of(problem.info, C)
    noun = images.noun
    pairs = [f"{images.label(key // P)} and point {key % P}" for key in twice[:SHOWN].tolist()]
    warnings = [
        _say(unseen, "point", f"that no {noun} sees", "kept as they are"),
        _say(lonely, "point", "with only one observation", "depth is not determined"),
        _say(idle, noun, "without observations", "kept as they are", images),
        _say(weak, noun, "with fewer than 3 observations", "pose is not determined", images),
        _parts(sizes, noun),
        _duplicates_in_words(len(twice), pairs),
        _say(behind, "observation", f"of a point behind the {noun}{behind_share}", ""),
        _say(gross, "observation", f"with a pixel error above {_GROSS:.0f}", "use a robust loss"),
        _say(far, "point", f"more than {_FAR:.0f} times as far away as the median point", ""),
        _say(zoomed, noun, f"with {_FOCAL:.0f} times the usual focal length or 1/10", "", images),
        _say(same, noun, f"at the very position of another {noun}", "", images),
    ]
    return Diagnostics(
        name=problem.name,
        cameras=C,
        points=P,
        observations=K,
        track_length=_distribution(tracks, _TRACKS),
        camera_degree=_distribution(degrees, _DEGREES),
        components=int((sizes > 0).sum()),
        largest_component_cameras=int(sizes.max()),
        duplicates=len(twice),
        unobserved_points=len(unseen),
        unobserved_cameras=len(idle),
        weak_points=len(lonely),
        weak_cameras=len(weak),
        behind=len(behind),
        gross_errors=len(gross),
        far_points=len(far),
        focal_outliers=len(zoomed),
        coincident_cameras=len(same),
        objective=objective,
        mean_objective=(objective - problem.prior_objective()) / K,
        pixel_error=summarize_errors(errors, len(behind)),
        constraints=describe(problem.constraints, noun),
        warnings=[warning for warning in warnings if warning],
    )


def _distribution(counts: np.ndarray, bins: tuple[int, ...]) -> Distribution:
    starts = [0, *(last + 1 for last in bins)]
    labels = [str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, bins, strict=False)]
    sums = np.bincount(np.searchsorted(bins, counts), minlength=len(starts)).tolist()
    histogram = dict(zip([*labels, f"{starts[-1]}+"], sums, strict=True))
    return Distribution(
        min=int(counts.min()),
        median=float(median(counts)),
        mean=float(counts.mean()),
        max=int(counts.max()),
        histogram=histogram,
    )


def _camera_components(problem: Problem, observed: np.ndarray) -> Ints:
    """For each camera with observations, the connected part of the scene it belongs to.

    Every part takes the smallest number among its own and its neighbours' until none changes: a few
    passes over the observations, and no import of SciPy, which takes longer than a small solve.
    """
    camera, point, C = problem.camera_index, problem.point_index, problem.num_cameras
    part = np.arange(C)
    while True:
        lowest = np.full(problem.num_points, C)
        np.minimum.at(lowest, point, part[camera])
        found = part.copy()
        np.minimum.at(
            found, part[camera], lowest[point]
        )  # what is found for a camera, for its part
        while (found[found] != found).any():
            found = found[found]
        found = found[part]
        if np.array_equal(found, part):
            return np.unique(part[observed], return_inverse=True)[1].reshape(-1).astype(np.int32)
        part = found


def _duplicates(problem: Problem) -> np.ndarray:
    """camera · P + point, once for every observation too many."""
    key = problem.camera_index.astype(np.int64) * problem.num_points
    key += problem.point_index
    key.sort()
    return key[1:][key[1:] == key[:-1]]


def _far_points(problem: Problem) -> np.ndarray:
    distance = np.linalg.norm(problem.points - median(problem.points, axis=0), axis=1)
    return np.flatnonzero(distance > _FAR * median(distance))


def _coincident(problem: Problem) -> np.ndarray:
    """Cameras that have an earlier camera at their position."""
    centers = problem.centers
    size = median(np.linalg.norm(problem.points - median(centers, axis=0), axis=1))
    cell = np.round(centers / max(_SAME_POSITION * float(size), 1e-300))
    first = np.unique(cell, axis=0, return_index=True)[1]
    again = np.ones(len(centers), bool)
    again[first] = False
    return np.flatnonzero(again)


def _say(ids: np.ndarray, noun: str, what: str, then: str, images: ImageNames | None = None) -> str:
    """'3 points that no camera sees (4, 7, 9): kept as they are', or '' if there are none."""
    if len(ids) == 0:
        return ""
    some = ids[:SHOWN].tolist()
    words = [str(number) for number in some] if images is None else images.labels(some)
    text = f"{len(ids)} {noun}{'s' if len(ids) > 1 else ''} {what} ({_first(words, len(ids))})"
    return f"{text}: {then}" if then else text


def _duplicates_in_words(count: int, pairs: list[str]) -> str:
    if not count:
        return ""
    what = "duplicate observation" + ("s" if count > 1 else "")
    return f"{count} {what} ({_first(pairs, count)}): each counts in the objective"


def _parts(sizes: np.ndarray, noun: str) -> str:
    count = int((sizes > 0).sum())
    if count < 2:
        return ""
    largest = ", ".join(str(n) for n in -np.sort(-sizes)[:3])
    return (
        f"the scene falls into {count} parts that share no point (the largest with {largest} "
        f"{noun}s): their poses relative to each other are not determined"
    )


def _first(words: list[str], count: int) -> str:
    """As many examples as have room, and one in any case: names may be long."""
    text = words[0]
    for n, word in enumerate(words[1:], start=1):
        if len(text) + len(word) > ROOM:
            return _first(words[:n], count)
        text += f", {word}"
    return text + (", …" if count > len(words) else "")


SHOWN_AT_ONCE = 2_000_000
"""Observations up to which a notebook is told the pixel error, which takes about a second there."""


def html(problem: Problem) -> str:
    """What a notebook shows of a problem."""
    from daba.core.text import html_table

    noun = ImageNames.of(problem.info, problem.num_cameras).noun
    rows = [("problem", problem.in_words())]
    if problem.num_observations <= SHOWN_AT_ONCE:
        error = pixel_error(problem)
        px = f"rms {error.rms:.4g} px, mean {error.mean:.4g}, median {error.median:.4g}"
        rows.append(("pixel error", px))
    rows += [("constraints", note) for note in describe(problem.constraints, noun)]
    return html_table(rows)
