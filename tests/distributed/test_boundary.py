"""What devices tell each other, against sets of what they see; and what a network makes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from daba.distributed.network_model import NetworkModel
from daba.distributed.shard import Boundary, boundary_of, join, make_shard
from daba.partition.ordering import lay_out
from helpers import random_partition, random_problem


@pytest.mark.parametrize("devices", [1, 3, 5])
def test_every_variable_is_told_once_to_every_device_that_sees_it(devices: int) -> None:
    problem = random_problem(devices, cameras=12, points=40, see=0.2)
    partition = random_partition(problem, devices)
    cameras, points = set(), set()
    for camera, point in zip(problem.camera_index, problem.point_index, strict=True):
        here, there = partition.camera_device[camera], partition.point_device[point]
        if here != there:
            cameras.add((camera, there))
            points.add((point, here))
    expected = Boundary(len(cameras), len(points))
    assert boundary_of(make_shard(problem, partition)) == expected
    layout = lay_out(problem, partition)
    apart = [boundary_of(join([layout.device_block(d)], d, layout.ranges)) for d in range(devices)]
    assert Boundary(*(sum(column) for column in zip(*apart, strict=True))) == expected
    assert expected.bytes(cameras=9, points=3) == 8 * (9 * len(cameras) + 3 * len(points))


def test_images_of_a_frame_are_told_of_together() -> None:
    problem = random_problem(0, cameras=12, points=40, see=0.2)
    partition = random_partition(problem, 3)
    shard = make_shard(problem, partition)
    alone = boundary_of(shard, np.arange(12, dtype=np.int32))
    assert alone == boundary_of(shard)
    merged = boundary_of(shard, np.zeros(12, np.int32))
    assert merged.points == alone.points
    assert merged.cameras <= 3 < alone.cameras


def test_a_network_takes_its_latency_for_each_hop_and_its_bandwidth_for_the_bytes() -> None:
    network = NetworkModel(devices=8, latency=1e-3, bandwidth=1e6)
    assert network.seconds(10, 0, 0, 0) == pytest.approx(10e-3)
    assert network.seconds(0, 10, 0, 0) == pytest.approx(30e-3)  # 2³ devices
    assert network.seconds(0, 0, 8e6, 0) == pytest.approx(1.0)  # eight links at once
    assert network.seconds(0, 0, 0, 1e6) == pytest.approx(1.0)  # all of it comes to everyone
    assert NetworkModel(1, 1e-3, 1e6).seconds(5, 5, 5, 5) == 0.0
    many = NetworkModel(512, 1e-3, math.inf)
    assert many.seconds(1, 1, 1, 1) == pytest.approx(10e-3)
