"""What every scene is made of: cameras that stand somewhere and surfaces that carry points.

The world has z up and is measured in metres; a camera looks along its own +z, x right, y down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from daba.core.types import frozen
from daba.problem.problem import Floats, Ints

VIEW_CYCLE = np.radians([0.0, 50.0, 0.0, -50.0])
"""Yaw of successive pictures relative to the direction of travel: ahead, left, ahead, right."""


@frozen
class Surface:
    """Points drawn from the surfaces of a scene."""

    points: Floats
    normals: Floats
    """Outward unit normals: a point is seen only from its front."""
    zones: Ints
    """(n, 2) names of the open spaces a point borders, negative for none."""

    def take(self, rows: Ints | np.ndarray) -> Surface:
        return Surface(self.points[rows], self.normals[rows], self.zones[rows])


@frozen
class Scenery:
    """Where the cameras stand, and how to draw points around them."""

    rotations: Floats
    centers: Floats
    zones: Ints
    """(C, 2) open spaces each camera stands in. Camera and point see each other only if they
    share a zone; zones are convex, so nothing stands between them. This is the occlusion."""
    spacing: float
    """Distance between neighbouring cameras."""
    sight: float
    """How far a camera sees."""
    sample: Callable[[np.random.Generator, int], Surface]
    """Draw about n points (fewer, where some fall into gaps)."""
    candidates: Literal["near", "spread"] = "near"
    """Who may see a point: cameras near it, or any camera."""


@frozen
class Route:
    """A path on the ground, tabulated at even steps of arc length."""

    table: Floats
    """(n, 2) positions, `step` apart."""
    step: float

    @property
    def length(self) -> float:
        return self.step * (len(self.table) - 1)

    def at(self, s: Floats) -> tuple[Floats, Floats]:
        """Position (n, 2) and unit direction of travel (n, 2) at arc lengths s; straight on
        beyond the ends."""
        k = np.clip((s / self.step).astype(np.int64), 0, len(self.table) - 2)
        d = self.table[k + 1] - self.table[k]
        position = self.table[k] + (s / self.step - k)[:, None] * d
        return position, d / np.linalg.norm(d, axis=1, keepdims=True)

    def rounded(self, radius: float) -> Route:
        """The path as a car drives it: corners cut by a moving average."""
        half = max(1, round(radius / self.step))
        padded = np.pad(self.table, ((half, half), (0, 0)), mode="reflect", reflect_type="odd")
        total = np.cumsum(np.vstack([np.zeros((1, 2)), padded]), axis=0)
        width = 2 * half + 1
        return Route((total[width:] - total[:-width]) / width, self.step)


def picture_spacing(usual: float, cameras: int, mean_track: float) -> float:
    """Distance between pictures: `usual` for tracks of mean length 5, closer for longer ones
    and for so few cameras that most points would be near an end of the drive."""
    return usual * min(1.0, 5.0 / mean_track) * min(1.0, 0.4 + cameras / 100)


def left_of(direction: Floats) -> Floats:
    """Unit vectors to the left of directions on the ground."""
    return np.stack([-direction[:, 1], direction[:, 0]], axis=1)


def looking(yaw: Floats, pitch: Floats) -> Floats:
    """Rotations (camera to world) that look along yaw (from +x, to the left) and pitch (up)."""
    forward = np.stack(
        [np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)], axis=1
    )
    right = np.stack([np.sin(yaw), -np.cos(yaw), np.zeros_like(yaw)], axis=1)
    return np.stack([right, np.cross(forward, right), forward], axis=2)


def drive(rng: np.random.Generator, route: Route, count: int) -> tuple[Floats, Floats]:
    """Rotations and centres of `count` pictures taken evenly along a route, from a car in the
    right lane that sways a little."""
    s = (np.arange(count, dtype=np.float64) + 0.5) * (route.length / count)
    position, direction = route.at(s)
    lane = -1.2 + 0.15 * rng.standard_normal(count)
    ground = position + lane[:, None] * left_of(direction)
    height = 2.0 + 0.1 * rng.standard_normal(count)
    yaw = np.arctan2(direction[:, 1], direction[:, 0]) + VIEW_CYCLE[np.arange(count) % 4]
    sway = np.radians(1.5) * rng.standard_normal((2, count))
    rotations = looking(yaw + sway[0], np.radians(8.0) + sway[1])
    return rotations, np.column_stack([ground, height])
