"""How a scene lies: which way is up, along what it stretches, and how far it reaches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daba.problem.problem import Floats

AGREE = 0.2
"""Length of the cameras' mean up vector from which on they are taken to have one."""


class Frame(NamedTuple):
    """Axes of a scene, each of length 1 and at right angles."""

    right: Floats
    """Along which the cameras spread most, at right angles to up."""
    away: Floats
    up: Floats

    @staticmethod
    def of(rotations: Floats, centers: Floats) -> Frame:
        """Up is where the cameras' own up (their −y) points on average; where they look in all
        directions, it is the direction in which they spread least."""
        up = -rotations[:, :, 1].mean(axis=0)
        spread = centers - np.median(centers, axis=0)
        if np.linalg.norm(up) < AGREE:
            up = _axes(spread)[-1]
        up = up / np.linalg.norm(up)
        right = _axes(spread - np.outer(spread @ up, up))[0]
        if np.linalg.norm(np.cross(right, up)) < 1e-6:  # all in one place, or one above the other
            right = np.eye(3)[np.argmin(np.abs(up))]
        right = right - (right @ up) * up
        right /= np.linalg.norm(right)
        return Frame(right, np.cross(up, right), up)

    @property
    def from_above(self) -> Floats:
        """Axes (2, 3) of a map."""
        return np.stack([self.right, self.away])


def bounds(
    points: Floats, centers: Floats, outside: float = 1.0, room: float = 0.05
) -> tuple[Floats, Floats]:
    """Corners of a box around nearly all points and all but stray cameras.

    outside   per cent of the points that may lie beyond each side, before the room is added
    """
    inner = np.percentile(points, [outside, 100 - outside], axis=0)
    cameras = np.percentile(centers, [2, 98], axis=0)
    low, high = np.minimum(inner[0], cameras[0]), np.maximum(inner[1], cameras[1])
    margin = room * ((high - low).max() or 1.0)
    return low - margin, high + margin


def _axes(spread: Floats) -> Floats:
    """Directions (3, 3) from most to least spread."""
    return np.asarray(np.linalg.eigh(spread.T @ spread)[1].T[::-1])
