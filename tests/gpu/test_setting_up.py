"""Setting up on a GPU: what the host would have set up is solved with the same bits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import ROOT

import daba
from daba.io.store.writing import write_store
from daba.partition.ordering import lay_out

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU here", allow_module_level=True)

from daba.backends.gpu import uploads  # noqa: E402

sys.path.insert(0, str(ROOT / "benchmarks"))
from scene import in_strips, landscape  # noqa: E402

PROBLEM = landscape(60, 3000, 15000)
PARTITIONS = {4: in_strips(PROBLEM, 4), 1: in_strips(PROBLEM, 1)}


def solve(problem: Any, **options: Any) -> daba.Result:
    given: dict[str, Any] = {"backend": "gpu", "iterations": 8, "function_tolerance": 0.0}
    return daba.solve(problem, **(given | options))


def assert_same(found: daba.Result, expected: daba.Result) -> None:
    one, other = ([entry.objective for entry in run.history] for run in (found, expected))
    assert one == other
    assert one[-1] < 0.9 * one[0]


@pytest.mark.parametrize("linear_solver", ["auto", "pcg"])
@pytest.mark.parametrize("error", ["ray", "pixel"])
@pytest.mark.parametrize("devices", PARTITIONS)
def test_lm_set_up_on_the_host(
    devices: int, error: str, linear_solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {
        "method": "lm", "error": error, "partition": PARTITIONS[devices], "points_in_front": False,
        "linear_solver": linear_solver,
    }  # fmt: skip
    here = solve(PROBLEM, **options)
    monkeypatch.setattr("daba.backends.gpu.setting_up.fits", lambda *given: False)
    there = solve(PROBLEM, **options)
    assert_same(here, there)
    assert here.problem.points.tobytes() == there.problem.points.tobytes()


@pytest.mark.parametrize("piece", [1 << 24, 1 << 12])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "daba", "error": "ray", "precision": "float64"},
        {"method": "lm", "error": "ray"},
        {"method": "lm", "error": "pixel"},
    ],
)
def test_a_store(
    options: dict[str, Any], piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose arrays are sent while others are read."""
    monkeypatch.setattr(uploads, "PIECE", piece)
    options["points_in_front"] = False
    write_store(lay_out(PROBLEM, PARTITIONS[4]), tmp_path / "store.daba")
    found = solve(daba.Store(tmp_path / "store.daba"), **options)
    assert_same(found, solve(PROBLEM, partition=PARTITIONS[4], **options))


def test_arrays_arrive_on_another_stream() -> None:
    """While kernels run that use what came before."""
    random, here = np.random.default_rng(0), uploads.Uploads(torch.device("cuda"))
    given = [random.normal(size=int(n)) for n in random.integers(1, 5_000_000, 12)]
    sums = []
    for array in given:
        there = here.start(array).arrived()
        sums.append(there.double().sum())
        del there
    for found, array in zip(sums, given, strict=True):
        assert float(found) == pytest.approx(array.sum(), rel=1e-9, abs=1e-6)
