"""Priors: what is known of cameras and points beside their observations.

Each is a term ½ ρ(rᵀΛr) of the objective with r = value − target and Λ the information matrix, the
inverse of a covariance: of a camera's centre (GNSS), of its ray coefficients d, or of a point (a
control point). ρ is a robust loss whose radius is a number of standard deviations.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np
from numpy.typing import ArrayLike

from daba.core.errors import DabaError
from daba.core.losses import Loss, Trivial
from daba.core.types import Floats, Ints, frozen

ASYMMETRY = 1e-9
"""Asymmetry that rounding may leave in an information matrix, relative to its largest entry."""


@frozen
class Targets:
    """Known values of some variables: at most one for each, in the order of their numbers."""

    index: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    """Which camera or point, (n,), ascending."""
    target: Floats = field(default_factory=lambda: np.empty((0, 3)))
    """What it should be, (n, 3)."""
    information: Floats = field(default_factory=lambda: np.empty((0, 3, 3)))
    """Λ, (n, 3, 3), symmetric; directions of which nothing is known may have none."""
    loss: Loss = field(default_factory=Trivial)
    """ρ; its radius is a number of standard deviations."""

    @staticmethod
    def make(
        index: ArrayLike,
        target: ArrayLike,
        *,
        sigma: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        information: ArrayLike | None = None,
        loss: Loss | None = None,
    ) -> Targets:
        """Targets in any order, with one of: standard deviations (a number, (n,) or (n, 3)),
        covariances (n, 3, 3), information matrices (n, 3, 3)."""
        number = np.asarray(index)
        n = len(number)
        if sum(given is not None for given in (sigma, covariance, information)) != 1:
            raise DabaError("a prior needs one of sigma, covariance and information")
        if information is None:
            information = _inverse(number, sigma, covariance)
        order = np.argsort(number, kind="stable")
        return Targets(
            np.ascontiguousarray(number[order], np.int32),
            np.ascontiguousarray(np.asarray(target, np.float64).reshape(n, 3)[order]),
            np.ascontiguousarray(np.asarray(information, np.float64).reshape(n, 3, 3)[order]),
            loss or Trivial(),
        )

    def __len__(self) -> int:
        return len(self.index)

    def measure(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """½ρ(rᵀΛr), ρ' and Λr of each, given the values of all variables, (count, 3)."""
        off = values[self.index] - self.target
        pull = np.einsum("nab,nb->na", self.information, off)
        value, slope = self.loss((off * pull).sum(axis=1))
        return 0.5 * value, slope, pull

    def take(self, number: Ints) -> Targets:
        """The targets of variables that have a new number (not −1), renumbered."""
        at = number[self.index]
        kept = np.flatnonzero(at >= 0)
        kept = kept[np.argsort(at[kept], kind="stable")]
        return replace(
            self,
            index=at[kept].astype(np.int32),
            target=self.target[kept],
            information=self.information[kept],
        )

    def validated(self, what: str, count: int) -> Targets:
        """Return self, or raise `DabaError` naming the first target that makes no sense."""
        if self.index.ndim != 1 or not np.issubdtype(self.index.dtype, np.integer):
            raise DabaError(f"prior on {what}s: their numbers must be integers, (n,)")
        n = len(self)
        shapes = ((self.target, (n, 3)), (self.information, (n, 3, 3)))
        if any(array.shape != shape or array.dtype != float for array, shape in shapes):
            raise DabaError(f"prior on {what}s: targets must be (n, 3), information (n, 3, 3)")
        wrong = np.flatnonzero((self.index < 0) | (self.index >= count))
        if len(wrong):
            raise DabaError(f"prior on {what} {self.index[wrong[0]]}: there are only {count}")
        twice = np.flatnonzero(np.diff(self.index) <= 0)
        if len(twice):
            raise DabaError(f"prior on {what} {self.index[twice[0] + 1]}: given twice")
        rows = np.hstack([self.target, self.information.reshape(n, 9)])
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise DabaError(f"prior on {what} {self.index[bad[0]]}: NaN or infinite value")
        size = np.abs(self.information).max(axis=(1, 2), initial=0.0)
        skew = np.abs(self.information - self.information.transpose(0, 2, 1)).max((1, 2), initial=0)
        least = np.linalg.eigvalsh(self.information)[:, 0] if n else np.empty(0)
        bad = np.flatnonzero((skew > ASYMMETRY * size) | (least < -ASYMMETRY * size))
        if len(bad):
            raise DabaError(
                f"prior on {what} {self.index[bad[0]]}: its covariance or information matrix is "
                "not symmetric and positive"
            )
        return self

    @staticmethod
    def concatenate(parts: list[Targets], starts: np.ndarray) -> Targets:
        """One after the other, numbers counted on from `starts`."""
        return Targets(
            np.concatenate([p.index + np.int32(s) for p, s in zip(parts, starts, strict=False)]),
            np.concatenate([p.target for p in parts]),
            np.concatenate([p.information for p in parts]),
            parts[0].loss,
        )


@frozen
class Priors:
    """All priors of a problem, by what they are about."""

    positions: Targets = field(default_factory=Targets)
    """Known centres t of cameras."""
    intrinsics: Targets = field(default_factory=Targets)
    """Known d of cameras; of cameras that share d, one has the prior of all."""
    points: Targets = field(default_factory=Targets)
    """Control points."""

    def __len__(self) -> int:
        return len(self.positions) + len(self.intrinsics) + len(self.points)

    def objective(self, cameras: Floats, points: Floats) -> float:
        """Σ ½ ρ(rᵀΛr) at camera records and points."""
        values = (cameras[:, 9:12], cameras[:, 12:15], points)
        each = zip((self.positions, self.intrinsics, self.points), values, strict=True)
        return float(sum(targets.measure(x)[0].sum() for targets, x in each))

    def validated(self, cameras: int, points: int) -> Priors:
        self.positions.validated("camera", cameras)
        self.intrinsics.validated("camera", cameras)
        self.points.validated("point", points)
        return self


def _inverse(number: np.ndarray, sigma: ArrayLike | None, covariance: ArrayLike | None) -> Floats:
    """Λ = Σ⁻¹."""
    n = len(number)
    if covariance is None:
        deviation = np.asarray(sigma, np.float64)
        if deviation.ndim == 1:
            deviation = deviation[:, None]
        deviation = np.broadcast_to(deviation, (n, 3))
        bad = np.flatnonzero(~(deviation > 0).all(axis=1))
        if len(bad):
            raise DabaError(f"prior on {number[bad[0]]}: standard deviations must be positive")
        return np.asarray(np.eye(3) / np.square(deviation)[:, :, None])
    matrix = np.asarray(covariance, np.float64).reshape(n, 3, 3)
    least = np.linalg.eigvalsh(np.where(np.isfinite(matrix), matrix, -1.0))
    bad = np.flatnonzero(~(least[:, 0] > 0) | ~np.isfinite(matrix.reshape(n, 9)).all(axis=1))
    if len(bad):
        raise DabaError(
            f"prior on {number[bad[0]]}: its covariance is not symmetric and positive definite"
        )
    inverse = np.linalg.inv(matrix)
    return np.asarray(0.5 * (inverse + inverse.transpose(0, 2, 1)))
