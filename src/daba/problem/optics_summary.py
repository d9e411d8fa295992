"""What a problem's cameras are, in a few numbers and words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from daba.core.camera_models import BY_ID
from daba.core.types import distinct, frozen
from daba.problem.optics import Optics
from daba.problem.pixel_errors import mean_reprojection_error
from daba.problem.problem import Problem

STRAYED = 3.0
"""Times: a focal length that has become so much longer, or shorter, was hardly determined. Of the
fifty of telephoto-50, 5,300 px each, the farthest ends at 7 times that in least squares, at 9 with
a Huber loss and at 49 after a filter, while pixel errors fall; COLMAP takes them to 2 and 31
times."""


@frozen
class OpticsSummary:
    """Cameras by model, and rigs."""

    models: dict[str, dict[str, int]]
    """By COLMAP's name of the model: how many "cameras", and "images" taken by them."""
    frames: int | None
    """None if every image is a frame."""
    sensors: int | None
    """Places of cameras on rigs; all rigs' own place counts once."""
    colmap_error: float | None
    """The mean reprojection error that COLMAP computes, in pixels; None if it is no COLMAP
    model."""

    def words(self) -> list[str]:
        """One for each model."""
        return [
            f"{counts['cameras']:,} {name}"
            + (f" of {counts['images']:,} images" if counts["images"] > counts["cameras"] else "")
            for name, counts in self.models.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def refinements(optics: Optics) -> list[str]:
    """Of each camera model, in words: which parameters a solve may change, and which stay."""
    words = []
    for number in distinct(optics.model).tolist():
        model, cameras = BY_ID[number], np.flatnonzero(optics.model == number)
        free = optics.refined[cameras, : model.count]
        parts = [
            ", ".join(np.array(model.parameters)[chosen].tolist())
            for chosen in (free.any(axis=0), ~free.any(axis=0))
        ]
        told = [f"{what} {names}" for what, names in zip(("", "held"), parts, strict=True) if names]
        held = int((~free.any(axis=1)).sum())
        some = f" ({held:,} of {len(cameras):,} cameras held)" if 0 < held < len(cameras) else ""
        words.append(f"{model.name}: {', '.join(told).strip()}{some}")
    return words


def strayed(start: Problem, solution: Problem) -> str:
    """Which focal lengths have gone so far that images can hardly have told them, in words; empty
    where none has. The images of both are the same."""
    was, now = start.optics, solution.optics
    cameras, image = np.unique(now.camera, return_index=True)
    given = was.camera[image]
    model = [BY_ID[number] for number in now.model[cameras].tolist()]
    focal = np.arange(2) < np.array([[m.focals] for m in model])
    before, after = was.params[given, :2], now.params[cameras, :2]
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(focal, after / before, 1.0)
    far = np.where(times > 0, np.maximum(times, 1.0 / times), np.inf)
    count = int((far.max(axis=1) > STRAYED).sum())
    if count == 0:
        return ""
    n, k = np.unravel_index(int(far.argmax()), far.shape)
    ids = start.info.get("camera_ids", np.arange(len(was.model)))
    return (
        f"the focal length of {count:,} of {len(cameras):,} cameras has changed more than "
        f"{STRAYED:g}-fold, that of camera {int(ids[given[n]])} from {before[n, k]:.4g} to "
        f"{after[n, k]:.4g} px; unless the start was so far off, their images hardly determine it: "
        "--no-refine-focal-length and --no-refine-extra-params hold it, or let images share a "
        "camera"
    )


def describe(problem: Problem) -> OpticsSummary:
    """Count the cameras of a problem."""
    optics = problem.optics
    models = {
        BY_ID[number].name: {
            "cameras": int((optics.model == number).sum()),
            "images": int((optics.model[optics.camera] == number).sum()),
        }
        for number in distinct(optics.model).tolist()
    }
    return OpticsSummary(
        models,
        None if optics.frames is None else len(optics.frames),
        None if optics.sensors is None else len(optics.sensors),
        mean_reprojection_error(problem) if "colmap" in problem.info else None,
    )
