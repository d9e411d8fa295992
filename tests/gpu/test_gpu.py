"""On a machine with a GPU: `python -m pytest tests/gpu`, with NumPy, torch, Triton and pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import HELPERS, ROOT

import daba

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU here", allow_module_level=True)

sys.path.insert(0, str(ROOT / "benchmarks"))
from scene import in_strips, landscape  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
PROBLEM = landscape(60, 3000, 15000)
PARTITION = in_strips(PROBLEM, 4)


def solve(**options: Any) -> daba.Result:
    given: dict[str, Any] = {
        "method": "daba",
        "iterations": 30,
        "backend": "gpu",
        "precision": "float64",
        "function_tolerance": 0.0,
    }
    return daba.solve(PROBLEM, partition=PARTITION, **(given | options))


def values(result: daba.Result) -> np.ndarray:
    return np.array([entry.objective for entry in result.history])


@pytest.mark.parametrize("refine", ["none", "points", "sweep"])
@pytest.mark.parametrize("loss", ["trivial", "huber", "welsch", "cauchy"])
def test_the_guarantees_hold_and_F_is_what_it_says(refine: str, loss: str) -> None:
    chosen = daba.make_loss(loss, 4.0)
    result = solve(refine=refine, loss=chosen, check=True)
    F = result.problem.objective(chosen)  # by plain NumPy
    assert result.history[-1].objective == pytest.approx(F, rel=1e-11)
    assert F < 0.9 * result.history[0].objective


def test_the_cpu_finds_the_same() -> None:
    pytest.importorskip("numba")
    for refine in ("none", "sweep"):
        here = solve(refine=refine)
        there = solve(refine=refine, backend="cpu", linear_solver="direct")
        np.testing.assert_allclose(values(here), values(there), rtol=1e-6)


def test_less_precision_is_as_good() -> None:
    exact = values(solve())[-1]
    assert values(solve(precision="mixed"))[-1] == pytest.approx(exact, rel=1e-3)
    assert values(solve(precision="float32"))[-1] == pytest.approx(exact, rel=1e-3)


def test_the_same_bits_again() -> None:
    first, second = solve(precision="mixed"), solve(precision="mixed")
    assert values(first).tobytes() == values(second).tobytes()
    assert first.problem.points.tobytes() == second.problem.points.tobytes()


def test_a_checkpoint_goes_on(tmp_path: Path) -> None:
    whole = solve()
    solve(iterations=12, checkpoints=daba.Checkpoints(tmp_path / "saved"))
    rest = solve(checkpoints=daba.Checkpoints(resume=tmp_path / "saved"))
    np.testing.assert_allclose(values(rest)[-1], values(whole)[-1], rtol=1e-9)


@pytest.mark.parametrize("backends", [("cpu", "gpu"), ("gpu", "cpu")])
def test_a_checkpoint_goes_on_elsewhere(backends: tuple[str, str], tmp_path: Path) -> None:
    pytest.importorskip("numba")
    first, second = backends
    whole = solve(backend="cpu")
    solve(iterations=12, backend=first, checkpoints=daba.Checkpoints(tmp_path / "saved"))
    rest = solve(backend=second, checkpoints=daba.Checkpoints(resume=tmp_path / "saved"))
    np.testing.assert_allclose(values(rest)[-18:], values(whole)[-18:], rtol=1e-6)


def test_one_device() -> None:
    result = daba.solve(PROBLEM, method="lm", backend="gpu")
    assert result.converged
    assert result.history[-1].mean_objective < 0.3


def test_arrays_that_live_on_the_gpu() -> None:
    on_gpu: Any = PROBLEM.with_estimate(
        *(torch.from_numpy(x).cuda() for x in (PROBLEM.cameras, PROBLEM.points))
    )
    result = daba.solve(
        on_gpu, partition=PARTITION, method="daba", backend="gpu", precision="float64",
        iterations=5,
    )  # fmt: skip
    found: Any = result.problem.points
    assert found.is_cuda
    same = solve(iterations=5)
    assert found.cpu().numpy().tobytes() == same.problem.points.tobytes()


def test_too_little_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1_000_000, 1_000_000))
    with pytest.raises(daba.DabaError, match="too little GPU memory"):
        solve()


SHARING = ["none", "sweep", "constrained", "lm", "admm"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, np.ndarray]]:
    """What one, two and four processes find by these methods, all started at once."""
    folder, started = tmp_path_factory.mktemp("shared"), []
    for processes in (1, 2, 4):
        launcher = [] if processes == 1 else [
            "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}",
        ]  # fmt: skip
        command = [sys.executable, *launcher, str(HELPERS / "gpu_process.py")]
        out = folder / f"{processes}.npz"
        run = subprocess.Popen(
            [*command, str(out), "cuda", *SHARING], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append((run, out))
    found = []
    for run, out in started:
        _, told = run.communicate(timeout=240)
        assert run.returncode == 0, told[-3000:]
        with np.load(out) as arrays:
            found.append(dict(arrays))
    return found


@pytest.mark.parametrize("method", SHARING)
def test_processes_that_share_a_gpu(method: str, shared: list[dict[str, np.ndarray]]) -> None:
    """Two and four find the bits of one; with lm, whose matrices libraries multiply in batches, all
    but the bits."""
    alone, *others = shared
    for several in others:
        assert several[f"{method} sent"] > 0
        np.testing.assert_allclose(several[f"{method} F"], alone[f"{method} F"], rtol=1e-8)
        for name in ("F", "points", "cameras") if method != "lm" else ():
            key = f"{method} {name}"
            assert several[key].tobytes() == alone[key].tobytes(), name


def test_nothing_is_compiled_while_the_clock_runs(tmp_path: Path) -> None:
    """In a process of its own, which finds no kernel in the cache."""
    env = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, str(HELPERS / "gpu_compiling.py")],
        env=env, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    assert "daba: compiling" in run.stderr
    assert run.stdout.split() == ["all", "ahead"], run.stdout


def test_a_graph_is_recorded_while_others_are_collected() -> None:
    """Earlier solves leave graphs to the garbage collector, which must not run in between."""
    import gc

    before = gc.get_threshold()
    try:
        gc.set_threshold(1)
        for _ in range(3):
            solve(iterations=4)
    finally:
        gc.set_threshold(*before)


def test_pixels_know_double_precision_only() -> None:
    with pytest.raises(daba.DabaError, match="double precision"):
        solve(method="lm", precision="mixed")
