"""Robust losses satisfy what the method assumes of them (the paper's assumption on ρ)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import daba
from daba.core.errors import DabaError
from daba.core.losses import LOSSES, make_loss
from helpers import ALL_LOSSES, textbook_rho

names = st.sampled_from(ALL_LOSSES)
radii = st.floats(1e-3, 1e4)
squares = st.floats(0.0, 1e12)
STEEPEST = {
    "trivial": 0.0,
    "huber": 0.5,
    "welsch": 1.0,
    "cauchy": 1.0,
    "geman-mcclure": 2.0,
    "soft-l1": 0.5,
}
"""Largest |ρ''| for radius 1; it scales with 1/a²."""


def test_every_loss_of_the_method_is_there() -> None:
    assert set(LOSSES) == set(STEEPEST)


@pytest.mark.parametrize("name", ALL_LOSSES)
def test_zero_error_costs_nothing_and_has_slope_one(name: str) -> None:
    value, slope = make_loss(name, 3.0)(0.0)
    assert value == 0.0
    assert slope == 1.0


@given(names, radii, squares)
def test_value_and_slope_are_the_textbook_ones(name: str, radius: float, s: float) -> None:
    loss = make_loss(name, radius)
    value, slope = loss(s)
    expected, expected_slope = textbook_rho(loss, np.array(s))
    np.testing.assert_allclose(float(value), float(expected), rtol=3e-12, atol=1e-300)
    np.testing.assert_allclose(float(slope), float(expected_slope), rtol=3e-12, atol=1e-300)


@given(names, radii, st.floats(1e-3, 1e3))
def test_slope_is_the_derivative(name: str, radius: float, x: float) -> None:
    loss = make_loss(name, radius)
    s = x * radius**2
    h = 1e-5 * s
    difference = (loss(s + h)[0] - loss(s - h)[0]) / (2 * h)
    near_kink = name == "huber" and abs(x - 1) < 1e-4
    assert abs(difference - loss(s)[1]) < (1e-5 if near_kink else 1e-8)


@given(names, radii, squares, squares)
def test_nondecreasing_concave_and_slope_between_0_and_1(
    name: str, radius: float, s: float, r: float
) -> None:
    loss = make_loss(name, radius)
    (low, high), (steep, flat) = loss(np.sort([s, r]))
    assert low >= 0
    assert high >= low * (1 - 1e-15)
    assert 1 >= steep >= flat >= 0
    # concave: below its tangents, which is all that Prop. 1 uses
    value, slope = loss(s)
    assert loss(r)[0] <= value + slope * (r - s) + 1e-11 * max(r, s, float(value))


@given(names, radii, st.floats(0.0, 20.0), st.floats(0.0, 20.0))
def test_slope_is_lipschitz(name: str, radius: float, x: float, y: float) -> None:
    loss = make_loss(name, radius)
    change = abs(loss(x * radius**2)[1] - loss(y * radius**2)[1])
    assert change <= STEEPEST[name] * abs(x - y) * (1 + 1e-9) + 1e-14


@pytest.mark.parametrize("name", ALL_LOSSES)
@pytest.mark.parametrize("s", [0.0, 5e-324, 1e-300, 1e-30, 1e150, 1e300])
@pytest.mark.parametrize("radius", [1e-2, 1.0, 32.0, 1e4])
def test_extreme_errors_stay_finite_without_warnings(name: str, s: float, radius: float) -> None:
    with np.errstate(all="raise", under="ignore"):
        value, slope = make_loss(name, radius)(np.array([s, 1.0]))
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
    assert 0 <= value[0] <= s * (1 + 1e-15)


@pytest.mark.parametrize("name", sorted(set(ALL_LOSSES) - {"trivial"}))
def test_small_errors_keep_their_digits(name: str) -> None:
    s = np.geomspace(1e-20, 1e-2, 100)
    value, _ = make_loss(name, 1.0)(s)
    np.testing.assert_allclose(
        value, textbook_rho(make_loss(name, 1.0), s)[0].astype(float), rtol=2e-12
    )


def test_huber_with_a_huge_radius_is_trivial() -> None:
    s = np.geomspace(1e-6, 1e6, 20)
    np.testing.assert_array_equal(daba.Huber(1e6)(s)[0], s)


def test_unknown_names_are_refused_with_the_choice() -> None:
    with pytest.raises(DabaError, match=r"unknown loss 'tukey'.*huber"):
        make_loss("tukey")


@pytest.mark.parametrize("radius", [0.0, -1.0, np.nan, np.inf])
def test_a_radius_must_be_a_positive_number(radius: float) -> None:
    with pytest.raises(DabaError, match="radius of loss 'huber'"):
        make_loss("huber", radius)
