"""From the world to the picture's own frame: centred, up is +z, about ten units wide.

There single precision is enough, whatever the coordinates of the world are, and a page's camera
and clipping planes can be the same for a table-top and a city.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daba.problem.problem import Floats
from daba.tools.orientation import Frame, bounds

WIDTH = 10.0
"""Width of the scene in the picture, but for what lies far out."""
FAR = 100.0 * WIDTH
"""What lies further away is not shown: it would be a speck, and upset the browser's arithmetic."""

AGREE = 0.5
"""Length of the mean viewing direction from which on the cameras are taken to look the same way."""
TILT = 32.0
"""Degrees at which one looks down at first."""
FILL = 0.92
"""Share of the distance at which all corners of the scene's box are seen; most are empty."""


class Placing(NamedTuple):
    """x ↦ scale · axes (sign · x − centre)."""

    sign: float
    axes: Floats
    centre: Floats
    scale: float
    low: Floats
    """Corners of the box that holds nearly everything, in the picture's frame."""
    high: Floats

    @staticmethod
    def of(rotations: Floats, centers: Floats, points: Floats, sign: float = 1.0) -> Placing:
        points = points[:: max(1, len(points) // 100_000)]
        axes = np.stack(Frame.of(sign * rotations, sign * centers))
        low, high = bounds(sign * points @ axes.T, sign * centers @ axes.T, outside=4.0)
        scale = WIDTH / (float((high - low)[:2].max()) or 1.0)
        centre = 0.5 * (low + high)
        return Placing(
            sign, axes, axes.T @ centre, scale, scale * (low - centre), scale * (high - centre)
        )

    def __call__(self, x: Floats) -> np.ndarray:
        """Positions (…,3) in the picture, float32; what is too far away is NaN."""
        from_centre = np.asarray(self.sign * x - self.centre, np.float32)
        at = from_centre @ (self.scale * self.axes.T).astype(np.float32)
        at[np.abs(at).max(axis=-1) > FAR] = np.nan
        return np.asarray(at)

    def turn(self, rotations: Floats) -> Floats:
        """Rotations, camera to picture."""
        return np.asarray(self.sign * self.axes @ rotations)

    def first_look(
        self, rotations: Floats, fov: float, aspect: float = 1.6
    ) -> tuple[Floats, Floats]:
        """Where to stand, and what to look at, to have the scene before one's eyes: behind the
        cameras if most of them look the same way, else before the long side; half above it."""
        heading = self.turn(rotations)[:, :2, 2].mean(axis=0)
        if np.linalg.norm(heading) < AGREE:
            heading = np.array([0.0, 1.0])
        tilt = np.radians(TILT)
        forward = np.append(np.cos(tilt) * heading / np.linalg.norm(heading), -np.sin(tilt))
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        axes = np.stack([right, np.cross(right, forward), forward])
        centre_of_box = 0.5 * (self.low + self.high)
        signs = np.array(np.meshgrid(*[[-0.5, 0.5]] * 3)).reshape(3, -1).T
        corners = (signs * (self.high - self.low)) @ axes.T
        wide = np.tan(0.5 * fov)
        needed = np.abs(corners[:, :2]).T / [[aspect * wide], [wide]] - corners[:, 2]
        return centre_of_box - FILL * float(needed.max()) * forward, centre_of_box
