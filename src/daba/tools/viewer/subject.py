"""What is shown: one or more estimates of the same cameras and points, and what is known of them.

Devices and errors are computed when they are first shown: a first picture must not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from daba.core.errors import DabaError
from daba.io.ply import openings
from daba.partition.partition import Partition, make_partition
from daba.problem.images import Images
from daba.problem.intrinsics import pixel_errors
from daba.problem.problem import Floats, Ints, Problem
from daba.runtime.recording import Snapshot, Still

SOME = 500_000
"""Observations that tell how wide the cameras' images are."""


class ShownEstimate(NamedTuple):
    """Where everything is at one time."""

    label: str
    rotations: Floats
    centers: Floats
    points: Floats
    about: str = ""


class CameraObservations(NamedTuple):
    """What one camera sees."""

    points: Ints
    errors: Floats
    """Errors in pixels, as a reader of the file computes them; NaN where they are not known."""


@dataclass(frozen=True)
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
    images: Images | None = None
    """What the images are called; None of a recording, which does not know."""
    problems: list[Problem] = field(default_factory=list)
    """The problems of the estimates, where observations are known."""
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

    def __post_init__(self) -> None:
        self._errors = cache(lambda number: mean_errors(self.problems[number]))
        self._by_camera = cache(lambda number: _by_camera(self.problems[number]))

    def seen(self, camera: int, number: int) -> CameraObservations:
        """What a camera sees, at the estimate with that number."""
        if not self.problems:
            return CameraObservations(np.empty(0, np.int32), np.empty(0))
        order, ends = self._by_camera(number)
        k = order[ends[camera] : ends[camera + 1]]
        return CameraObservations(self.problems[number].point_index[k], self.errors(number).each[k])

    @property
    def counts(self) -> str:
        last = self.estimates[-1]
        images = self.images or Images([], np.arange(len(last.centers)))
        words = f"{images.count(len(last.centers))}, {len(last.points):,} points"
        if self.problems:
            words += f", {self.problems[0].num_observations:,} observations"
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
    if after is not None:
        for what in ("num_cameras", "num_points"):  # observations may have been dropped
            a, b = getattr(before, what), getattr(after, what)
            if a != b:
                raise DabaError(
                    f"{before.name} and {after.name} are not the same problem: {a} and {b} "
                    f"{what.removeprefix('num_')}"
                )
    labels = ["before", "after"] if after is not None else [""]
    colors = _colors(before) if after is None else _first(_colors(after), _colors(before))
    return Subject(
        name=before.name,
        sign=float(before.info.get("world_sign", 1)),
        wide=_openings(before),
        estimates=[
            ShownEstimate(label, p.rotations, p.centers, p.points)
            for label, p in zip(labels, problems, strict=True)
        ],
        colors=colors,
        images=Images.of(before.info, before.num_cameras),
        problems=problems,
        partition=cache(
            lambda: (
                partition
                if partition is not None
                else make_partition(before, min(devices, before.num_cameras))
            )
        ),
    )


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
    return order, np.concatenate([[0], np.cumsum(counts)])


def _openings(problem: Problem) -> Floats:
    """From some of the observations: of many, a part tells enough."""
    some = slice(None, None, max(1, problem.num_observations // SOME))
    return openings(problem.num_cameras, problem.camera_index[some], problem.u[some])


def _colors(problem: Problem) -> np.ndarray | None:
    colors: Any = problem.info.get("colors")
    if colors is None or np.shape(colors) != (problem.num_points, 3):
        return None
    return np.clip(np.asarray(colors), 0, 255).astype(np.uint8)


def _first(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    return b if a is None else a
