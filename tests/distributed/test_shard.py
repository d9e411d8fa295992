"""The layout of one process: nothing is lost, every observation is on its side of the border."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import daba
from daba.core.types import Observations, Tasks
from daba.distributed.shard import MOST_TASKS, Shard, make_shard, make_tasks
from daba.partition.partition import Partition, make_partition
from daba.problem.problem import Problem
from helpers import random_partition, random_problem, synthetic

CASES = [(1, 0), (2, 1), (3, 2), (6, 3)]


def sharded(devices: int, seed: int) -> tuple[Problem, Partition, Shard]:
    problem = random_problem(seed, cameras=6, points=40)
    partition = random_partition(problem, devices, seed)
    return problem, partition, make_shard(problem, partition)


def rows(problem: Problem, k: np.ndarray) -> list[tuple[float, ...]]:
    return sorted(
        zip(
            problem.camera_index[k].tolist(),
            problem.point_index[k].tolist(),
            problem.u[k, 0].tolist(),
            problem.u[k, 1].tolist(),
            problem.weights[k].tolist(),
            strict=True,
        )
    )


def rows_of(shard: Shard, obs: Observations) -> list[tuple[float, ...]]:
    return sorted(
        zip(
            shard.camera_order[obs.camera].tolist(),
            shard.point_order[obs.point].tolist(),
            obs.u[:, 0].tolist(),
            obs.u[:, 1].tolist(),
            obs.weight.tolist(),
            strict=True,
        )
    )


@pytest.mark.parametrize(("devices", "seed"), CASES)
def test_there_and_back_changes_no_bit(devices: int, seed: int) -> None:
    problem, _, shard = sharded(devices, seed)
    back = shard.to_problem(shard.state())
    np.testing.assert_array_equal(back.cameras, problem.cameras)
    np.testing.assert_array_equal(back.points, problem.points)
    assert back.u is problem.u
    x = shard.state()
    x.points[0] += 1.0
    assert (shard.to_problem(x).points != problem.points).any(axis=1).sum() == 1


@pytest.mark.parametrize(("devices", "seed"), CASES)
def test_observations_are_split_at_the_border(devices: int, seed: int) -> None:
    problem, partition, shard = sharded(devices, seed)
    a = partition.camera_device[problem.camera_index]
    b = partition.point_device[problem.point_index]
    assert rows_of(shard, shard.intra) == rows(problem, np.flatnonzero(a == b))
    assert rows_of(shard, shard.inter) == rows(problem, np.flatnonzero(a != b))
    assert (devices == 1) == (len(shard.inter.camera) == 0)


@pytest.mark.parametrize(("devices", "seed"), CASES)
def test_each_devices_variables_lie_together(devices: int, seed: int) -> None:
    _, partition, shard = sharded(devices, seed)
    for order, device, ptr in (
        (shard.camera_order, partition.camera_device, shard.devices.camera_ptr),
        (shard.point_order, partition.point_device, shard.devices.point_ptr),
    ):
        assert sorted(order) == list(range(len(device)))
        for alpha in range(devices):
            assert (device[order[ptr[alpha] : ptr[alpha + 1]]] == alpha).all()
        assert ptr[0] == 0
        assert ptr[-1] == len(device)


@pytest.mark.parametrize("which", ["intra", "inter"])
def test_both_indices_of_observations_reach_each_once(which: str) -> None:
    _, _, shard = sharded(3, 5)
    obs: Observations = getattr(shard, which)
    K = len(obs.camera)
    assert sorted(obs.camera_obs) == list(range(K))
    for i in range(len(shard.camera_order)):
        k = obs.camera_obs[obs.camera_ptr[i] : obs.camera_ptr[i + 1]]
        assert (obs.camera[k] == i).all()
    for j in range(len(shard.point_order)):
        assert (obs.point[obs.point_ptr[j] : obs.point_ptr[j + 1]] == j).all()
    assert obs.camera_ptr[-1] == obs.point_ptr[-1] == K


def check_tasks(tasks: Tasks, device_ptr: np.ndarray) -> None:
    assert tasks.ptr[0] == 0
    assert tasks.ptr[-1] == device_ptr[-1]
    assert (np.diff(tasks.ptr) >= 0).all()
    for t, alpha in enumerate(tasks.device):
        assert device_ptr[alpha] <= tasks.ptr[t] <= tasks.ptr[t + 1] <= device_ptr[alpha + 1]
    for alpha in range(len(device_ptr) - 1):
        mine = slice(tasks.device_ptr[alpha], tasks.device_ptr[alpha + 1])
        assert (tasks.device[mine] == alpha).all()
        assert mine.stop > mine.start
    assert tasks.device_ptr[-1] == len(tasks.device)


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=12),
    st.integers(0, 10**6),
    st.sampled_from([1, 30, 3000]),
)
def test_tasks_cover_every_item_once_and_no_task_spans_devices(
    sizes: list[int], seed: int, heavy: int
) -> None:
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    work = np.random.default_rng(seed).integers(0, heavy + 1, int(ptr[-1]))
    check_tasks(make_tasks(ptr, work), ptr)


def test_tasks_of_a_larger_problem_are_many_and_even() -> None:
    problem = daba.generate(synthetic("city", cameras=60, points=12_000)).start
    shard = make_shard(problem, make_partition(problem, 4))
    tasks = shard.devices.point_tasks
    check_tasks(tasks, shard.devices.point_ptr)
    assert 8 <= len(tasks.device) <= MOST_TASKS + 8
    work = np.diff((shard.intra.point_ptr + shard.inter.point_ptr)[tasks.ptr])
    assert work.max() < 2 * work.mean()
