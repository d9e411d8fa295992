"""Who owns what: complete, balanced, repeatable, and its statistics are true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import daba
from daba.core.errors import DabaError
from daba.partition.partition import (
    ROOM,
    Partition,
    make_partition,
    partition_from_arrays,
    settle_cameras,
)
from daba.partition.statistics import statistics
from daba.problem.problem import Problem
from helpers import random_partition, random_problem, synthetic

CITY = daba.generate(synthetic("city", cameras=48, points=2500, seed=3)).start


def complete(problem: Problem, partition: Partition, devices: int) -> None:
    assert partition.devices == devices
    assert partition.camera_device.shape == (problem.num_cameras,)
    assert partition.point_device.shape == (problem.num_points,)
    assert set(partition.camera_device) == set(range(devices))
    assert partition.point_device.min() >= 0
    assert partition.point_device.max() < devices


@pytest.mark.parametrize("devices", [1, 2, 5, 8, 24, 48])
def test_every_camera_and_point_has_a_device_and_no_device_is_empty(devices: int) -> None:
    complete(CITY, make_partition(CITY, devices), devices)


@pytest.mark.parametrize("cameras", [2, 3, 5, 9])
def test_metis_may_leave_a_device_empty_but_we_do_not(cameras: int) -> None:
    problem = random_problem(4, cameras=cameras, points=12, see=1.0)
    for devices in range(1, cameras + 1):
        complete(problem, make_partition(problem, devices), devices)


def test_cameras_that_share_nothing_are_still_dealt_out() -> None:
    edges = np.repeat(np.arange(6), 4), np.arange(24)
    problem = random_problem(1, cameras=6, points=24, edges=edges)
    for devices in (1, 2, 3, 6):
        complete(problem, make_partition(problem, devices), devices)


def test_the_same_seed_gives_the_same_partition() -> None:
    one, two = make_partition(CITY, 6, seed=5), make_partition(CITY, 6, seed=5)
    np.testing.assert_array_equal(one.camera_device, two.camera_device)
    np.testing.assert_array_equal(one.point_device, two.point_device)


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_devices_have_about_equal_shares_of_the_observations(devices: int) -> None:
    partition = make_partition(CITY, devices)
    load = np.bincount(partition.camera_device[CITY.camera_index], minlength=devices)
    heaviest = np.bincount(CITY.camera_index).max()  # a camera cannot be cut in two
    assert load.max() < 1.2 * load.mean() + heaviest


def test_the_cut_is_far_smaller_than_a_random_one() -> None:
    def share(partition: Partition) -> float:
        return statistics(CITY, partition).inter_share

    assert share(make_partition(CITY, 4)) < 0.5 * share(
        partition_from_arrays(CITY, np.random.default_rng(0).permutation(48) % 4)
    )


def test_points_go_to_the_device_that_sees_them_most() -> None:
    partition = make_partition(CITY, 5)
    votes = np.zeros((CITY.num_points, 5), int)
    np.add.at(votes, (CITY.point_index, partition.camera_device[CITY.camera_index]), 1)
    np.testing.assert_array_equal(partition.point_device, votes.argmax(axis=1))  # lowest on a tie


def test_points_without_observations_are_dealt_out_evenly() -> None:
    points = np.vstack([CITY.points, CITY.points[:400] + 1.0])
    problem = replace(CITY, points=points)
    partition = make_partition(problem, 4)
    complete(problem, partition, 4)
    extra = np.bincount(partition.point_device[CITY.num_points :], minlength=4)
    assert extra.tolist() == [100, 100, 100, 100]


def test_statistics_equal_a_count_by_hand() -> None:
    problem = random_problem(7, cameras=7, points=20, see=0.3)
    partition = random_partition(problem, 4, 2)
    found = statistics(problem, partition)
    cam, pt = partition.camera_device, partition.point_device
    pairs = [
        (int(i), int(j), int(cam[i]), int(pt[j]))
        for i, j in zip(problem.camera_index, problem.point_index, strict=True)
    ]
    inter = [p for p in pairs if p[2] != p[3]]
    assert found.devices == 4
    assert found.inter_share == pytest.approx(len(inter) / len(pairs))
    for alpha in range(4):
        assert found.cameras[alpha] == sum(int(c) == alpha for c in cam)
        assert found.points[alpha] == sum(int(p) == alpha for p in pt)
        assert found.observations[alpha] == sum(alpha in (a, b) for _, _, a, b in pairs)
        partners = {b if a == alpha else a for _, _, a, b in inter if alpha in (a, b)}
        assert found.neighbours[alpha] == len(partners)
        cameras_sent = {(i, b) for i, _, a, b in inter if a == alpha}
        points_sent = {(j, a) for _, j, a, b in inter if b == alpha}
        assert found.bytes_sent[alpha] == 8 * (15 * len(cameras_sent) + 3 * len(points_sent))
    load = [sum(a == alpha for _, _, a, _ in pairs) for alpha in range(4)]
    assert found.imbalance == pytest.approx(max(load) / np.mean(load))
    assert found.boundary_cameras == len({i for i, _, _, _ in inter})
    assert found.boundary_points == len({j for _, j, _, _ in inter})


def test_one_device_has_no_border() -> None:
    found = statistics(CITY, make_partition(CITY, 1))
    assert (found.inter_share, found.neighbours, found.bytes_sent) == (0.0, [0], [0])


def test_more_devices_than_cameras_are_refused() -> None:
    with pytest.raises(DabaError, match="49 devices but only 48 cameras"):
        make_partition(CITY, 49)
    with pytest.raises(DabaError, match="at least 1, not 0"):
        make_partition(CITY, 0)


def test_a_partition_of_ones_own_is_checked() -> None:
    problem = random_problem(1, cameras=4, points=10)
    kept = partition_from_arrays(problem, np.array([0, 1, 1, 0]))
    complete(problem, kept, 2)
    with pytest.raises(DabaError, match="each of 4 cameras"):
        partition_from_arrays(problem, np.array([0, 1, 1]))
    with pytest.raises(DabaError, match="every device from 0 to 2"):
        partition_from_arrays(problem, np.array([0, 2, 2, 0]))
    with pytest.raises(DabaError, match="below 2 for each of 10 points"):
        partition_from_arrays(problem, np.array([0, 1, 1, 0]), np.full(10, 2))
    with pytest.raises(DabaError, match="below 2 for each of 10 points"):
        partition_from_arrays(problem, np.array([0, 1, 1, 0]), np.zeros(9, int))


@given(st.integers(0, 10**6), st.integers(2, 6))
@settings(max_examples=40)
def test_settling_cuts_no_more_and_keeps_devices_alive_and_balanced(
    seed: int, devices: int
) -> None:
    problem = random_problem(seed % 50, cameras=18, points=120)
    ends = problem.camera_index, problem.point_index
    load = np.bincount(problem.camera_index, minlength=problem.num_cameras)
    before = np.random.default_rng(seed).integers(0, devices, problem.num_cameras).astype(np.int32)
    before[:devices] = np.arange(devices)
    read = lambda: [(*ends, range(problem.num_points))]  # noqa: E731
    after = settle_cameras(before, load, devices, read)
    cut = [
        statistics(problem, partition_from_arrays(problem, cameras)).inter_share
        for cameras in (before, after)
    ]
    assert cut[1] <= cut[0]
    assert len(np.unique(after)) == devices
    held = [np.bincount(cameras, weights=load, minlength=devices) for cameras in (before, after)]
    grown = held[1] > held[0]
    assert (held[1][grown] <= ROOM * load.sum() / devices * (1 + 1e-12)).all()


def test_a_camera_moves_to_its_points() -> None:
    """Two groups of cameras, each with its own points; one camera was put with the others."""
    camera = np.repeat(np.arange(6), 20)
    point = np.concatenate([np.arange(20)] * 3 + [np.arange(20, 40)] * 3)
    load = np.bincount(camera)
    wrong = np.array([0, 0, 1, 1, 1, 1], np.int32)
    read = lambda: [(camera.astype(np.int32), point.astype(np.int32), range(40))]  # noqa: E731
    assert settle_cameras(wrong, load, 2, read).tolist() == [0, 0, 0, 1, 1, 1]
