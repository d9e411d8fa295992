"""Levenberg–Marquardt on a machine with a GPU, against plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lm_for_gpu import own_cameras, parts_of, rigs_that_share, shard_of_six

import daba
from daba.backends.plain.operations import PlainOperations
from daba.core.lm import Loss
from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_rays import ray_input
from daba.solver.lm import deflated
from daba.solver.lm.coarse import make_space
from daba.solver.lm.direct import Direct
from daba.solver.lm.linear import Whole
from daba.solver.lm.network import Network
from daba.solver.lm.solver import LevenbergMarquardt

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU here", allow_module_level=True)

from daba.backends.gpu.compiler import compile_ahead  # noqa: E402
from daba.backends.gpu.lm.operations import GpuOperations  # noqa: E402
from daba.solver.lm.on_gpu import launch_linear  # noqa: E402

CASES: dict[str, Any] = {
    "ray": lambda shard: ray_input(shard, Communicator()),
    "radial": lambda shard: own_cameras(shard, "RADIAL"),
    "fisheye": lambda shard: own_cameras(shard, "OPENCV_FISHEYE", "SIMPLE_RADIAL"),
    "others": lambda shard: own_cameras(shard, "FOV", "EUCM", "SIMPLE_DIVISION", "FULL_OPENCV"),
    "panorama": lambda shard: own_cameras(shard, "EQUIRECTANGULAR", "SIMPLE_RADIAL"),
    "rigs": rigs_that_share,
}


def solver_of(name: str, how: str, devices: int = 1) -> LevenbergMarquardt:
    """One of plain, direct and deflated, on 400 points."""
    shard = shard_of_six(400, devices)
    parts = parts_of(shard, CASES[name](shard))
    network, loss = Network(parts, Communicator()), Loss(1, 1.5)
    ops: Any = PlainOperations(parts, loss) if how == "plain" else GpuOperations(parts, loss)
    if how != "plain":  # several at a time
        compile_ahead(lambda: ops.launch_all(ops.upload(parts.x)), ops.device, tell=False)
    reduced: Any = Whole(parts, ops, network)
    if how != "plain":
        ops.plan(parts.cluster[: parts.num_frames])
    if how == "direct":
        shared = parts.shared.count > 0
        space = make_space(parts, ops, network, parts.cluster, 0) if shared else None
        reduced = Direct(parts, ops, network, space)
    if how == "deflated":
        space = make_space(parts, ops, network, parts.cluster, devices)
        reduced = deflated.Deflated(parts, ops, network, space, 100)
    solver = LevenbergMarquardt(shard, parts, Options(method="lm"), network, ops, reduced)
    if how != "plain":
        compile_ahead(lambda: launch_linear(solver), ops.device, tell=False)
    return solver


def values(solver: LevenbergMarquardt, iterations: int = 6) -> np.ndarray:
    found = [solver.total[0]]
    for _ in range(iterations):
        solver.iterate()
        found.append(solver.total[0])
    return np.array(found)


@pytest.mark.parametrize("name", CASES)
def test_F_is_that_of_plain_numpy(name: str) -> None:
    here, there = solver_of(name, "direct"), solver_of(name, "plain")
    there.bends = here.bends
    expected = values(there)
    assert expected[-1] < 0.9 * expected[0]
    np.testing.assert_allclose(values(here), expected, rtol=1e-8)


@pytest.mark.parametrize("name", ["ray", "fisheye"])
def test_two_devices_find_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step, with conjugate gradients that go on to the end."""
    monkeypatch.setattr(deflated, "RESIDUAL", 1e-9)
    here, there = values(solver_of(name, "deflated", 2), 1), values(solver_of(name, "plain"), 1)
    np.testing.assert_allclose(here, there, rtol=1e-3)


def test_the_same_bits_again() -> None:
    first, second = (values(solver_of("rigs", "deflated", 2)) for _ in range(2))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("linear_solver", ["auto", "direct", "pcg"])
def test_a_whole_solve(linear_solver: Any) -> None:
    scene = daba.generate(daba.SceneOptions(scene="city", cameras=40, points=2000, seed=1))
    result = daba.solve(
        scene.start, method="lm", error="ray", backend="gpu", linear_solver=linear_solver,
        iterations=20,
    )  # fmt: skip
    F = result.problem.objective(daba.Trivial())
    assert result.history[-1].objective == pytest.approx(F, rel=1e-10)
    assert F < 0.5 * result.history[0].objective
