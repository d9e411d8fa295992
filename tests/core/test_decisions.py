"""The method's decisions: against the rules spelled out, and the same in NumPy and Numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from daba.core import decisions

N = 400
RANDOM = np.random.default_rng(5)


def signed(low: float, high: float) -> np.ndarray:
    """Numbers of either sign and any size between two."""
    size = np.exp(RANDOM.uniform(np.log(low), np.log(high), N))
    return np.asarray(np.where(RANDOM.random(N) < 0.7, size, -size))


FLAG, OTHER = RANDOM.random((2, N)) < 0.7
ACTUAL, PREDICTED, START = signed(1e-20, 1e3), signed(1e-20, 1e3), abs(signed(1e-3, 1e3))
RADIUS, LIMIT = abs(signed(1e-3, 1e10)), abs(signed(1e3, 1e10))
SHRINK = 2.0 ** RANDOM.integers(1, 8, N)
F, F_NEW = signed(1e-2, 1e2), signed(1e-2, 1e2)
F_NEW = np.where(OTHER, F * RANDOM.uniform(0.9, 1.1, N), F_NEW)
S = 1.0 + abs(signed(1e-3, 1e3))

RULES: dict[str, tuple[Any, ...]] = {
    "accept": (FLAG, ACTUAL, PREDICTED, 1e-3),
    "stalled": (FLAG, OTHER, PREDICTED, START, 1e-16),
    "next_radius": (FLAG, ~FLAG & OTHER, RANDOM.uniform(-0.5, 3.0, N), RADIUS, SHRINK, LIMIT),
    "limit_by_objective": (F, F_NEW, RADIUS, LIMIT),
    "nesterov": (S,),
    "goes_back": (signed(1e-3, 1), signed(1e-3, 1), signed(1e-3, 1), abs(signed(0.1, 10.0))),
    "bound": (F, ACTUAL, F_NEW),
    "restart_level": (F, F_NEW, 0.3),
    "next_eta": (RANDOM.uniform(0.9, 1.0, N), 1.05),
    "model_stalls": (
        RANDOM.integers(1, 30, N) * 1.0,
        -START,
        -START * RANDOM.uniform(0.9, 1.02, N),
        0.1,
    ),
    "residual_remains": (abs(ACTUAL), START, 1e-2),
}


def spelled_out(name: str, a: tuple[Any, ...]) -> Any:
    """What a rule says, for one device."""
    if name == "accept":
        trying, actual, predicted, least = a
        if not trying or actual <= 0 or predicted <= 0:
            return False, 0.0
        return actual / predicted > least, actual / predicted
    if name == "stalled":
        trying, good, predicted, start, epsilon = a
        return trying and not good and 0 <= predicted <= epsilon * start
    if name == "next_radius":
        good, failed, gain, radius, shrink, limit = a
        if good:
            return min(radius / max(1 / 3, 1 - math.pow(2 * gain - 1, 3)), limit), 2.0
        return (radius / shrink, 2 * shrink) if failed else (radius, shrink)
    if name == "limit_by_objective":
        before, after, radius, limit = a
        limit = 7e3 if after - before > 0.02 * before else min(1.003 * limit, 1e10)
        return min(radius, limit), limit
    if name == "nesterov":
        after = 0.5 + math.hypot(0.5, a[0])  # the root of s⁺² − s⁺ = s²
        return (a[0] - 1) / after, after
    if name == "goes_back":
        turn, move, zoom, distance = a
        return turn / 2 + move / distance**2 > -zoom
    if name == "bound":
        return a[0] - a[2] + a[1]
    if name == "restart_level":
        return a[0] + a[2] * (a[1] - a[0])
    if name == "next_eta":
        return min(1.0, a[0] * a[1])
    if name == "model_stalls":
        k, Q, before, forcing = a
        return Q <= before and k * (Q - before) / Q < forcing
    if name == "residual_remains":
        return math.sqrt(a[0]) > a[2] * math.sqrt(a[1])
    raise AssertionError(name)


def columns(found: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def one_by_one(rule: Any, arguments: tuple[Any, ...]) -> list[np.ndarray]:
    """A rule for scalars, on arrays."""
    rows = zip(*(np.broadcast_to(a, N).tolist() for a in arguments), strict=True)
    found = [rule(*row) for row in rows]
    return columns(tuple(zip(*found, strict=True)) if isinstance(found[0], tuple) else found)


def test_every_rule_is_tested() -> None:
    rules = {name for name, value in vars(decisions).items() if callable(value)}
    assert rules - {"jit", "where", "minimum", "maximum", "sqrt", "cube"} == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_what_it_should(name: str) -> None:
    found = columns(getattr(decisions, name)(*RULES[name]))
    wanted = one_by_one(lambda *a: spelled_out(name, a), RULES[name])
    for here, there in zip(found, wanted, strict=True):
        if here.dtype == bool:
            np.testing.assert_array_equal(here, there)
            assert 0 < here.sum() < N  # both happen
        else:
            np.testing.assert_allclose(here, there, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", RULES)
def test_numba_decides_the_same(name: str) -> None:
    from daba.backends.cpu.kernels.binding import decisions as bound

    here = columns(getattr(decisions, name)(*RULES[name]))
    there = one_by_one(getattr(bound, name), RULES[name])
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)


def test_nothing_overflows_where_a_step_was_very_bad() -> None:
    """-inf is promised where there is no solution; warnings are errors here."""
    trying, predicted = np.ones(3, bool), np.array([-np.inf, 1e-300, 0.0])
    actual = np.array([-1e300, -1e300, -np.inf])
    good, gain = decisions.accept(trying, actual, predicted, 1e-3)
    radius, _ = decisions.next_radius(good, ~good, gain, np.ones(3), np.full(3, 2.0), np.ones(3))
    np.testing.assert_array_equal(radius, 0.5)
