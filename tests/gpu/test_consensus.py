"""ADMM and Douglas–Rachford on a machine with a GPU, against the CPU and plain NumPy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import ROOT

import daba

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU here", allow_module_level=True)

sys.path.insert(0, str(ROOT / "benchmarks"))
from scene import in_strips, landscape  # noqa: E402

PROBLEM = landscape(60, 3000, 15000)
PARTITION = in_strips(PROBLEM, 4)
METHODS = ["admm", "dr"]


def solve(method: str, **options: Any) -> daba.Result:
    given: dict[str, Any] = {
        "method": method, "iterations": 15, "backend": "gpu", "precision": "float64",
        "function_tolerance": 0.0,
    }  # fmt: skip
    return daba.solve(PROBLEM, partition=PARTITION, **(given | options))


def values(result: daba.Result) -> np.ndarray:
    return np.array([entry.objective for entry in result.history])


@pytest.mark.parametrize("loss", ["trivial", "huber"])
@pytest.mark.parametrize("method", METHODS)
def test_the_cpu_finds_the_same(method: str, loss: str) -> None:
    """With systems that are solved to the end."""
    pytest.importorskip("numba")
    chosen = daba.make_loss(loss, 4.0)
    close: dict[str, Any] = {
        "linear_solver": "pcg", "pcg_residual": 1e-12, "pcg_forcing": 0.0, "loss": chosen,
    }  # fmt: skip
    here, there = solve(method, **close), solve(method, backend="cpu", **close)
    np.testing.assert_allclose(values(here), values(there), rtol=1e-8)
    F = here.problem.objective(chosen)
    assert values(here)[-1] == pytest.approx(F, rel=1e-11)
    assert F < 0.9 * values(here)[0]


@pytest.mark.parametrize("method", METHODS)
def test_less_precision_is_as_good(method: str) -> None:
    exact = values(solve(method))[-1]
    for precision in ("auto", "mixed"):
        assert values(solve(method, precision=precision))[-1] == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_bits_again(method: str) -> None:
    first, second = solve(method, precision="mixed"), solve(method, precision="mixed")
    assert values(first).tobytes() == values(second).tobytes()
    assert first.problem.points.tobytes() == second.problem.points.tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_goes_on(method: str, tmp_path: Path) -> None:
    whole = solve(method)
    solve(method, iterations=12, checkpoints=daba.Checkpoints(tmp_path / "saved"))
    rest = solve(method, checkpoints=daba.Checkpoints(resume=tmp_path / "saved"))
    np.testing.assert_allclose(values(rest), values(whole), rtol=1e-9)
