"""The two camera models: there, back, and the pixel error between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daba.problem import intrinsics
from daba.problem.intrinsics import forward_model, rays_from_forward
from daba.problem.pixel_errors import pixel_error, pixel_errors
from daba.problem.problem import Floats, Problem


def one_camera(directions: Floats, d: Floats, focal: float = 600.0, noise: float = 0.0) -> Problem:
    """A camera at the origin that sees points in the directions (p, 1) by the ray model d."""
    p = np.asarray(directions, float)
    ρ = np.linalg.norm(p, axis=1)
    low, high = np.zeros_like(ρ), np.full_like(ρ, 3.0)
    for _ in range(100):  # a = ρ z(a²), by bisection
        a = 0.5 * (low + high)
        more = a < ρ * (d[0] + d[1] * a**2 + d[2] * a**4)
        low, high = np.where(more, a, low), np.where(more, high, a)
    u = p * (low / np.where(ρ > 0, ρ, 1))[:, None]
    u += np.random.default_rng(0).normal(0, noise / focal, u.shape)
    n = len(p)
    return Problem.from_arrays(
        np.eye(3)[None],
        np.zeros((1, 3)),
        np.column_stack([p, np.ones(n)]) * np.linspace(2, 9, n)[:, None],
        np.zeros(n, int),
        np.arange(n),
        u * focal,
        focal,
        [d],
    )


def spread(n: int = 300, radius: float = 0.7) -> Floats:
    rng = np.random.default_rng(1)
    angle, ρ = rng.uniform(0, 2 * np.pi, n), radius * np.sqrt(rng.uniform(0, 1, n))
    return np.column_stack([ρ * np.cos(angle), ρ * np.sin(angle)])


def forward(p: Floats, f: float, k1: float, k2: float) -> Floats:
    ρ2 = (p**2).sum(axis=1)[:, None]
    return np.asarray(f * (1 + k1 * ρ2 + k2 * ρ2**2) * p)


def test_pinhole_is_exact_both_ways() -> None:
    u = spread()
    cam = np.zeros(len(u), np.int32)
    d, fit = rays_from_forward(cam, u, np.array([500.0]), np.zeros((1, 2)))
    np.testing.assert_allclose(d, [[1, 0, 0]], rtol=0, atol=1e-12)
    assert fit == {"rms_px": pytest.approx(0, abs=1e-12), "max_px": pytest.approx(0, abs=1e-12),
                   "outside": 0}  # fmt: skip
    model = forward_model(one_camera(u, np.array([1.25, 0, 0])))
    np.testing.assert_allclose(model, [[750, 0, 0]], rtol=1e-12, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.floats(-0.25, 0.4), st.floats(-0.1, 0.1))
def test_standard_reading_finds_the_directions(k1: float, k2: float) -> None:
    """A pixel, turned into a ray by the fitted d, points where it came from."""
    p = spread(radius=0.6)
    u = forward(p, 1.0, k1, k2)
    cam = np.zeros(len(u), np.int32)
    d, fit = rays_from_forward(cam, u, np.array([800.0]), np.array([[k1, k2]]))
    s = (u**2).sum(axis=1)
    found = u / (d[0, 0] + d[0, 1] * s + d[0, 2] * s**2)[:, None]
    px = 800 * np.linalg.norm(forward(found, 1.0, k1, k2) - u, axis=1)
    assert fit["outside"] == 0
    assert fit["max_px"] == pytest.approx(px.max(), rel=1e-6, abs=1e-9)
    assert fit["rms_px"] == pytest.approx(np.sqrt((px**2).mean()), rel=1e-6, abs=1e-9)
    assert px.max() < 2.0


coefficient = st.floats(-3, 3).map(lambda k: round(k, 4))


@settings(max_examples=200, deadline=None)
@given(coefficient, coefficient, st.floats(0, 20))
def test_inversion(k1: float, k2: float, a: float) -> None:
    """g(ρ) = a on the first growing branch, or the end of the branch where it never gets there."""
    r, beyond = intrinsics._invert(np.array([a * a]), np.array([k1]), np.array([k2]))
    roots = np.roots([5 * k2, 3 * k1, 1]) if k2 else np.roots([3 * k1, 1])
    ends = [np.sqrt(x.real) for x in roots if abs(x.imag) < 1e-9 * abs(x) and x.real > 0]
    end = min(ends, default=np.inf)
    top = end + k1 * end**3 + k2 * end**5 if np.isfinite(end) else np.inf
    if a < top * (1 - 1e-6):
        assert not beyond[0]
        ρ = a / r[0]
        assert ρ <= end * (1 + 1e-6)
        assert ρ * (1 + k1 * ρ**2 + k2 * ρ**4) == pytest.approx(a, rel=1e-9, abs=1e-12)
    elif a > top * (1 + 1e-6):
        assert beyond[0]
        assert r[0] == pytest.approx(1 + k1 * end**2 + k2 * end**4, rel=1e-6, abs=1e-9)


def test_pixels_that_no_direction_projects_to_are_counted() -> None:
    u = np.array([[0.1, 0], [0.2, 0.1], [0.0, 0.3], [5.0, 0]])
    d, fit = rays_from_forward(np.zeros(4, np.int32), u, np.array([500.0]), np.array([[-0.3, 0]]))
    assert fit["outside"] == 1
    assert np.isfinite(d).all()


@settings(max_examples=60, deadline=None)
@given(st.floats(0.8, 1.2), st.floats(-0.2, 0.3), st.floats(-0.1, 0.1))
def test_forward_and_back_give_the_same_rays(d1: float, d2: float, d3: float) -> None:
    problem = one_camera(spread(radius=0.6), np.array([d1, d2, d3]))
    f, k1, k2 = forward_model(problem)[0]
    c = f / problem.focal[0]
    back, _ = rays_from_forward(
        problem.camera_index, problem.u / c, np.array([f]), np.array([[k1, k2]])
    )
    s = (problem.u**2).sum(axis=1)[:, None] ** [0, 1, 2]
    np.testing.assert_allclose(
        s @ (back[0] * c ** np.array([1, -1, -3])), s @ problem.intrinsics[0], atol=1e-6
    )
    assert pixel_errors(problem).max() < 2.0  # what the forward model cannot say


def test_the_fit_costs_no_pixels() -> None:
    """Compared with the best (f, k1, k2) for the observed pixels, a linear least squares."""
    problem = one_camera(spread(), np.array([1.02, -0.1, 0.03]), noise=1.0)
    x = problem.points
    p = x[:, :2] / x[:, 2:]
    ρ2 = (p**2).sum(axis=1)
    A = np.concatenate([np.stack([q, q * ρ2, q * ρ2**2], axis=1) for q in p.T])
    b = problem.pixels.T.ravel()
    best = A @ np.linalg.lstsq(A, b)[0] - b
    best_half = 0.5 * float(best @ best) / len(p)
    assert pixel_error(problem).half_mean_square == pytest.approx(best_half, rel=0.01)


def test_outliers_do_not_matter() -> None:
    problem = one_camera(spread(), np.array([1.02, -0.1, 0.03]))
    points = problem.points.copy()
    points[:20] = [[7.0, -3, 0.01]]
    points[20:40] *= -1
    moved = replace(problem, points=points)
    np.testing.assert_array_equal(forward_model(moved), forward_model(problem))


@pytest.mark.parametrize(
    "directions",
    [
        np.array([[0.3, 0.2]]),
        np.array([[0.0, 0.0]]),
        np.array([[0.3, 0.2], [0.1, 0.0]]),
        0.4 * np.array([[np.cos(a), np.sin(a)] for a in np.linspace(0, 6, 50)]),
        1e-4 * spread(50),
    ],
    ids=["one", "centre", "two", "ring", "near the centre"],
)
def test_too_little_to_fit(directions: Floats) -> None:
    """The fit is exact where there are observations and tame elsewhere."""
    problem = one_camera(directions, np.array([1.05, -0.1, 0.02]))
    f, k1, k2 = forward_model(problem)[0]
    assert f == pytest.approx(630, rel=0.05)
    assert abs(k1) < 1
    assert abs(k2) < 5
    assert pixel_errors(problem).max() < 1e-3
    d, fit = rays_from_forward(
        problem.camera_index, problem.u, np.array([600.0]), np.array([[-0.1, 0.02]])
    )
    assert fit["max_px"] < 1e-3
    np.testing.assert_allclose(d, [[1, -0.1, 0]], atol=0.1)


def test_a_camera_without_observations_keeps_its_series() -> None:
    problem = one_camera(spread(), np.array([1.0, -0.1, 0.0]))
    cameras = np.vstack([problem.cameras, problem.cameras])
    two = replace(problem, cameras=cameras, focal=np.array([600.0, 700.0]))
    model = forward_model(two)
    np.testing.assert_array_equal(model[0], forward_model(problem)[0])
    np.testing.assert_allclose(model[1], [700, -0.1, 0.02], atol=1e-9)


@pytest.mark.parametrize(
    "d", [[-1.0, 0, 0], [0.0, 0, 0], [1.0, -9, 0], [1.0, 1e6, 1e9], [-1, 20, 0]]
)
def test_absurd_rays_still_give_a_camera(d: list[float]) -> None:
    problem = one_camera(spread(), np.array([1.0, 0, 0]))
    cameras = problem.cameras.copy()
    cameras[:, 12:] = d
    model = forward_model(replace(problem, cameras=cameras))
    assert np.isfinite(model).all()
    assert (model[:, 0] > 0).all()


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = one_camera(spread(), np.array([1.02, -0.1, 0.03]), noise=1.0)
    before, errors = forward_model(problem), pixel_errors(problem)
    monkeypatch.setattr(intrinsics, "_CHUNK", 7)
    np.testing.assert_allclose(forward_model(problem), before, rtol=1e-9)
    np.testing.assert_allclose(pixel_errors(problem), errors, rtol=1e-6)


def test_pixel_error_in_numbers() -> None:
    problem = one_camera(np.array([[0.1, 0.2], [0.3, 0.0], [0.0, 0.4]]), np.array([1.0, 0, 0]))
    model = np.array([[600.0, 0, 0]])
    points = problem.points.copy()
    points[0] += points[0, 2] * np.array([3, 4, 0]) / 600  # 5 pixels
    points[2] *= -1
    error = pixel_error(replace(problem, points=points), model)
    assert error.rms == pytest.approx(np.sqrt(25 / 3))
    assert error.mean == pytest.approx(5 / 3)
    assert error.median == pytest.approx(0, abs=1e-9)
    assert error.half_mean_square == pytest.approx(25 / 6)
    assert error.behind == 1
    points[1] = [1, 0, 0]  # beside the camera: seen nowhere
    assert pixel_error(replace(problem, points=points), model).rms == np.inf
