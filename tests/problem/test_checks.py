"""Points on the centres of cameras: the table that clears most points at once loses none."""

from __future__ import annotations

import numpy as np
import pytest

from daba.core.errors import DabaError
from daba.problem.checks import PIECE, beside_centers, check_observations, closest


@pytest.mark.parametrize("spread", [1e-14, 1.0, 1e9])
@pytest.mark.parametrize("offset", [0.0, 5e6, -1e40])
@pytest.mark.parametrize("cameras", [1, 2, 500])
def test_every_point_on_a_centre_is_found(cameras: int, offset: float, spread: float) -> None:
    rng = np.random.default_rng(cameras)
    centers = offset + spread * rng.standard_normal((cameras, 3))
    points = offset + spread * rng.standard_normal((PIECE + 100, 3))
    rows = rng.choice(len(points), 60, replace=False)
    at = rng.integers(0, cameras, 60)
    near = closest(centers)
    points[rows] = centers[at] + rng.uniform(-1, 1, (60, 3)) * near[at, None]
    points[rows[::2], 0] = (centers[:, 0] + near)[at[::2]]  # at the very edge
    points[rows[::3]] = centers[at[::3]]
    expected = np.zeros(len(points), bool)
    for center, width in zip(centers[:, 0], near, strict=True):
        expected |= np.abs(points[:, 0] - center) <= width
    found = beside_centers(points, centers)
    assert found is not None
    assert expected.any()
    assert not (expected & ~found).any()


def test_what_lies_on_no_centre_is_cleared() -> None:
    rng = np.random.default_rng(0)
    points, centers = rng.standard_normal((5000, 3)), rng.standard_normal((300, 3))
    assert beside_centers(points, centers) is None
    points[4000, 0] = centers[7, 0]
    found = beside_centers(points, centers)
    assert found is not None
    assert found.nonzero()[0].tolist() == [4000]
    records = np.eye(3).reshape(-1).tolist()
    cameras = np.hstack([np.tile(records, (300, 1)), centers, np.tile([1.0, 0, 0], (300, 1))])
    seen = np.full(2, 7, np.int32), np.array([3, 4000], np.int32), np.zeros((2, 2)), np.ones(2)
    check_observations(cameras, points, *seen, found)
    points[4000] = centers[7]
    with pytest.raises(DabaError, match="observation 11: point 4000 lies on the centre of camera"):
        check_observations(cameras, points, *seen, found, start=10)
