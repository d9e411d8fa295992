"""The GPU kernels' values, in Triton's interpreter, against the reference and the CPU's solver."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import daba
from daba.backends.operations import Base, Row, Status
from daba.core.options import Options
from daba.core.types import State
from daba.distributed.shard import make_shard
from daba.problem import reference
from daba.solver.algorithm import Algorithm1
from daba.solver.make import cpu_solver, gpu_solver
from helpers import (
    ALL_LOSSES,
    dense_system,
    device_of_observations,
    paper_majorizers,
    random_partition,
    random_problem,
)

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.slow
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("here kernels run on a GPU: see tests/gpu", allow_module_level=True)

from daba.backends.gpu import lists  # noqa: E402
from daba.backends.gpu.operations import GpuOperations  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of empty slots


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of few lanes, and points of more than three observations shared by all of them."""
    monkeypatch.setattr(lists, "lanes_of", lambda *sizes: lists.Lanes(32, 3, 64, 32))
    monkeypatch.setattr("daba.backends.gpu.operations.MORE", 2)


def small(seed: int = 0, cameras: int = 4, **options: Any) -> tuple[Algorithm1, Any, Any]:
    """A solver, its problem and its partition."""
    problem = random_problem(seed, cameras=cameras, points=3 * cameras)
    chosen = Options(
        **{
            "method": "daba",
            "devices": 2,
            "precision": "float64",
            "linear_solver": "pcg",
            **options,
        }
    )
    partition = random_partition(problem, 1 if chosen.centralized else chosen.devices, seed)
    return gpu_solver(make_shard(problem, partition), chosen, device="cpu"), problem, partition


def gpu(solver: Algorithm1) -> GpuOperations:
    assert isinstance(solver.operations, GpuOperations)
    return solver.operations


def in_problem_order(solver: Algorithm1, by_point: np.ndarray) -> np.ndarray:
    """Rows of the GPU's points as the problem numbers them."""
    out = np.empty_like(by_point)
    out[solver.shard.point_order[gpu(solver).arrays.order.numpy()]] = by_point
    return out


@pytest.mark.parametrize("radius", [2.0, 0.02])  # far beyond the second, some losses are flat
@pytest.mark.parametrize("loss", ALL_LOSSES)
def test_objective(loss: str, radius: float) -> None:
    solver, problem, partition = small(loss=daba.make_loss(loss, radius))
    a, b = device_of_observations(problem, partition)
    each = reference.penalties(problem, solver.options.loss)
    expected = np.bincount(a[a == b], each[a == b], 2)
    np.testing.assert_allclose(solver.row(Row.INTRA), expected, rtol=1e-12)
    expected = np.bincount(a[a != b], each[a != b], 2)
    np.testing.assert_allclose(solver.row(Row.INTER), expected, rtol=1e-12)
    assert solver.objective == pytest.approx(problem.objective(solver.options.loss), rel=1e-12)


def test_system_and_product() -> None:
    """U, V and gradients of E^α, and S v, against the dense system."""
    solver, problem, partition = small(1, loss=daba.Huber(2.0), method="duba")
    ops, a, o = gpu(solver), gpu(solver).arrays, solver.options
    solver.begin()
    ops.damp(Base.X)
    ops.launches.product(0)
    dense = dense_system(problem, problem, partition, o.loss, o.split, o.xi)
    C, P = problem.num_cameras, problem.num_points
    tiles = a.system.numpy().reshape(C, 16, 16)
    diagonal = dense.H.diagonal()
    damped = dense.H + np.diag(np.maximum(diagonal, 1e-6) / o.first_radius)
    Hcc, Hcl, Hll = damped[: 9 * C, : 9 * C], damped[: 9 * C, 9 * C :], damped[9 * C :, 9 * C :]
    S = Hcc - Hcl @ np.linalg.solve(Hll, Hcl.T)
    rhs = -dense.g[: 9 * C] + Hcl @ np.linalg.solve(Hll, dense.g[9 * C :])
    order = solver.shard.camera_order
    for i, camera in enumerate(order):
        rows = slice(9 * camera, 9 * camera + 9)
        np.testing.assert_allclose(tiles[i, :9, :9], dense.H[rows, rows], rtol=1e-9, atol=1e-6)
        np.testing.assert_allclose(tiles[i, :9, 9], dense.g[rows], rtol=1e-9, atol=1e-6)
        inverse = a.M_inv.numpy().reshape(C, 16, 16)[i, :9, :9]
        np.testing.assert_allclose(inverse @ S[rows, rows], np.eye(9), atol=1e-6)
        np.testing.assert_allclose(a.rhs.numpy()[i, :9], rhs[rows], rtol=1e-8, atol=1e-7)
    slots = [16, 17, 18, 19, 20, 21, 22, 23, 15]
    v, Sv = np.empty(9 * C), np.empty(9 * C)
    for i, camera in enumerate(order):
        v[9 * camera : 9 * camera + 9] = a.record_c.numpy()[i, slots]
        Sv[9 * camera : 9 * camera + 9] = a.Sp.numpy()[i, :9]
    np.testing.assert_allclose(Sv, S @ v, rtol=1e-7, atol=1e-9 * np.abs(S @ v).max())
    inverted = in_problem_order(solver, a.v_inv.numpy())
    for j in range(P):
        block = Hll[3 * j : 3 * j + 3, 3 * j : 3 * j + 3]
        expected = np.linalg.inv(block)[np.triu_indices(3)]
        np.testing.assert_allclose(inverted[j, :6], expected, rtol=1e-6, atol=1e-12)


def test_surrogate() -> None:
    """Value at another estimate, and the slack there, against the paper's formulas."""
    solver, problem, partition = small(2, loss=daba.Cauchy(3.0), split=0.3)
    ops, a, o = gpu(solver), gpu(solver).arrays, solver.options
    random = np.random.default_rng(0)
    moved = problem.with_estimate(
        problem.cameras + np.r_[np.zeros(9), 1e-2 * np.ones(6)],
        problem.points + 1e-2 * random.normal(size=problem.points.shape),
    )
    order = solver.shard.camera_order, solver.shard.point_order
    there = a.upload(State(moved.cameras[order[0]], moved.points[order[1]]))
    ops.launches.evaluate(there, (a.x, a.at_x), None, Row.ALWAYS)
    ops.launches.add_up(a.sums.jobs(Row.SUM_VALUE_C, Row.SUM_VALUE_L))
    table = ops.read()
    value = table[Row.SUM_VALUE_C] + table[Row.SUM_VALUE_L] + table[Row.AT_X]
    c, l = device_of_observations(problem, partition)
    inter = c != l
    m = paper_majorizers(moved, problem, o.loss, o.split)
    expected: np.ndarray = np.bincount(c[inter], m.P[inter].astype(float), 2).astype(float)
    expected += np.bincount(l[inter], m.Q[inter].astype(float), 2)
    move = ((moved.cameras - problem.cameras) ** 2).sum(axis=1)
    expected += o.xi / 2 * np.bincount(partition.camera_device, move, 2)
    move = ((moved.points - problem.points) ** 2).sum(axis=1)
    expected += o.xi / 2 * np.bincount(partition.point_device, move, 2)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    ops.launches.rebase(there, a.at_bar, guarded=False, gap=True)
    ops.launches.add_up(a.sums.jobs(Row.SUM_GAP_C, Row.SUM_GAP_L))
    slack = reference.penalties(moved, o.loss) - (m.P + m.Q).astype(float)
    table = ops.read()
    by_camera, by_point = table[Row.SUM_GAP_C], table[Row.SUM_GAP_L]
    np.testing.assert_allclose(by_camera, np.bincount(c[inter], slack[inter], 2), rtol=1e-8)
    np.testing.assert_allclose(by_point, np.bincount(l[inter], slack[inter], 2), rtol=1e-8)


CASES: dict[str, dict[str, Any]] = {
    "daba": {"refine": "none"},
    "restarts": {"refine": "none", "restart_ratio": 1.0, "eta": 1.0, "eta_growth": 1.0},
    "sweep": {"refine": "sweep", "loss": daba.Huber(2.0)},
    "duba": {"method": "duba", "refine": "points"},
    "lm": {"method": "lm", "lm_radius": 1e8},
    "retries": {"method": "lm", "lm_gain": 0.999},
}
BEFORE = {"lm": 0, "retries": 1}
"""Iterations of the CPU before; 3 elsewhere."""


@pytest.mark.parametrize("case", CASES)
def test_iterations_are_those_of_the_cpu(case: str, compiled: None) -> None:
    """All that an iteration does, decisions included, from where the CPU has come to; and what is
    saved of it."""
    on_gpu, _, _ = small(4, 3 if case == "sweep" else 4, **CASES[case])
    on_cpu = cpu_solver(on_gpu.shard, on_gpu.options)
    restarts = retries = 0
    for _ in range(BEFORE.get(case, 3)):
        on_cpu.iterate()
    on_gpu.put_back(on_cpu.device_states(), on_cpu.common_state())
    gpu(on_gpu).expected = 2
    for _ in range(1 if case in ("duba", "retries") else 2):
        on_gpu.iterate()
        on_cpu.iterate()
        assert on_gpu.objective == pytest.approx(on_cpu.objective, rel=1e-8)
        assert on_gpu.counts.restarts == on_cpu.counts.restarts
        assert on_gpu.counts.lm_retries == on_cpu.counts.lm_retries
        assert on_gpu.counts.pcg_iterations == on_cpu.counts.pcg_iterations
        restarts, retries = restarts + on_gpu.counts.restarts, retries + on_gpu.counts.lm_retries
    assert (restarts > 0) == (case == "restarts")
    assert (retries > 0) == (case == "retries")
    here, there = on_gpu.device_states(), on_cpu.device_states()
    for device, saved in here.items():
        assert saved.keys() == there[device].keys()
        for name, found in saved.items():
            estimate = "cameras" in name or "points" in name
            rtol, atol = (1e-6, 1e-7) if estimate else (1e-7, 0.0)
            np.testing.assert_allclose(found, there[device][name], rtol, atol, err_msg=name)
    assert on_gpu.common_state() == pytest.approx(on_cpu.common_state(), rel=1e-12)
    assert on_gpu.gradient_norm() == pytest.approx(on_cpu.gradient_norm(), rel=1e-6)
    resumed = cpu_solver(on_gpu.shard, on_gpu.options)  # and back, as a checkpoint does it
    resumed.put_back(on_gpu.device_states(), on_gpu.common_state())
    for solver in (resumed, on_cpu):
        solver.iterate()
    assert resumed.objective == pytest.approx(on_cpu.objective, rel=1e-7)


@pytest.mark.parametrize("precision", ["mixed", "float32"])
def test_less_precision(precision: str, compiled: None) -> None:
    on_gpu, _, _ = small(4, precision=precision)
    on_cpu = cpu_solver(on_gpu.shard, on_gpu.options)
    assert on_gpu.objective == pytest.approx(on_cpu.objective, rel=1e-5)
    on_gpu.iterate()
    on_cpu.iterate()
    assert on_gpu.objective == pytest.approx(on_cpu.objective, rel=1e-3)


def test_more_conjugate_gradients_than_expected(
    compiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solve that is interrupted goes on where it was."""
    monkeypatch.setattr("daba.backends.gpu.operations.MORE", 4)
    tight: dict[str, Any] = {
        "pcg_forcing": 0.0,
        "pcg_residual": 1e-9,
        "pcg_iterations": 9,
        "method": "lm",
    }
    on_gpu, _, _ = small(5, 3, **tight)
    on_cpu = cpu_solver(on_gpu.shard, on_gpu.options)
    gpu(on_gpu).expected = 2
    on_gpu.iterate()
    on_cpu.iterate()
    assert on_gpu.counts.pcg_iterations == on_cpu.counts.pcg_iterations > 2
    assert on_gpu.objective == pytest.approx(on_cpu.objective, rel=1e-9)
    assert Status(int(on_gpu.row(Row.STATUS)[0])) == Status.DONE


@pytest.mark.parametrize("refine", ["none", "sweep"])
def test_memory_is_not_underestimated(refine: str) -> None:
    from daba.backends.gpu.memory import PROGRAM, needed

    solver, _, _ = small(6, cameras=8, refine=refine)
    shard, arrays = solver.shard, gpu(solver).arrays
    held = sum(x.nbytes for x in _tensors([*vars(arrays).values(), *vars(arrays.sums).values()]))
    told = needed(
        shard.num_cameras, shard.num_points, len(shard.intra.camera), len(shard.inter.camera),
        solver.options,
    )  # fmt: skip
    padding = 32 * 32 * (arrays.intra_l.count + 2 * arrays.inter_l.count)
    assert held - 3 * padding <= told - PROGRAM  # slices of a tiny problem are all but empty


def _tensors(found: list[Any]) -> list[Any]:
    """Tensors in bundles of tensors, each once."""
    seen: dict[int, Any] = {}
    while found:
        x = found.pop()
        if isinstance(x, torch.Tensor):
            seen[x.untyped_storage().data_ptr()] = x
        elif isinstance(x, tuple):
            found += x
        elif isinstance(x, lists.ByPoint | lists.ByCamera):
            found += vars(x).values()
    return list(seen.values())
