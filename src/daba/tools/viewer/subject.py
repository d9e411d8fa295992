"""What is shown: one or more estimates of the same cameras and points, and what is known of them.

Devices and errors are computed when they are first shown: a first picture must not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from daba.core.errors import DabaError
from daba.core.types import frozen, starts
from daba.io.ply import openings
from daba.partition.partition import Partition, make_partition, num_frames
from daba.problem.images import ImageNames
from daba.problem.pixel_errors import pixel_errors
from daba.problem.problem import Floats, Ints, Problem
from daba.runtime.recording import Snapshot, Still
from daba.tools.viewer.histogram import Spread

SOME = 500_000
"""Observations that tell how wide the cameras' images are."""


class ShownEstimate(NamedTuple):
    """Where everything is at one time."""

    label: str
    rotations: Floats
    centers: Floats
    points: Floats
    about: str = ""


class Rows(NamedTuple):
    """Which cameras and points of a problem are shown, in the order of the estimates."""

    cameras: np.ndarray
    points: np.ndarray

    @staticmethod
    def all(problem: Problem) -> Rows:
        return Rows(np.arange(problem.num_cameras), np.arange(problem.num_points))


class CameraObservations(NamedTuple):
    """What one camera sees."""

    points: Ints
    errors: Floats
    """Errors in pixels, as a reader of the file computes them; NaN where they are not known."""


@frozen
class ShownErrors:
    """Mean pixel error of each point and camera; NaN where nothing is seen."""

    points: Floats
    cameras: Floats
    each: Floats
    """The error of each observation."""


@dataclass
class Subject:
    """What a page is about."""

    name: str
    sign: float
    wide: Floats
    """Half width and height of each camera's image at distance 1."""
    estimates: list[ShownEstimate]
    colors: np.ndarray | None = None
    """Colours of the points, (P,3) of uint8."""
    images: ImageNames | None = None
    """What the images are called; None of a recording, which does not know."""
    problems: list[Problem] = field(default_factory=list)
    """The problems of the estimates, where observations are known."""
    rows: list[Rows] = field(default_factory=list)
    """What of them is shown."""
    partition: Callable[[], Partition] | None = None
    film: bool = False
    """Whether the estimates are the iterations of one solve."""

    def devices(self) -> Partition:
        if self.partition is None:
            raise DabaError("it is not known which device owns what")
        return self.partition()

    def errors(self, number: int) -> ShownErrors:
        """The errors of the estimate with that number."""
        return self._errors(number)

    def spread(self, number: int) -> Spread:
        """Those of all its observations, counted."""
        return self._spread(number)

    def __post_init__(self) -> None:
        self._errors = cache(lambda number: self._mean_errors(number))
        self._spread = cache(lambda number: Spread.of(self.errors(number).each))
        self._by_camera = cache(lambda number: _by_camera(self.problems[number]))

    def _mean_errors(self, number: int) -> ShownErrors:
        points, cameras, each = astuple(mean_errors(self.problems[number]))
        rows = self.rows[number]
        return ShownErrors(points[rows.points], cameras[rows.cameras], each)

    def seen(self, camera: int, number: int) -> CameraObservations:
        """What a camera sees, at the estimate with that number."""
        if not self.problems:
            return CameraObservations(np.empty(0, np.int32), np.empty(0))
        order, ends = self._by_camera(number)
        problem, rows = self.problems[number], self.rows[number]
        i = rows.cameras[camera]
        k = order[ends[i] : ends[i + 1]]
        where = np.full(problem.num_points, -1, np.int32)
        where[rows.points] = np.arange(len(rows.points), dtype=np.int32)
        points, errors = where[problem.point_index[k]], self.errors(number).each[k]
        return CameraObservations(points[points >= 0], errors[points >= 0])

    @property
    def counts(self) -> str:
        last = self.estimates[-1]
        images = self.images or ImageNames([], np.arange(len(last.centers)))
        words = f"{images.count(len(last.centers))}, {len(last.points):,} points"
        if self.problems:
            seen = dict.fromkeys(f"{one.num_observations:,}" for one in self.problems)
            words += f", {' → '.join(seen)} observations"
        return words


def mean_errors(problem: Problem) -> ShownErrors:
    """Mean pixel error of each point and each camera, over its observations."""
    each = pixel_errors(problem)
    with np.errstate(invalid="ignore", divide="ignore"):
        points, cameras = (
            np.bincount(index, each, count) / np.bincount(index, minlength=count)
            for index, count in (
                (problem.point_index, problem.num_points),
                (problem.camera_index, problem.num_cameras),
            )
        )
    return ShownErrors(points, cameras, each)


def subject_of(
    before: Problem,
    after: Problem | None = None,
    devices: int = 8,
    partition: Partition | None = None,
) -> Subject:
    """A problem, or one before and after.

    devices     how many a partition is made for when devices are shown, unless one is given
    """
    problems = [before] if after is None else [before, after]
    rows = [Rows.all(before)] if after is None else common_rows(before, after)
    labels = ["before", "after"] if after is not None else [""]
    colors = [(_colors(problem), r) for problem, r in zip(problems, rows, strict=True)]
    cameras, points = rows[0]
    images = ImageNames.of(before.info, before.num_cameras)

    @cache
    def owners() -> Partition:
        whole = partition or make_partition(before, min(devices, num_frames(before)))
        return Partition(whole.camera_device[cameras], whole.point_device[points], whole.devices)

    return Subject(
        name=before.name,
        sign=float(before.info.get("world_sign", 1)),
        wide=_openings(before)[cameras],
        estimates=[
            ShownEstimate(label, p.rotations[r.cameras], p.centers[r.cameras], p.points[r.points])
            for label, p, r in zip(labels, problems, rows, strict=True)
        ],
        colors=next((c[r.points] for c, r in colors if c is not None), None),
        images=images.chosen(cameras),
        problems=problems,
        rows=rows,
        partition=owners,
    )


def common_rows(before: Problem, after: Problem) -> list[Rows]:
    """What two problems have in common: by id where their files have ids, for a filter may have
    taken points away; else they must have as many of each."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for what, ids in (("cameras", "image_ids"), ("points", "point3D_ids")):
        a, b = (getattr(problem, f"num_{what}") for problem in (before, after))
        known = [problem.info.get(ids) for problem in (before, after)]
        if known[0] is not None and known[1] is not None:
            first, second = map(np.asarray, known)
            _, i, j = np.intersect1d(first, second, return_indices=True)
            order = np.argsort(i)
            found.append((i[order], j[order]))
        elif a == b:
            found.append((np.arange(a), np.arange(a)))
        else:
            found.append((np.arange(0), np.arange(0)))
        if not len(found[-1][0]):
            raise DabaError(
                f"{before.name} and {after.name} are not the same problem: {a} and {b} {what}"
            )
    return [Rows(found[0][n], found[1][n]) for n in (0, 1)]


def subject_of_recording(still: Still, shots: list[Snapshot]) -> Subject:
    """The iterations of a solve, as they were recorded."""
    devices = int(max(still.camera_device.max(), still.point_device.max())) + 1
    partition = Partition(still.camera_device, still.point_device, devices)
    return Subject(
        name=still.name,
        sign=still.sign,
        wide=np.asarray(still.wide, float),
        estimates=[estimate_of(still, shot) for shot in shots],
        colors=still.colors if len(still.colors) else None,
        partition=lambda: partition,
        film=True,
    )


def estimate_of(still: Still, shot: Snapshot) -> ShownEstimate:
    cameras = shot.cameras.astype(float)
    return ShownEstimate(
        label=str(shot.iteration),
        rotations=cameras[:, :9].reshape(-1, 3, 3),
        centers=cameras[:, 9:] + still.origin,
        points=shot.points + still.origin,
        about=f"cost {shot.mean_objective:.6g}, {shot.rms_pixels:.4g} px, {shot.seconds:.2f} s",
    )


def _by_camera(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Observations camera after camera, and where each camera's begin and end."""
    counts = np.bincount(problem.camera_index, minlength=problem.num_cameras)
    order = np.argsort(problem.camera_index, kind="stable")
    return order, starts(counts)


def _openings(problem: Problem) -> Floats:
    """From some of the observations: of many, a part tells enough."""
    some = slice(None, None, max(1, problem.num_observations // SOME))
    return openings(problem.num_cameras, problem.camera_index[some], problem.u[some])


def _colors(problem: Problem) -> np.ndarray | None:
    colors: Any = problem.info.get("colors")
    if colors is None or np.shape(colors) != (problem.num_points, 3):
        return None
    return np.clip(np.asarray(colors), 0, 255).astype(np.uint8)
