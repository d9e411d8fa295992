"""Problem: cameras, points and observations, in the paper's notation.

Camera i is one record of 15 numbers, `[R (3×3, row by row) | t | d]`: rotation (camera to
world), centre, and the coefficients of the ray `p = (u, d1 + d2 |u|² + d3 |u|⁴)`.
Point j is `l`. Observation k says that camera `camera_index[k]` sees point `point_index[k]`
at `u[k]` (pixels divided by the camera's focal length) with weight `weights[k]` (ω), which
turns the angular error into pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daba.core.errors import DabaError
from daba.problem.checks import (
    check_observations,
    check_positive,
    check_variables,
    checked_indices,
)

if TYPE_CHECKING:
    from daba.core.losses import Loss
    from daba.problem.constraints import Constraints
    from daba.problem.priors import Priors

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

SHOWN_AT_ONCE = 2_000_000
"""Observations up to which a notebook is told the pixel error, which takes about a second there."""
CAMERA_RECORD = 15
"""Numbers in one camera record: 9 of R, 3 of t, 3 of d."""


def camera_records(rotations: ArrayLike, centers: ArrayLike, intrinsics: ArrayLike) -> Floats:
    """Pack rotations (C,3,3), centres (C,3) and intrinsics (C,3) into records (C,15)."""
    R = np.asarray(rotations, dtype=np.float64).reshape(-1, 9)
    return np.ascontiguousarray(
        np.hstack([R, np.asarray(centers, np.float64), np.asarray(intrinsics, np.float64)])
    )


@dataclass(frozen=True)
class Problem:
    """A bundle adjustment problem together with its current estimate.

    Arrays are float64 (indices int32) and are treated as read-only: a solver returns a new
    `Problem` that shares the observations. Build one with `Problem.from_arrays`, or read a
    file with `daba.load`.
    """

    cameras: Floats
    """Camera records, (C, 15): R row by row (camera to world), centre t, ray coefficients d."""
    points: Floats
    """Points l, (P, 3)."""
    camera_index: Ints
    """Camera of each observation, (K,)."""
    point_index: Ints
    """Point of each observation, (K,)."""
    u: Floats
    """Observed image points divided by the camera's focal length, (K, 2)."""
    weights: Floats
    """ω of each observation, (K,); `ω |e|` is a pixel error to first order."""
    focal: Floats
    """Focal length, in pixels, by which each camera's observations were divided, (C,)."""
    name: str = "problem"
    """The name that tables and files show."""
    info: dict[str, Any] = field(default_factory=dict)
    """What the reader wants remembered: file, intrinsics reading, fit residuals."""
    shared: Ints | None = None
    """Group of each camera, (C,): cameras with the same number share d exactly, and so must have
    the same `focal` and d at the start. None: every camera has its own."""
    free_cameras: Bools | None = None
    """Which of rotation (3), centre (3) and d (3) of each camera may change, (C, 9); None: all."""
    free_points: Bools | None = None
    """Which points may change, (P,); None: all."""
    priors: Priors | None = None
    """What is known of centres, d and points beside the observations."""
    own_errors: Callable[[Problem], Floats] | None = None
    """Pixel error of each observation, (K,), by the camera models of the file it was read from,
    where these are not ours."""

    @staticmethod
    def from_arrays(
        rotations: ArrayLike,
        centers: ArrayLike,
        points: ArrayLike,
        camera_index: ArrayLike,
        point_index: ArrayLike,
        pixels: ArrayLike,
        focal: ArrayLike,
        intrinsics: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        name: str = "problem",
        info: dict[str, Any] | None = None,
        shared: ArrayLike | None = None,
        free_cameras: ArrayLike | None = None,
        free_points: ArrayLike | None = None,
        priors: Priors | None = None,
    ) -> Problem:
        """Build a problem from plain arrays and check it.

        Args:
            rotations: (C,3,3), camera to world; the camera looks along its own +z
            centers: (C,3), camera centres in the world
            points: (P,3)
            camera_index: (K,), the camera of each observation
            point_index: (K,), its point
            pixels: (K,2), relative to the principal point, x right and y down (or any right-handed
                choice, as long as rotations agree with it)
            focal: scalar or (C,), pixels
            intrinsics: (C,3) ray coefficients d in units of the focal length; (1,0,0), a pinhole,
                if absent
            weights: (K,); `focal * sqrt(1 + |u|²)` if absent, which makes errors pixels
            info: anything to be remembered with the problem
            shared: constraint, as in the field of the same name
            free_cameras: constraint, as in the field of the same name
            free_points: constraint, as in the field of the same name
            priors: constraint, as in the field of the same name
        """
        R = np.asarray(rotations, dtype=np.float64)
        if R.ndim != 3 or R.shape[1:] != (3, 3):
            raise DabaError(f"rotations must have shape (C, 3, 3), not {R.shape}")
        C = len(R)
        f = np.ascontiguousarray(np.broadcast_to(np.asarray(focal, dtype=np.float64), (C,)))
        if intrinsics is None:
            intrinsics = np.tile([1.0, 0.0, 0.0], (C, 1))
        for what, array, width in (("centers", centers, 3), ("intrinsics", intrinsics, 3)):
            if np.shape(array) != (C, width):
                raise DabaError(f"{what} must have shape ({C}, {width}), not {np.shape(array)}")
        cam = checked_indices(camera_index, "camera_index", C)
        px = np.asarray(pixels, dtype=np.float64)
        if px.shape != (len(cam), 2):
            raise DabaError(f"pixels must have shape ({len(cam)}, 2), not {px.shape}")
        check_positive("camera", "focal length", f)
        u = np.ascontiguousarray(px / f[cam, None])
        if weights is None:
            weights = pixel_weights(u, f[cam])
        pts = np.ascontiguousarray(points, dtype=np.float64)
        if pts.ndim != 2 or pts.shape[1] != 3:
            raise DabaError(f"points must have shape (P, 3), not {np.shape(points)}")
        return Problem(
            cameras=camera_records(R, centers, intrinsics),
            points=pts,
            camera_index=cam,
            point_index=checked_indices(point_index, "point_index", len(pts)),
            u=u,
            weights=np.ascontiguousarray(weights, dtype=np.float64),
            focal=f,
            name=name,
            info=dict(info or {}),
            shared=None if shared is None else np.asarray(shared),
            free_cameras=None if free_cameras is None else np.asarray(free_cameras),
            free_points=None if free_points is None else np.asarray(free_points),
            priors=priors,
        ).validated()

    @property
    def num_cameras(self) -> int:
        """C."""
        return len(self.cameras)

    @property
    def num_points(self) -> int:
        """P."""
        return len(self.points)

    @property
    def num_observations(self) -> int:
        """K."""
        return len(self.camera_index)

    @property
    def rotations(self) -> Floats:
        """R, (C,3,3), camera to world."""
        return self.cameras[:, :9].reshape(-1, 3, 3)

    @property
    def centers(self) -> Floats:
        """t, (C,3)."""
        return self.cameras[:, 9:12]

    @property
    def intrinsics(self) -> Floats:
        """d, (C,3)."""
        return self.cameras[:, 12:15]

    @property
    def pixels(self) -> Floats:
        """Observed image points in pixels, (K,2)."""
        return self.u * self.focal[self.camera_index, None]

    @property
    def constraints(self) -> Constraints | None:
        """The constraints, in the form that solvers take; None if there are none."""
        if (given := self._given_constraints()) is None:
            return None
        from daba.problem.constraints import normalized

        return normalized(given)

    def _given_constraints(self) -> Constraints | None:
        """The constraints as they were given."""
        given = (self.shared, self.free_cameras, self.free_points, self.priors)
        if all(what is None for what in given):
            return None
        from daba.problem.constraints import Constraints

        return Constraints(*given)

    @property
    def plain(self) -> bool:
        """Whether there are only observations: nothing shared, nothing fixed, no priors. A solver
        that knows no constraints must refuse a problem that is not plain."""
        return self.constraints is None

    def with_estimate(self, cameras: Floats, points: Floats) -> Problem:
        """The same observations with other cameras and points."""
        return replace(self, cameras=cameras, points=points)

    def objective(self, loss: Loss | None = None) -> float:
        """F(x) = Σ ½ ρ(ω² |e|²) and the priors' terms, computed with plain NumPy."""
        from daba.core.losses import Trivial
        from daba.problem import reference

        return reference.objective(self, loss or Trivial()) + self.prior_objective()

    def prior_objective(self) -> float:
        """The priors' part of F(x): Σ ½ ρ(rᵀΛr), each with its own loss."""
        return 0.0 if self.priors is None else self.priors.objective(self.cameras, self.points)

    def __repr__(self) -> str:
        return f"<Problem {self._in_words()}>"

    def _in_words(self) -> str:
        from daba.core.text import printable
        from daba.problem.images import Images

        images = Images.of(self.info, self.num_cameras).count(self.num_cameras)
        sizes = f"{self.num_points:,} points, {self.num_observations:,} observations"
        return printable(f"{self.name}: {images}, {sizes}")

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        from daba.core.text import html_table
        from daba.problem.constraints import describe
        from daba.problem.images import Images
        from daba.problem.intrinsics import pixel_error

        noun = Images.of(self.info, self.num_cameras).noun
        rows = [("problem", self._in_words())]
        if self.num_observations <= SHOWN_AT_ONCE:
            error = pixel_error(self)
            px = f"rms {error.rms:.4g} px, mean {error.mean:.4g}, median {error.median:.4g}"
            rows.append(("pixel error", px))
        rows += [("constraints", note) for note in describe(self.constraints, noun)]
        return html_table(rows)

    def validated(self) -> Problem:
        """Return self, or raise `DabaError` naming the first camera, point or observation
        that no solver could handle."""
        C, P, K = self.num_cameras, self.num_points, self.num_observations
        if C == 0 or P == 0 or K == 0:
            raise DabaError(f"empty problem: {C} cameras, {P} points, {K} observations")
        shapes: dict[str, tuple[np.ndarray, tuple[int, ...]]] = {
            "cameras": (self.cameras, (C, CAMERA_RECORD)),
            "points": (self.points, (P, 3)),
            "camera_index": (self.camera_index, (K,)),
            "point_index": (self.point_index, (K,)),
            "u": (self.u, (K, 2)),
            "weights": (self.weights, (K,)),
            "focal": (self.focal, (C,)),
        }
        for what, (array, shape) in shapes.items():
            if array.shape != shape:
                raise DabaError(f"{what} must have shape {shape}, not {array.shape}")
        check_variables(self.cameras, self.points, self.focal)
        if (given := self._given_constraints()) is not None:
            from daba.problem.constraints import validate

            validate(given, self.cameras, self.focal, P)
        for start in range(0, K, 1 << 20):  # in pieces: a large problem must not double in memory
            k = slice(start, start + (1 << 20))
            ends = self.camera_index[k], self.point_index[k]
            check_observations(self.cameras, self.points, *ends, self.u[k], self.weights[k], start)
        return self


def pixel_weights(u: Floats, focal: Floats) -> Floats:
    """ω = f √(1 + |u|²): with it `ω |e|` is a pixel error to first order."""
    return np.asarray(focal * np.sqrt(1.0 + np.einsum("kx,kx->k", u, u)))
