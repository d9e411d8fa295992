"""What a synthetic scene should be like, and which wishes are impossible."""

from __future__ import annotations

import math
from typing import Literal

from daba.core.errors import DabaError
from daba.core.types import frozen

NATURAL_TRACK = {"street": 5.0, "city": 5.0, "orbit": 8.0}
"""Mean number of observations per point when the user does not say."""


@frozen
class SceneOptions:
    """A synthetic scene and how far from the truth its start is."""

    scene: Literal["street", "city", "orbit"] = "city"
    """street: a car along one winding street, a long chain. city: a car through a grid of
    streets, loops close. orbit: cameras all around one object, dense visibility."""
    cameras: int = 100
    """Number of cameras."""
    points: int = 10_000
    """Number of points."""
    observations: int | None = None
    """Wanted number of observations; by default 5 per point (orbit: 8)."""
    noise: float = 0.5
    """Standard deviation of the image noise, pixels per axis."""
    outliers: float = 0.0
    """Share of observations replaced by uniformly random image points."""
    distortion: float = 0.02
    """Typical size of the true d2 (d3 is a tenth of it); the start has none."""
    rotation_error: float = 0.4
    """Start: standard deviation of the rotation error, degrees per axis."""
    center_error: float = 0.02
    """Start: standard deviation of the camera centres per axis, in camera spacings."""
    point_error: float = 0.01
    """Start: standard deviation of the points per axis, as a share of their distance."""
    focal_error: float = 0.01
    """Start: standard deviation of the focal lengths, as a share."""
    drift: float = 0.001
    """Start: smooth bending of the whole scene, as a share of its extent."""
    seed: int = 0
    """Seed of all randomness; the same options give the same bits."""

    @property
    def mean_track(self) -> float:
        """Wanted observations per point."""
        if self.observations is None:
            return min(NATURAL_TRACK[self.scene], float(self.cameras))
        return self.observations / self.points

    @property
    def longest_track(self) -> int:
        """No point gets more observations than this."""
        return min(self.cameras, round(4 * self.mean_track) + 20)

    def validated(self) -> SceneOptions:
        """Return self, or raise `DabaError` saying what would be possible."""
        if self.scene not in NATURAL_TRACK:
            raise DabaError(f"scene must be one of {', '.join(NATURAL_TRACK)}, not {self.scene!r}")
        if self.cameras < 2:
            raise DabaError(f"a scene needs at least 2 cameras, not {self.cameras}")
        if self.points < 8:
            raise DabaError(f"a scene needs at least 8 points, not {self.points}")
        least, most = 2 * self.points, self.cameras * self.points
        if self.observations is not None and not least <= self.observations <= most:
            raise DabaError(
                f"{self.cameras} cameras and {self.points} points allow {least} (each point "
                f"twice) to {most} (all see all) observations, not {self.observations}"
            )
        for name in (
            "noise",
            "distortion",
            "rotation_error",
            "center_error",
            "point_error",
            "focal_error",
            "drift",
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise DabaError(f"{name} must be a number ≥ 0, not {value}")
        if not 0 <= self.outliers < 1:
            raise DabaError(f"outliers is a share, at least 0 and below 1, not {self.outliers}")
        for name, largest in (("distortion", 0.1), ("focal_error", 0.1), ("point_error", 0.2)):
            if getattr(self, name) > largest:
                raise DabaError(
                    f"{name} may be at most {largest}, not {getattr(self, name)}: "
                    "beyond it cameras or points turn inside out"
                )
        if self.seed < 0:
            raise DabaError(f"seed must be ≥ 0, not {self.seed}")
        return self
