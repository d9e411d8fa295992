"""Levenberg–Marquardt set up with torch is what it is with NumPy, array for array."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lm_for_gpu import rigs_that_share
from scene_for_gpu import tiny_problem

import daba
from daba.core.lm import CoarseBlocks, Observations
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_pixels import pixel_input
from daba.distributed.lm_rays import ray_input
from daba.distributed.lm_shard import LmShard, make_lm_shard
from daba.distributed.shard import Shard, join
from daba.partition.ordering import ON_HOST, lay_out
from daba.partition.partition import camera_graph
from daba.solver.lm.eigenmodes import Eigenmodes
from daba.solver.lm.network import Network
from daba.solver.lm.pattern import BlockPattern
from daba.solver.lm.plan import everywhere, split_frames

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from daba.backends.gpu import setting_up  # noqa: E402
from daba.backends.gpu.lm.factors import factoring_cost  # noqa: E402
from daba.backends.gpu.memory import needed_for_lm  # noqa: E402
from daba.backends.gpu.setting_up import TorchArrays  # noqa: E402

ON_TORCH = TorchArrays("cuda" if torch.cuda.is_available() else "cpu")
COMM = Communicator()


def chain(shared: bool = False) -> daba.Problem:
    """24 cameras along a chain, of which four see a point, and some many."""
    whole = tiny_problem(24, 150)
    camera, point = whole.camera_index, whole.point_index
    kept = (np.abs(point - 6 * camera - 6) < 12) | (point % 17 == 0)
    observed = {
        name: getattr(whole, name)[kept] for name in ("camera_index", "point_index", "u", "weights")
    }
    group = (np.arange(24) // 5).astype(np.int32) if shared else None
    return replace(whole, **observed, shared=group)


INPUTS: dict[str, Any] = {
    "rays": ("ray", chain(), lambda shard: ray_input(shard, COMM)),
    "shared": ("ray", chain(shared=True), lambda shard: ray_input(shard, COMM)),
    "pixels": ("pixel", chain(), lambda shard: pixel_input(shard, COMM)),
    "pixels-shared": ("pixel", chain(shared=True), lambda shard: pixel_input(shard, COMM)),
    "rigs": ("ray", chain(), rigs_that_share),
}
DEVICES = {"one": (1, range(1)), "three": (3, range(3)), "two-of-three": (3, range(1, 3))}


def shard_on(arrays: Any, name: str, which: str) -> Shard:
    (error, problem, _), (count, mine) = INPUTS[name], DEVICES[which]
    device = (np.arange(24) // 2 * count // 12).astype(np.int32)
    layout = lay_out(problem, daba.partition_from_arrays(problem, device), error, arrays)
    return join([layout.device_block(d) for d in mine], mine.start, layout.ranges, None, arrays)


def parts_on(arrays: Any, name: str, which: str) -> tuple[Shard, LmShard, np.ndarray]:
    """With clusters of two frames; and bodies of one or two, over all devices."""
    shard = shard_on(arrays, name, which)
    given = INPUTS[name][2](shard)
    parts = make_lm_shard(shard, given, COMM, split_frames(shard, given, 2.0, 8))
    bodies, _ = everywhere(parts, split_frames(shard, given, 1.5, 8), COMM)
    return shard, parts, bodies


def assert_equal(found: Any, expected: Any, what: str) -> None:
    found = ON_TORCH.host(found)
    assert found.dtype == expected.dtype, what
    np.testing.assert_array_equal(found, expected, err_msg=what)


@pytest.mark.parametrize("which", DEVICES)
@pytest.mark.parametrize("name", INPUTS)
def test_the_same_arrays(name: str, which: str) -> None:
    there, expected, bodies = parts_on(ON_HOST, name, which)
    here, found, same = parts_on(ON_TORCH, name, which)
    assert isinstance(here.intra.u, torch.Tensor)
    assert isinstance(found.obs.xy, torch.Tensor)
    assert there.arrays is ON_HOST
    np.testing.assert_array_equal(same, bodies)
    np.testing.assert_array_equal(found.cluster, expected.cluster)
    clusters = expected.cluster[: expected.num_frames]
    assert len(np.unique(clusters)) > expected.devices
    for field in Observations._fields:
        assert_equal(getattr(found.obs, field), getattr(expected.obs, field), field)
    for what in ("frame_tasks", "point_tasks", "ghost_tasks", "images", "boundary"):
        for one, other in zip(getattr(found, what), getattr(expected, what), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=what)
    for one, other in zip(found.x, expected.x, strict=True):
        np.testing.assert_array_equal(one, other)
    assert needed_for_lm(found) == needed_for_lm(expected)
    assert factoring_cost(found.obs, clusters, 6) == factoring_cost(expected.obs, clusters, 6)


@pytest.mark.parametrize("which", DEVICES)
@pytest.mark.parametrize("name", INPUTS)
def test_the_same_coarse_space(name: str, which: str) -> None:
    made = []
    for arrays in (ON_HOST, ON_TORCH):
        _, parts, bodies = parts_on(arrays, name, which)
        pattern = BlockPattern(parts, None, Network(parts, COMM), bodies, int(bodies.max()) + 1)
        made.append((pattern, Eigenmodes(parts, None)))
    (expected, modes), (found, same) = made
    assert len(expected.pair_row) > len(expected.seen_block)
    for field in CoarseBlocks._fields:
        assert_equal(getattr(found.blocks, field), getattr(expected.blocks, field), field)
    for field in ("pair_device", "pair_row", "pair_col", "pair_begin", "seen_block", "seen_begin"):
        np.testing.assert_array_equal(getattr(found, field), getattr(expected, field), field)
    np.testing.assert_array_equal(found.all_pairs, expected.all_pairs)
    assert len(modes.runs)
    assert_equal(same.runs, modes.runs, "runs")
    assert_equal(same.run_at, modes.run_at, "run_at")


@pytest.mark.parametrize("pairs", [1 << 25, 50])
def test_the_same_graph(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some observations are there twice, some points and one camera are not seen; and where pairs
    are listed a few at a time."""
    monkeypatch.setattr(setting_up, "PAIRS", pairs)
    random = np.random.default_rng(0)
    camera = random.integers(0, 9, 300).astype(np.int32)
    point = random.integers(0, 70, 300).astype(np.int32)
    expected = camera_graph(camera, point, 10, 80)
    found = ON_TORCH.camera_graph(ON_TORCH.put(camera), ON_TORCH.put(point), 10, 80)
    expected.sort_indices()
    assert found.has_sorted_indices
    for field in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, field), getattr(expected, field), field)
    sees = np.zeros((10, 80))
    sees[camera, point] = 1
    one = np.rint(1000 / np.sqrt(np.maximum(sees.sum(axis=0) - 1, 1)))
    dense = (sees * one) @ sees.T
    np.fill_diagonal(dense, 0)
    np.testing.assert_array_equal(found.toarray(), dense)
