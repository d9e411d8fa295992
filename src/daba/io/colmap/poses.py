"""Poses: COLMAP's quaternions and translations, world to camera, and our rotations and centres."""

from __future__ import annotations

import numpy as np

from daba.problem.problem import Floats


def matrices(q: Floats) -> Floats:
    """Rotation matrices (n,3,3) of quaternions (n,4), w first, of any length but zero."""
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def quaternions(R: Floats) -> Floats:
    """Unit quaternions (n,4), w first, of rotation matrices; w ≥ 0."""
    # four times the squares of w, x, y, z; from the largest of them the others lose no digits
    diagonal = np.einsum("nii->ni", R)
    trace = diagonal.sum(axis=1)
    squares = 1 + np.column_stack([trace, 2 * diagonal - trace[:, None]])
    a, b, c = R[:, 2, 1], R[:, 0, 2], R[:, 1, 0]
    d, e, f = R[:, 1, 2], R[:, 2, 0], R[:, 0, 1]
    s0, s1, s2, s3 = squares.T
    products = np.array(
        [
            [s0, a - d, b - e, c - f],
            [a - d, s1, f + c, e + b],
            [b - e, f + c, s2, a + d],
            [c - f, e + b, a + d, s3],
        ]
    )
    best = squares.argmax(axis=1)
    q = products[best, :, np.arange(len(R))]
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    return np.where(q[:, :1] < 0, -q, q)


def from_colmap(poses: Floats) -> tuple[Floats, Floats]:
    """Camera to world, (n,3,3), and centres (n,3), of poses (n,7)."""
    R = matrices(poses[:, :4])
    return R.transpose(0, 2, 1), -np.einsum("nji,nj->ni", R, poses[:, 4:])


def to_colmap(rotations: Floats, centers: Floats, near: Floats) -> Floats:
    """Poses (n,7); of q and −q, which are the same, the one nearer to that of the poses `near`."""
    R = rotations.transpose(0, 2, 1)
    q = quaternions(R)
    q *= np.where(np.einsum("ni,ni->n", q, near[:, :4]) < 0, -1.0, 1.0)[:, None]
    return np.hstack([q, -np.einsum("nij,nj->ni", R, centers)])


def compose(first: Floats, then: Floats) -> Floats:
    """The poses (n,7) that do `first` and after it `then`."""
    A, B = matrices(first[:, :4]), matrices(then[:, :4])
    t = np.einsum("nij,nj->ni", B, first[:, 4:]) + then[:, 4:]
    return np.hstack([quaternions(B @ A), t])


def inverted(poses: Floats) -> Floats:
    R = matrices(poses[:, :4]).transpose(0, 2, 1)
    return np.hstack([quaternions(R), -np.einsum("nij,nj->ni", R, poses[:, 4:])])
