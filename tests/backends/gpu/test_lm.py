"""Levenberg–Marquardt's GPU kernels in Triton's interpreter, against plain NumPy."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from lm_for_gpu import own_cameras, parts_of, rigs_that_share, shard_of_six

from daba.backends.plain.operations import PlainOperations
from daba.core.lm import Loss
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_rays import ray_input
from daba.distributed.lm_shard import LmShard

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("here kernels run on a GPU: see tests/gpu", allow_module_level=True)

import triton.language as tl  # noqa: E402

from daba.backends.gpu import lists  # noqa: E402
from daba.backends.gpu.kernels.jit import jit  # noqa: E402
from daba.backends.gpu.kernels.lm.arctangent import arctan2  # noqa: E402
from daba.backends.gpu.lm.operations import GpuOperations  # noqa: E402
from daba.solver.lm import deflated  # noqa: E402
from daba.solver.lm.coarse import make_space  # noqa: E402
from daba.solver.lm.direct import Direct  # noqa: E402
from daba.solver.lm.network import Network  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's, of empty slots
]
LENSES = ("FOV", "OPENCV_FISHEYE", "EQUIRECTANGULAR", "SIMPLE_DIVISION", "EUCM", "FULL_OPENCV")
MU = 1e-3


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of more than five observations are shared by all lanes of a slice."""
    monkeypatch.setattr(lists, "lanes_of", lambda *sizes: lists.Lanes(32, 5, 64, 32))


def parts_named(name: str, devices: int = 2) -> LmShard:
    shard = shard_of_six(devices=devices)
    if name == "ray":
        return parts_of(shard, ray_input(shard, Communicator()))
    if name == "rigs":
        return parts_of(shard, rigs_that_share(shard))
    return parts_of(shard, own_cameras(shard, *LENSES))


def both(parts: LmShard, loss: Loss) -> tuple[PlainOperations, GpuOperations, Any]:
    """Operations, each linearized where the shard starts, and the estimate on the GPU."""
    plain, gpu = PlainOperations(parts, loss), GpuOperations(parts, loss, device="cpu")
    x = gpu.upload(parts.x)
    plain.linearize(parts.x)
    gpu.linearize(x)
    plain.hold()
    gpu.hold()
    return plain, gpu, x


def assert_close(found: Any, expected: np.ndarray, rtol: float = 1e-10) -> None:
    found = found.numpy() if isinstance(found, torch.Tensor) else found
    finite = np.isfinite(expected)
    scale = np.abs(expected[finite]).max(initial=1e-300)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("name", ["ray", "lenses", "rigs"])
def test_error_and_derivatives(name: str) -> None:
    """And points' own steps, with a robust loss."""
    parts = parts_named(name)
    plain, gpu, x = both(parts, Loss(1, 1.5))
    upper = np.triu_indices(3)
    assert_close(gpu.objective(x), plain.objective(parts.x), rtol=1e-12)
    np.testing.assert_array_equal(gpu.visible(x), plain.visible(parts.x))
    for what in ("U", "g", "X", "T", "g_s", "frame_bound"):
        assert_close(getattr(gpu, what), getattr(plain, what))
    assert_close(gpu.V[:, :6], plain.V[:, *upper])
    assert_close(gpu.g_l[:, :3], plain.g_l)
    assert_close(gpu.point_bound, plain.point_bound)
    off = 0.3 * np.random.default_rng(2).normal(size=parts.x.points.shape)
    here, there = parts.x.copy(), x._replace(points=x.points.clone())
    here.points[:] += off
    there.points[:, :3] += torch.from_numpy(off)
    expected = plain.settle_points(here, parts.x.points, 2)
    assert_close(gpu.settle_points(there, x.points, 2), expected)
    assert_close(gpu.download(there.points), here.points)


@pytest.mark.parametrize("name", ["ray", "lenses", "rigs"])
def test_second_order(name: str) -> None:
    """There and back again, with a robust loss."""
    parts = parts_named(name)
    plain, gpu, x = both(parts, Loss(1, 1.5))
    far = [parts.x.copy() for _ in range(2)]
    for estimate, sign in zip(far, (1.0, -1.0), strict=True):
        for array in (estimate.frames[:, 9:], estimate.points):
            array += sign * 0.01 * np.random.default_rng(4).normal(size=array.shape)
    ahead, behind = (gpu.upload(estimate) for estimate in far)
    plain.second_order(parts.x, far[0], far[1], 0.1)
    gpu.second_order(x, ahead, behind, 0.1)
    for what in ("g", "g_s"):
        assert_close(getattr(gpu, what), getattr(plain, what))
    assert_close(gpu.g_l[:, :3], plain.g_l)
    gpu.damp(MU), plain.solve(MU)
    assert_close(gpu.energy_of_points(), plain.energy_of_points())
    before = gpu.first
    gpu.first_order()
    assert gpu.tensors["g"] is before[0]
    assert gpu.g_l is before[1]


def test_a_point_behind_a_camera_goes_back() -> None:
    parts = parts_named("lenses")
    plain, gpu, x = both(parts, Loss(0, 1.0))
    here, there = parts.x.copy(), x._replace(points=x.points.clone())
    here.points[3, 2], there.points[3, 2] = -50.0, -50.0
    assert not gpu.visible(there).all()
    assert gpu.objective(there)[:, 2].sum() == 1
    assert_close(
        gpu.settle_points(there, x.points, 0), plain.settle_points(here, parts.x.points, 0)
    )
    np.testing.assert_array_equal(gpu.download(there.points)[3], parts.x.points[3])


def test_direct_solution() -> None:
    """One cluster, with what is shared as a border, and back-substitution."""
    parts = parts_named("rigs", devices=1)
    plain, gpu, _ = both(parts, Loss(0, 1.0))
    found = plain.solve(MU)
    assert found is not None
    network = Network(parts, Communicator())
    gpu.plan(parts.cluster[: parts.num_frames])
    space = make_space(parts, gpu, network, parts.cluster, 0)
    direct = Direct(parts, gpu, network, space)
    direct.linearized(parts.x)
    solution = direct.solve(MU)
    assert solution is not None
    assert_close(solution.frames, found[0], rtol=1e-8)
    assert_close(solution.shared, found[1], rtol=1e-8)
    index = parts.images.index[parts.images.group]
    of_images = np.where(index >= 0, found[1][np.maximum(index, 0)], 0.0)
    expected, lowered = plain.back_substitute(found[0], of_images)
    points, told = gpu.back_substitute(gpu.put(found[0]), gpu.put(of_images))
    assert_close(points[:, :3], expected)
    assert_close(told, lowered)
    model = plain.model_of_frames(found[0], of_images)
    assert_close(gpu.model_of_frames(found[0], of_images), model)


@pytest.mark.parametrize("eigenmodes", [False, True])
def test_conjugate_gradients_come_to_the_same(
    eigenmodes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two devices are two clusters, with the coarse space, and local eigenmodes instead of it."""
    monkeypatch.setattr(deflated, "RESIDUAL", 1e-5)
    monkeypatch.setattr(deflated, "MANY_ITERATIONS", 100)
    monkeypatch.setattr("daba.solver.lm.eigenmodes.MODES", 8)
    parts = parts_named("rigs" if eigenmodes else "ray")
    plain, gpu, _ = both(parts, Loss(0, 1.0))
    found = plain.solve(MU)
    assert found is not None
    network = Network(parts, Communicator())
    gpu.plan(parts.cluster[: parts.num_frames])
    space = make_space(parts, gpu, network, parts.cluster, 2)
    reduced = deflated.Deflated(parts, gpu, network, space, 100)
    if eigenmodes:
        reduced._use_eigenmodes()
    reduced.linearized(parts.x)
    solution = reduced.solve(MU)
    assert solution is not None
    assert solution.iterations > 0
    assert_close(solution.frames, found[0], rtol=1e-3)
    assert_close(solution.shared, found[1], rtol=1e-3)


def test_a_coarse_space_without_modes() -> None:
    """Where no eigenmode is below the threshold there is nothing to solve."""
    parts = parts_named("ray")
    _, gpu, _ = both(parts, Loss(0, 1.0))
    network = Network(parts, Communicator())
    space = make_space(parts, gpu, network, parts.cluster, 2)
    _, z = gpu.damp(MU)
    space.take(gpu.zeros((parts.num_frames, parts.kind.block, 0)), travels=False)
    h = gpu.no_steps()
    found = deflated.Deflated(parts, gpu, network, space, 100)._coarse(MU, z, h)
    assert space.size == 0
    assert found is not None
    assert found.energy == 0.0
    assert not found.frames.any()
    assert not h.any()


@jit
def angles(y: Any, x: Any, out: Any, N: tl.constexpr) -> None:
    at = tl.arange(0, N)
    tl.store(out + at, arctan2(tl.load(y + at), tl.load(x + at)))


def test_arctangent() -> None:
    angle = np.linspace(-3.14, 3.14, 128)
    y, x = (torch.from_numpy(f(angle) * np.exp(angle)) for f in (np.sin, np.cos))
    out = torch.empty_like(x)
    angles[(1,)](y, x, out, N=128)
    np.testing.assert_allclose(out.numpy(), angle, rtol=4e-16, atol=4e-16)
