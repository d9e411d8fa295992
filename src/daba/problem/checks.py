"""What no solver could handle: numbers that are not finite, weights that are not positive, matrices
that are no rotations, indices that lead nowhere. Whole problems and the parts of a store are held
to the same rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from daba.core.errors import DabaError
from daba.core.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from daba.problem.problem import Problem


CAMERA_RECORD = 15
"""Numbers in one camera record: 9 of R, 3 of t, 3 of d."""
ARRAYS = ("cameras", "points", "camera_index", "point_index", "u", "weights", "focal")
EMPTY = np.zeros(0)
PIECE = 1 << 15
"""Points or observations checked at once, few enough for the cache."""
_CELLS = 1 << 18
"""Cells of the table that clears most points of lying on a camera's centre."""
LARGEST = 1e50
"""Numbers beyond this are no measurements, and their sixth powers are infinite."""
ORTHOGONALITY = 1e-6
"""How far R Rᵀ may be from the identity: text files round."""


def check_variables(cameras: Floats, points: Floats, focal: Floats) -> None:
    """Raise `DabaError` for the first camera or point that no solver could handle."""
    check_finite("camera", cameras)
    check_finite("point", points)
    check_positive("camera", "focal length", focal)
    check_rotations(cameras)


def check_finite(item: str, array: np.ndarray, start: int = 0) -> None:
    """Raise `DabaError` for the first row, numbered from `start`, with a number that is not finite,
    or so large that nothing could be computed with it."""
    ends = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    if ends[0] >= -LARGEST and ends[1] <= LARGEST:  # not so of NaN
        return
    rows = array.reshape(len(array), -1)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise DabaError(f"{item} {start + bad[0]}: NaN or infinite value ({array[bad[0]]})")
    bad = np.flatnonzero((np.abs(rows) > LARGEST).any(axis=1))
    if len(bad):
        raise DabaError(f"{item} {start + bad[0]}: a value beyond {LARGEST:g} ({array[bad[0]]})")


def check_positive(item: str, what: str, array: Floats, start: int = 0) -> None:
    """Raise `DabaError` for the first number that is not positive and finite."""
    if not len(array) or (array.min() > 0 and array.max() <= LARGEST):
        return
    check_finite(f"{what} of {item}", array, start)
    if not array.min() > 0:
        bad = int(np.flatnonzero(array <= 0)[0])
        raise DabaError(f"{item} {start + bad}: {what} must be positive, not {array[bad]}")


def check_rotations(cameras: Floats) -> None:
    """Raise `DabaError` for the first camera record whose R is not a rotation."""
    R = cameras[:, :9].reshape(-1, 3, 3)
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(np.einsum("cij,ckj->cik", R, R) - np.eye(3)).max(axis=(1, 2))
        bad = np.flatnonzero(~(off <= ORTHOGONALITY) | (np.linalg.det(R) < 0))
    if len(bad):
        raise DabaError(f"camera {bad[0]}: its rotation matrix is not a rotation")


def checked_indices(values: ArrayLike, what: str, count: int, start: int = 0) -> Ints:
    """The indices of some observations, numbered from `start`, into `count` things."""
    raw = np.asarray(values)
    if raw.ndim != 1 or not np.issubdtype(raw.dtype, np.integer):
        raise DabaError(f"{what} must be a one-dimensional array of integers")
    if len(raw) and (raw.min() < 0 or raw.max() >= count):
        bad = np.flatnonzero((raw < 0) | (raw >= count))
        raise DabaError(
            f"observation {start + bad[0]}: {what} {raw[bad[0]]} is out of range, there are {count}"
        )
    return np.ascontiguousarray(raw, dtype=np.int32)


def closest(centers: Floats) -> Floats:
    """How near a point may not come to each centre in all coordinates, where rounding would say in
    which direction it lies."""
    return np.asarray(1e-12 * (1 + np.abs(centers).max(axis=1)))


def beside_centers(points: Floats, centers: Floats) -> Bools | None:
    """Which points may lie on a camera's centre, by their first coordinate; None: none does. Most
    are cleared by a table of cells that has those of centres marked, the others by a search."""
    near, x = 1.01 * float(closest(centers).max()), np.sort(centers[:, 0])
    first, end = x[0] - near, x[-1] + near
    # Cells are so large that what is looked for lies in the two where it begins and ends.
    cells = max(int(min(_CELLS, (end - first) / (4 * near))), 1)
    scale = cells / (end - first)
    marked = np.zeros(cells + 3, bool)  # what lies outside is in the first or the last
    for reached in (x - near, x + near):
        marked[((reached - first) * scale).astype(np.int32) + 1] = True
    found = []
    for start in range(0, len(points), PIECE):
        at = points[start : start + PIECE, 0]
        cell = np.clip((at - first) * scale + 1, 0, cells + 2).astype(np.int32)
        rows = np.flatnonzero(marked.take(cell))
        after = np.searchsorted(x, at[rows] - near)
        rows = rows[x[np.minimum(after, len(x) - 1)] <= at[rows] + near]
        found.append(start + rows)
    if not (chosen := np.concatenate(found)).size:
        return None
    beside = np.zeros(len(points), bool)
    beside[chosen] = True
    return beside


def check_observations(
    cameras: Floats,
    points: Floats,
    camera: Ints,
    point: Ints,
    u: Floats,
    weights: Floats,
    beside: Bools | None,
    start: int = 0,
) -> None:
    """Raise `DabaError` for the first of some observations, numbered from `start`, that no solver
    could handle, where `beside` is what `beside_centers` found."""
    checked_indices(camera, "camera_index", len(cameras), start)
    checked_indices(point, "point_index", len(points), start)
    check_finite("observation", u, start)
    check_positive("observation", "weight", weights, start)
    if beside is None:
        return
    near = closest(cameras[:, 9:12])
    close = np.flatnonzero(beside[point])
    for x in range(3):  # one coordinate clears nearly all
        i, j = camera[close], point[close]
        close = close[np.abs(points[j, x] - cameras[i, 9 + x]) <= near[i]]
    if len(close):
        k = int(close[0])
        raise DabaError(
            f"observation {start + k}: point {point[k]} lies on the centre of "
            f"camera {camera[k]}, so its viewing direction is undefined"
        )


def check_problem(problem: Problem, observations: bool) -> None:
    """Raise `DabaError` for the first camera, point or, if they are looked at, observation of a
    whole problem that no solver could handle."""
    for what in ARRAYS:  # of rays only what was given
        value = vars(problem).get(what, EMPTY)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
            kind = getattr(value, "dtype", type(value).__name__)
            raise DabaError(f"{what} must be a NumPy array of numbers, not {kind}")
    C, P, K = problem.num_cameras, problem.num_points, problem.num_observations
    if C == 0 or P == 0 or K == 0:
        raise DabaError(f"empty problem: {C} cameras, {P} points, {K} observations")
    _check_shapes(problem, poses=(C, 12), points=(P, 3), camera_index=(K,), point_index=(K,))
    if problem.has_rays:
        _check_shapes(problem, cameras=(C, CAMERA_RECORD), u=(K, 2), weights=(K,), focal=(C,))
        check_variables(problem.cameras, problem.points, problem.focal)
        beside = beside_centers(problem.points, problem.cameras[:, 9:12]) if observations else None
        for start in range(0, K if observations else 0, PIECE):
            k = slice(start, start + PIECE)
            ends = problem.camera_index[k], problem.point_index[k]
            seen = problem.u[k], problem.weights[k]
            check_observations(problem.cameras, problem.points, *ends, *seen, beside, start)
    else:
        check_finite("camera", problem.poses)
        check_finite("point", problem.points)
        check_rotations(problem.poses)
        checked_indices(problem.camera_index, "camera_index", C)
        checked_indices(problem.point_index, "point_index", P)
    if problem.given_optics is not None:
        problem.given_optics.validated(C, K)


def _check_shapes(problem: Problem, **shapes: tuple[int, ...]) -> None:
    for what, shape in shapes.items():
        found = getattr(problem, what).shape
        if found != shape:
            raise DabaError(f"{what} must have shape {shape}, not {found}")
