"""Outliers: observations that a solution cannot explain, taken out of the problem.

An observation goes if its pixel error, as other tools compute it, exceeds a threshold, or if its
point lies behind its camera. A point that is left with a single observation loses that, too: its
depth would be free. Points and cameras keep their numbers; what has no observations any more stays
where it is, and a COLMAP model is written without such points.
"""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.types import frozen
from daba.problem.images import ImageNames
from daba.problem.optics import observe
from daba.problem.pixel_errors import pixel_errors, points_behind
from daba.problem.problem import Problem

WORST = 5
"""Cameras named in a report."""


@frozen
class Dropped:
    """What a filter has taken out of a problem."""

    threshold: float
    """Pixels."""
    beyond: int
    """Observations with a larger error."""
    behind: int
    """Observations of points behind their cameras, whatever their error."""
    lonely: int
    """Last observations of points that had lost all others."""
    points: int
    """Points left without observations."""
    cameras: int
    """Cameras left without observations."""
    worst: list[dict[str, Any]] = field(default_factory=list)
    """The cameras that lost most: "camera", "name" if known, "label", "dropped", "observations"
    before."""
    noun: str = "camera"
    """What cameras are called: images, where the file has their names."""

    @property
    def observations(self) -> int:
        """All that were dropped."""
        return self.beyond + self.behind + self.lonely

    def to_dict(self) -> dict[str, Any]:
        return {"observations": self.observations} | asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Rows of the result table."""
        words = (
            f"{self.observations:,} observations ({self.beyond:,} beyond {self.threshold:g} px, "
            f"{self.behind:,} behind the camera, {self.lonely:,} of points left with one), "
            f"{self.points:,} points and {self.cameras:,} {self.noun}s left without any"
        )
        rows = [("dropped", words)]
        if self.worst:
            cameras = (
                f"{entry['label']}: {entry['dropped']:,} of {entry['observations']:,}"
                for entry in self.worst
            )
            rows.append(("most dropped in", "; ".join(cameras)))
        return rows


def filter_outliers(problem: Problem, pixels: float) -> tuple[Problem, Dropped]:
    """The problem without observations whose pixel error exceeds `pixels` or whose point lies
    behind its camera, at the problem's own estimate, and what was dropped."""
    if not pixels > 0:
        raise DabaError(f"the threshold of a filter must be positive, not {pixels}")
    behind = np.zeros(problem.num_observations, bool)
    behind[points_behind(problem)] = True
    beyond = ~behind & (pixel_errors(problem) > pixels)
    gone = behind | beyond
    lonely = ~gone & _lonely(problem, gone)
    keep = ~(gone | lonely)
    if not keep.any():
        raise DabaError(
            f"every observation has a pixel error above {pixels:g}: nothing would be left; use a "
            "larger threshold"
        )
    kept = _without(problem, keep)
    images = ImageNames.of(problem.info, problem.num_cameras)
    return kept, Dropped(
        threshold=float(pixels),
        beyond=int(beyond.sum()),
        behind=int(behind.sum()),
        lonely=int(lonely.sum()),
        points=_emptied(problem.point_index, kept.point_index, problem.num_points),
        cameras=_emptied(problem.camera_index, kept.camera_index, problem.num_cameras),
        worst=_worst(problem, images, keep),
        noun=images.noun,
    )


def drop_hidden(problem: Problem) -> tuple[Problem, int]:
    """The problem without observations of points that their cameras do not see, and how many these
    are; a point that is left with one observation loses that, too."""
    seen = observe(problem)[1]
    if seen.all():
        return problem, 0
    keep = seen & ~_lonely(problem, ~seen)
    if not keep.any():
        raise DabaError("no camera sees any of its points: the model is inside out")
    return _without(problem, keep), int(np.count_nonzero(~seen))


def _lonely(problem: Problem, gone: np.ndarray) -> np.ndarray:
    """Observations of points that others were taken from, and that have this one left."""
    P, point = problem.num_points, problem.point_index
    before = np.bincount(point, minlength=P)
    after = np.bincount(point[~gone], minlength=P)
    return np.asarray(((after == 1) & (before > 1))[point])


def _without(problem: Problem, keep: np.ndarray) -> Problem:
    info = dict(problem.info)
    keys = np.asarray(info.get("keys", ()))
    if len(keys) == len(keep):  # numbers of image features, see `daba.io`
        lost = np.column_stack([problem.camera_index, keys])[~keep]
        info["keys"] = keys[keep]
        info["dropped"] = np.vstack([info.get("dropped", lost[:0]), lost])
    return problem.with_observations(keep, info)


def _emptied(before: np.ndarray, after: np.ndarray, count: int) -> int:
    had, has = np.bincount(before, minlength=count), np.bincount(after, minlength=count)
    return int(((had > 0) & (has == 0)).sum())


def _worst(problem: Problem, images: ImageNames, keep: np.ndarray) -> list[dict[str, Any]]:
    C = problem.num_cameras
    total = np.bincount(problem.camera_index, minlength=C)
    lost = np.bincount(problem.camera_index[~keep], minlength=C)
    order = np.argsort(-lost, kind="stable")[:WORST]
    return [
        {
            "camera": i,
            "label": images.label(i),
            "dropped": int(lost[i]),
            "observations": int(total[i]),
        }
        | ({"name": images.names[i]} if images.names else {})
        for i in order[lost[order] > 0].tolist()
    ]
