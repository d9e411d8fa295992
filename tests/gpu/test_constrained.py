"""Algorithm 1, ADMM and DR under constraints on a machine with a GPU, against the CPU."""

from __future__ import annotations

import sys
from typing import Any

import constrained
import numpy as np
import pytest
from places import ROOT

import daba

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU here", allow_module_level=True)

sys.path.insert(0, str(ROOT / "benchmarks"))
from scene import landscape  # noqa: E402

PROBLEM = landscape(24, 800, 4000)
PARTITION = constrained.in_halves(PROBLEM)
CLOSE: dict[str, Any] = {
    "linear_solver": "pcg", "pcg_residual": 1e-13, "pcg_forcing": 0.0, "pcg_iterations": 2000,
}  # fmt: skip
"""Systems solved to the end."""


def solve(problem: daba.Problem, **options: Any) -> daba.Result:
    given: dict[str, Any] = {
        "method": "daba", "refine": "sweep", "iterations": 12, "backend": "gpu", "error": "ray",
        "precision": "float64", "function_tolerance": 0.0,
    }  # fmt: skip
    return daba.solve(problem, partition=PARTITION, **(given | options))


def values(result: daba.Result) -> np.ndarray:
    return np.array([entry.objective for entry in result.history])


@pytest.mark.parametrize("method", ["daba", "duba"])
@pytest.mark.parametrize("kind", constrained.KINDS)
def test_the_cpu_finds_the_same(kind: str, method: str) -> None:
    """With a direct solution where that can be: F to 1e-8, in every iteration."""
    pytest.importorskip("numba")
    problem = constrained.KINDS[kind](PROBLEM)
    refine = "sweep" if method == "daba" else "none"
    here = solve(problem, method=method, refine=refine, **CLOSE)
    there = solve(problem, method=method, refine=refine, backend="cpu", linear_solver="direct")
    np.testing.assert_allclose(values(here), values(there), rtol=1e-8)
    assert values(here)[-1] < 0.9 * values(here)[0]


@pytest.mark.parametrize("kind", constrained.KINDS)
def test_the_guarantees_hold_and_F_is_what_it_says(kind: str) -> None:
    """Also in less precision, and what is fixed stays to the bit."""
    problem = constrained.KINDS[kind](PROBLEM)
    for precision in ("float64", "mixed"):
        result = solve(problem, refine="none", precision=precision, check=True, iterations=25)
        found = result.problem
        F = found.objective(daba.Trivial())  # by plain NumPy
        assert values(result)[-1] == pytest.approx(F, rel=1e-11 if precision == "float64" else 1e-5)
        if problem.free_points is not None:
            held = ~problem.free_points
            assert found.points[held].tobytes() == problem.points[held].tobytes()
        if problem.shared is not None:
            for group in np.unique(problem.shared):
                d = found.cameras[problem.shared == group, 12:]
                assert (d == d[0]).all()


@pytest.mark.parametrize("method", ["admm", "dr"])
def test_consensus_with_intrinsics_held(method: str) -> None:
    pytest.importorskip("numba")
    problem = constrained.held(PROBLEM)
    here, there = (solve(problem, method=method, backend=b, **CLOSE) for b in ("gpu", "cpu"))
    np.testing.assert_allclose(values(here), values(there), rtol=1e-8)
    assert values(here)[-1] < 0.9 * values(here)[0]
