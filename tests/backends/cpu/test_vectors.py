"""Vectors against NumPy: every operation that formulas use, lane by lane."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest

from daba.backends.cpu.kernels import rows, vectors

v: Any = vectors
r: Any = rows
LANES, where = v.LANES, v.where
three, five = r.read_rows(3), r.read_rows(5)


@numba.njit
def compute(x: Any, y: Any, out: Any) -> Any:
    a = r.read(x, 0)
    b = r.read(y, 0)
    c = 2.0 * a - b / 3.0 + 1
    c += -(a * b)
    larger = where(a > b, a, b)
    both = where((a > 0.0) & (b >= 0.0), 1.0, 0.0)
    never = where(where(a < b, a <= b, a == b), a, v.spread(7.0))
    r.write_numbered(
        out, np.arange(LANES),
        (c, larger, both, never, math.sqrt(a * a), math.atan2(a, b), math.tan(a), math.sin(a),
         math.exp(a), math.expm1(a), math.log1p(a * a), math.atan2(a, 1.0)),
    )  # fmt: skip
    return v.any_lane(a > 5.0), v.any_lane(a > -100.0)


def test_operations() -> None:
    x, y = np.random.default_rng(3).standard_normal((2, LANES))
    x[2], y[5] = 0.0, 0.0
    out = np.zeros((LANES, 14))
    assert compute(x, y, out) == (False, True)
    expected = [
        2.0 * x - y / 3.0 + 1 - x * y, np.maximum(x, y), (x > 0) & (y >= 0),
        np.where(x <= y, x, 7.0), np.abs(x), np.arctan2(x, y), np.tan(x), np.sin(x), np.exp(x),
        np.expm1(x), np.log1p(x * x), np.arctan2(x, 1.0),
    ]  # fmt: skip
    np.testing.assert_allclose(out[:, :12], np.stack(expected, axis=1), rtol=1e-15, atol=1e-15)
    assert not out[:, 12:].any()


@numba.njit
def move(matrix: Any, chosen: Any, to: Any, factor: Any, out: Any) -> None:
    """Three and five numbers of some rows, scaled where a factor is positive, into others."""
    f = r.read(factor, 0)
    values = r.scaled(three(matrix, chosen, 0) + five(matrix, chosen, LANES), f, f > 0.0)
    r.write_numbered(out, to, values)


def test_rows_go_where_they_should() -> None:
    rng = np.random.default_rng(4)
    matrix = rng.standard_normal((20, 5))
    chosen = rng.integers(0, 20, 2 * LANES)
    factor = np.array([1.0, 2.0, 0.0, 3.0, -1.0, 1.0, 1.0, 4.0])
    matrix[chosen[2]] = np.nan  # what does not count may be anything
    to = np.array([7, 3, 0, -1, 9, 2, -1, 5])
    out = np.full((10, 9), 6.0)
    move(matrix, chosen, to, factor, out)
    expected = np.full((10, 9), 6.0)
    both = np.hstack([matrix[chosen[:LANES], :3], matrix[chosen[LANES:]]])
    for lane in np.flatnonzero(to >= 0):
        expected[to[lane], :8] = factor[lane] * both[lane] if factor[lane] > 0 else 0.0
    np.testing.assert_array_equal(out, expected)


def test_plain_numbers_choose_as_well() -> None:
    choose = numba.njit(lambda x: where(x > 0.0, x, 1))
    assert choose(2.0) == 2.0
    assert choose(-2.0) == 1.0


def test_what_is_no_vector_is_refused() -> None:
    with pytest.raises(numba.TypingError):
        numba.njit(lambda x: v.any_lane(x))(1.0)


@numba.njit
def parts_of_rows(matrix: Any, out: Any) -> Any:
    """Twice each row, a part at a time, and the sum of all."""
    sums = v.spread(0.0)
    width = matrix.shape[1]
    for i in range(len(matrix)):
        for a in range(0, width, LANES):
            part = r.get(matrix, i, a, width - a)
            sums += part
            r.put(out, i, a, width - a, 2.0 * part)
    return r.total(sums)


@pytest.mark.parametrize("width", [1, 7, 8, 11, 16])
def test_parts_of_rows_end_where_rows_do(width: int) -> None:
    matrix = np.random.default_rng(width).integers(-9, 9, (5, width)).astype(float)
    out = np.full((6, width), np.nan)
    assert parts_of_rows(matrix, out[:5]) == matrix.sum()
    np.testing.assert_array_equal(out[:5], 2.0 * matrix)
    assert np.isnan(out[5]).all()
