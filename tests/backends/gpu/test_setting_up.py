"""Laying out with torch gives what laying out with NumPy gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scene_for_gpu import tiny_problem

import daba
from daba.core.types import Observations
from daba.distributed.shard import Shard, join
from daba.partition.ordering import ON_HOST, lay_out
from daba.solver.algorithm import extrapolation_scales

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from daba.backends.gpu import sparsity  # noqa: E402
from daba.backends.gpu.setting_up import TorchArrays  # noqa: E402

PROBLEM = tiny_problem(12, 200)
PARTITION = daba.partition_from_arrays(PROBLEM, np.arange(12, dtype=np.int32) % 3)


def shards(devices: range) -> tuple[Shard, Shard]:
    """Of some of three devices, with NumPy and with torch."""
    found = []
    for arrays in (ON_HOST, TorchArrays("cpu")):
        layout = lay_out(PROBLEM, PARTITION, "ray", arrays, validate=True)
        blocks = [layout.device_block(device) for device in devices]
        found.append(join(blocks, devices.start, layout.ranges, None, arrays))
    return found[0], found[1]


def assert_equal(there: Any, here: Any) -> None:
    for name, expected in zip(there._fields, there, strict=True):
        value = getattr(here, name)
        assert value.dtype == expected.dtype, name
        np.testing.assert_array_equal(value, expected, err_msg=name)


@pytest.mark.parametrize("devices", [range(3), range(1, 3), range(1)])
def test_the_same_shard(devices: range) -> None:
    there, here = shards(devices)
    assert isinstance(here.intra.u, torch.Tensor)
    here = here.on_host()
    for name in ("camera_order", "point_order", "ghost_cameras", "ghost_points"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name), err_msg=name)
    for what in ("intra", "inter", "start"):
        assert_equal(getattr(there, what), getattr(here, what))
    assert len(there.inter.camera) > 0
    for what in ("camera_tasks", "point_tasks"):
        assert_equal(getattr(there.devices, what), getattr(here.devices, what))


def test_the_same_scales() -> None:
    there, here = shards(range(3))
    for expected, found in zip(
        extrapolation_scales(there, there.state()),
        extrapolation_scales(here, here.state()),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_store_of_arrays_that_cannot_be_written() -> None:
    layout = lay_out(PROBLEM, PARTITION)
    block = layout.device_block(0)
    for array in block.intra:
        array.flags.writeable = False
    shard = join([block], 0, layout.ranges, None, TorchArrays("cpu"))
    assert_equal(join([block], 0, layout.ranges).intra, Observations(*shard.on_host().intra))


def test_pairs_of_cameras_that_see_common_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain: camera i sees the points 5 i to 5 i + 9."""
    monkeypatch.setattr(sparsity, "POINTS", 17)
    kept = np.abs(PROBLEM.point_index - 5 * PROBLEM.camera_index - 4.5) < 5.0
    chain = replace(
        PROBLEM, points=PROBLEM.points[:65],
        **{name: getattr(PROBLEM, name)[kept]
           for name in ("camera_index", "point_index", "u", "weights")},
    )  # fmt: skip
    whole = daba.partition_from_arrays(chain, np.zeros(12, np.int32))
    for arrays in (ON_HOST, TorchArrays("cpu")):
        layout = lay_out(chain, whole, "ray", arrays)
        shard = join([layout.device_block(0)], 0, layout.ranges, None, arrays)
        found = sparsity.density(shard, "cpu")
        assert found == pytest.approx((12 + 2 * 11) / 12**2)
        assert sparsity.direct_pays(shard, torch.device("cpu"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": (3, np.nan)}, "observation 3: NaN or infinite value"),
        ({"weights": (5, 0.0)}, "observation 5: weight must be positive"),
        ({"camera_index": (7, 12)}, "observation 7: camera_index 12 is out of range"),
        ({"point_index": (7, -1)}, "observation 7: point_index -1 is out of range"),
        ({"points": (2, np.inf)}, "point 2: NaN or infinite value"),
    ],
)
def test_what_is_wrong_is_found(change: dict[str, Any], message: str) -> None:
    [(name, (at, value))] = change.items()
    array = getattr(PROBLEM, name).copy()
    array[at] = value
    problem = replace(PROBLEM, **{name: array})
    with pytest.raises(daba.DabaError, match=message):
        lay_out(problem, PARTITION, "ray", TorchArrays("cpu"), validate=True)


def test_a_point_on_a_camera_is_found() -> None:
    points = PROBLEM.points.copy()
    points[PROBLEM.point_index[4]] = PROBLEM.centers[PROBLEM.camera_index[4]]
    problem = replace(PROBLEM, points=points)
    with pytest.raises(daba.DabaError, match="lies on the centre of camera"):
        lay_out(problem, PARTITION, "ray", TorchArrays("cpu"), validate=True)
