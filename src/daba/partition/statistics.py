"""What a partition costs: balance, boundary, bytes and memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from daba.core.types import distinct, frozen
from daba.partition.memory_model import Holding
from daba.partition.partition import Partition
from daba.problem.checks import CAMERA_RECORD
from daba.problem.problem import Ints, Problem


@frozen
class PartitionStatistics:
    """What `daba partition` prints."""

    devices: int
    cameras: list[int]
    """Cameras of each device."""
    points: list[int]
    observations: list[int]
    """Observations each device works on: its own and those shared with a neighbour."""
    imbalance: float
    """Largest device over the mean, by observations of its cameras."""
    inter_share: float
    """Share of observations whose camera and point live on different devices."""
    neighbours: list[int]
    """Devices each device exchanges with."""
    bytes_sent: list[int]
    """Bytes each device sends per iteration (float64, every shared variable once)."""
    memory: list[int]
    """Bytes that a process of its own for each device will need at most (predicted)."""
    boundary_cameras: int
    """Cameras that some other device sees."""
    boundary_points: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def statistics(problem: Problem, partition: Partition) -> PartitionStatistics:
    """Balance, share of inter observations, neighbours and bytes per iteration."""
    total = StatisticsSum(partition)
    total.add(problem.camera_index, problem.point_index)
    return total.statistics()


class StatisticsSum:
    """Statistics of a partition from its observations, a few at a time and in any order."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self._load = np.zeros(partition.devices, np.int64)
        """Observations of each device's cameras."""
        self._foreign = np.zeros(partition.devices, np.int64)
        """Observations of its points by cameras of others."""
        self._outer = np.zeros(partition.devices, np.int64)
        """Observations of points of others by its cameras."""
        self._ghosts_c, self._ghosts_l, self._pairs = Distinct(), Distinct(), Distinct()

    def add(self, camera: Ints, point: Ints) -> None:
        S = self.partition.devices
        a = self.partition.camera_device[camera].astype(np.int64)
        b = self.partition.point_device[point].astype(np.int64)
        inter = a != b
        self._load += np.bincount(a, minlength=S)
        a, b = a[inter], b[inter]
        self._foreign += np.bincount(b, minlength=S)
        self._outer += np.bincount(a, minlength=S)
        # A variable and a device that must know it: each such pair is one ghost.
        self._ghosts_c.add(camera[inter] * np.int64(S) + b)
        self._ghosts_l.add(point[inter] * np.int64(S) + a)
        self._pairs.add(a * S + b)
        self._pairs.add(b * S + a)

    def statistics(self) -> PartitionStatistics:
        S, p = self.partition.devices, self.partition
        (camera, at_c), (point, at_l) = (
            divmod(ghosts.values(), S) for ghosts in (self._ghosts_c, self._ghosts_l)
        )
        cameras = np.bincount(p.camera_device, minlength=S)
        points = np.bincount(p.point_device, minlength=S)
        holdings = (
            cameras,
            points,
            self._load - self._outer,
            self._foreign + self._outer,
            np.bincount(at_c, minlength=S),
            np.bincount(at_l, minlength=S),
        )
        sent = 8 * (
            CAMERA_RECORD * np.bincount(p.camera_device[camera], minlength=S)
            + 3 * np.bincount(p.point_device[point], minlength=S)
        )
        return PartitionStatistics(
            devices=S,
            cameras=cameras.tolist(),
            points=points.tolist(),
            observations=(self._load + self._foreign).tolist(),
            imbalance=float(self._load.max() / self._load.mean()),
            inter_share=float(self._foreign.sum() / self._load.sum()),
            neighbours=np.bincount(self._pairs.values() // S, minlength=S).tolist(),
            bytes_sent=sent.tolist(),
            memory=[Holding(*map(int, one)).memory for one in zip(*holdings, strict=True)],
            boundary_cameras=len(distinct(camera)),
            boundary_points=len(distinct(point)),
        )


class Distinct:
    """Distinct numbers among many. New ones wait until they are as many as those known, so that
    each is sorted only a few times and memory stays at twice the result."""

    def __init__(self) -> None:
        self._known = np.empty(0, np.int64)
        self._waiting: list[np.ndarray] = []

    def add(self, numbers: np.ndarray) -> None:
        self._waiting.append(distinct(numbers))
        if sum(map(len, self._waiting)) > len(self._known):
            self.values()

    def values(self) -> np.ndarray:
        self._known = distinct(np.concatenate([self._known, *self._waiting]))
        self._waiting = []
        return self._known
