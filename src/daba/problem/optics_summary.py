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
