"""A partition without METIS, and a package without what a GPU machine need not have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import daba
from daba.distributed.shard import make_shard
from daba.partition.bisection import ENOUGH, bisect_cameras, centroids_seen, few
from helpers import random_partition, synthetic

MISSING = (
    "numba", "llvmlite", "scipy", "threadpoolctl", "pymetis", "matplotlib",
    "mpi4py",
)  # fmt: skip
BLOCK = "import sys; sys.modules.update(dict.fromkeys({names!r}))\n"


@pytest.mark.parametrize("devices", [1, 3, 8, 20])
def test_every_device_gets_its_share(devices: int) -> None:
    rng = np.random.default_rng(0)
    load = rng.integers(1, 100, 400)
    owner = bisect_cameras(rng.normal(size=(400, 3)), load, devices)
    held = np.bincount(owner, weights=load, minlength=devices)
    assert held.min() > 0.7 * held.mean()
    assert held.max() < 1.3 * held.mean()


def test_as_many_devices_as_cameras() -> None:
    owner = bisect_cameras(np.zeros((7, 3)), np.array([1, 1000, 1, 1, 1, 1, 1]), 7)
    assert sorted(owner) == list(range(7))


def test_neighbours_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = daba.generate(synthetic("street", cameras=40, points=800)).start
    seen = centroids_seen(problem.points, problem.camera_index, problem.point_index, 40)
    assert seen.shape == (40, 3)
    monkeypatch.setattr("daba.partition.partition.has_metis", lambda: False)
    cut, random = (
        len(make_shard(problem, partition).inter.camera)
        for partition in (daba.make_partition(problem, 4), random_partition(problem, 4))
    )
    assert cut < 0.5 * random


def test_some_observations_tell_where_cameras_look() -> None:
    """As all do, nearly, and a camera without any looks at the middle."""
    rng = np.random.default_rng(0)
    looks_at = rng.uniform(-10, 10, (6, 3))
    camera = np.tile(np.arange(5), 5000).astype(np.int32)  # the sixth sees nothing
    points = looks_at[camera] + rng.normal(size=(len(camera), 3))
    some = few(6, len(camera))
    assert len(camera[some]) == ENOUGH * 6
    point = np.arange(len(camera), dtype=np.int32)
    seen = centroids_seen(points, camera[some], point[some], 6)
    np.testing.assert_allclose(seen[:5], looks_at[:5], atol=1.0)
    np.testing.assert_allclose(seen[5], looks_at[:5].mean(axis=0), atol=1.0)


def without(names: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Run code where some modules are not installed."""
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(names=names) + code],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_what_a_gpu_machine_need_not_have(tmp_path: Path) -> None:
    daba.save(daba.generate(synthetic()).start, tmp_path / "scene.npz")
    code = f"""
import daba
problem = daba.load({str(tmp_path / "scene.npz")!r})
assert daba.make_partition(problem, 3).devices == 3
import daba.runtime.backend, daba.runtime.loop
try:
    daba.solve(problem, devices=3, backend="gpu")
except daba.DabaError as error:
    print(error)
"""
    run = without(MISSING, code)
    assert run.returncode == 0, run.stderr
    assert "no GPU can be used" in run.stdout
