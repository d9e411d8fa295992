"""What lets processes share a solve, without MPI: dealing devices, joining blocks, signals."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.core.types import Observations, Tasks
from daba.distributed.comm.base import Communicator, assign_devices
from daba.distributed.scatter import options_for
from daba.distributed.shard import Shard, join, make_shard
from daba.io.store.store import Store
from daba.io.store.writing import save
from daba.partition.ordering import lay_out
from daba.runtime.observers import REASONS, Interrupt
from helpers import random_partition, random_problem

# Dealing


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(1, 12))
def test_every_rank_gets_devices_that_follow_each_other_and_an_even_share(
    work: list[int], ranks: int
) -> None:
    ranks = min(ranks, len(work))
    ptr = assign_devices(work, ranks)
    assert ptr[0] == 0
    assert ptr[-1] == len(work)
    assert (np.diff(ptr) >= 1).all()
    load = [sum(work[lo:hi]) for lo, hi in zip(ptr[:-1], ptr[1:], strict=True)]
    assert max(load) <= sum(work) / ranks + max(work)


@pytest.mark.parametrize(
    ("work", "ranks", "expected"),
    [
        ([5] * 8, 4, [0, 2, 4, 6, 8]),
        ([5] * 8, 8, list(range(9))),
        ([100, 1, 1, 1], 2, [0, 1, 4]),
        ([1, 1, 1, 100], 2, [0, 3, 4]),
        ([0, 0, 0], 3, [0, 1, 2, 3]),
        ([7, 7, 7], 1, [0, 3]),
    ],
)
def test_dealing_by_hand(work: list[int], ranks: int, expected: list[int]) -> None:
    assert assign_devices(work, ranks).tolist() == expected


def test_a_process_on_its_own_talks_to_itself() -> None:
    comm, rows = Communicator(), np.ones((3, 2))
    assert comm.gather(rows) is rows
    assert comm.collect("a") == ["a"]
    assert comm.scatter(["a"]) == comm.broadcast("a") == "a"
    assert comm.any(True)
    assert not comm.any(False)


def test_a_store_says_how_many_devices_there_are(tmp_path: Path) -> None:
    save(random_problem(), tmp_path / "a.daba", 3)
    store = Store(tmp_path / "a.daba")
    assert options_for(store, Options()).devices == 3
    assert options_for(store, Options(devices=3)).devices == 3
    assert options_for(store, Options(method="lm")).centralized
    with pytest.raises(DabaError, match="is a store of 3 devices, not of 2"):
        options_for(store, Options(devices=2))


# Joining


Rows = list[tuple[float, ...]]


class Places:
    """Of a shard's own numbers, ghosts included."""

    def __init__(self, shard: Shard) -> None:
        e, first, last = shard.ranges, shard.first, shard.first + shard.num_devices
        own_c = np.arange(e.camera_ptr[first], e.camera_ptr[last])
        own_l = np.arange(e.point_ptr[first], e.point_ptr[last])
        self.camera = np.concatenate([own_c, shard.ghost_cameras])
        self.point = np.concatenate([own_l, shard.ghost_points])

    def rows(self, obs: Observations, chosen: slice | np.ndarray) -> Rows:
        columns = (
            self.camera[obs.camera[chosen]],
            self.point[obs.point[chosen]],
            obs.u[chosen, 0],
            obs.u[chosen, 1],
            obs.weight[chosen],
        )
        return list(zip(*(column.tolist() for column in columns), strict=True))


def by_device(shard: Shard) -> dict[int, dict[str, Rows]]:
    """The observations of each device in the order in which its kernels meet them."""
    places, d, found = Places(shard), shard.devices, {}
    for a in range(shard.num_devices):
        rows = {}
        for name, obs in (("intra", shard.intra), ("inter", shard.inter)):
            points = slice(*obs.point_ptr[d.point_ptr[a : a + 2]])
            cameras = obs.camera_obs[slice(*obs.camera_ptr[d.camera_ptr[a : a + 2]])]
            rows[f"{name} by point"] = places.rows(obs, points)
            rows[f"{name} by camera"] = places.rows(obs, cameras)
        found[shard.first + a] = rows
    return found


def tasks_of(tasks: Tasks, ptr: np.ndarray, device: int) -> list[int]:
    """Where a device's tasks are cut, counted from its first item."""
    mine = slice(tasks.device_ptr[device], tasks.device_ptr[device + 1] + 1)
    return (tasks.ptr[mine] - ptr[device]).tolist()


@pytest.mark.parametrize("cut", [1, 2, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_device_meets_the_same_observations_in_the_same_order_on_any_process(
    cut: int, seed: int
) -> None:
    problem = random_problem(seed, cameras=12, points=90)
    partition = random_partition(problem, 5, seed)
    layout = lay_out(problem, partition)
    blocks = [layout.device_block(device) for device in range(5)]
    whole = make_shard(problem, partition)
    parts = [join(blocks[:cut], 0, layout.ranges), join(blocks[cut:], cut, layout.ranges)]
    assert by_device(parts[0]) | by_device(parts[1]) == by_device(whole)
    for part in parts:
        for a in range(part.num_devices):
            for kind in ("camera", "point"):
                here, there = (
                    tasks_of(
                        getattr(s.devices, f"{kind}_tasks"), getattr(s.devices, f"{kind}_ptr"), d
                    )
                    for s, d in ((part, a), (whole, part.first + a))
                )
                assert here == there


def test_ghosts_are_what_is_seen_and_owned_elsewhere() -> None:
    problem = random_problem(3, cameras=12, points=90)
    partition = random_partition(problem, 4, 3)
    layout = lay_out(problem, partition)
    shard = join([layout.device_block(2)], 2, layout.ranges)
    a = partition.camera_device[problem.camera_index]
    b = partition.point_device[problem.point_index]
    cameras = np.unique(problem.camera_index[(a != 2) & (b == 2)])
    points = np.unique(problem.point_index[(a == 2) & (b != 2)])
    assert sorted(layout.camera_order[shard.ghost_cameras]) == cameras.tolist()
    assert sorted(layout.point_order[shard.ghost_points]) == points.tolist()
    assert (np.diff(shard.ghost_cameras) > 0).all()
    assert (np.diff(shard.ghost_points) > 0).all()
    assert len(shard.state().cameras) == shard.num_cameras + len(cameras)
    assert len(shard.own(shard.state()).points) == (partition.point_device == 2).sum()
    assert len(shard.inter.camera) == ((a == 2) != (b == 2)).sum()


# Signals


@pytest.mark.parametrize("number", REASONS)
def test_a_signal_is_remembered_and_handlers_are_put_back(number: signal.Signals) -> None:
    before = {n: signal.getsignal(n) for n in REASONS}
    with Interrupt() as interrupt:
        assert interrupt.reason == ""
        os.kill(os.getpid(), number)
        assert interrupt.reason == REASONS[number]
        os.kill(os.getpid(), signal.SIGTERM)  # launchers send it more than once
        assert interrupt.reason == REASONS[number]
    assert {n: signal.getsignal(n) for n in REASONS} == before


def test_a_second_ctrl_c_does_not_wait() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_leave_signals_alone() -> None:
    before, found = signal.getsignal(signal.SIGTERM), []

    def enter() -> None:
        with Interrupt():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [before]
