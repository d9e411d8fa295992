"""Cameras and points to devices, and what a partition will cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from daba.errors import DabaError
from daba.predict import Holding
from daba.problem import CAMERA_RECORD, Ints, Problem
from daba.sorting import stable_order

ROOM = 1.05
"""Most that a device works on, over the mean, when cameras are moved to their points."""
ROUNDS = 6
TRIES = 8
EDGES_IN_ALL = 2_000_000
"""Partitions tried, if METIS has not seen so many edges by then."""

Chunk = tuple[Ints, Ints, range]
"""All observations of a range of points: cameras, points counted from its first, the range."""


@dataclass(frozen=True)
class Partition:
    """Which device owns each camera and each point."""

    camera_device: Ints
    point_device: Ints
    devices: int


@dataclass(frozen=True)
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


def make_partition(problem: Problem, devices: int, seed: int = 0) -> Partition:
    """Split by METIS on the camera graph: edges weighted by common points, cameras by their
    observations; each point goes to the device that sees it most, and each camera, if that device
    has room, to the one that owns most of its points. The same seed gives the same partition."""
    C, P, ends = (
        problem.num_cameras,
        problem.num_points,
        (problem.camera_index, problem.point_index),
    )
    check_devices(devices, C)
    graph = camera_graph(*ends, C, P) if devices > 1 else None
    load = np.bincount(problem.camera_index, minlength=C)
    cameras = split_cameras(graph, load, devices, seed)
    cameras = settle_cameras(cameras, load, devices, lambda: [(*ends, range(P))])
    return Partition(cameras, split_points(*ends, cameras, devices, range(P)), devices)


def check_devices(devices: int, cameras: int) -> None:
    if devices < 1:
        raise DabaError(f"the number of devices must be at least 1, not {devices}")
    if devices > cameras:
        raise DabaError(
            f"{devices} devices but only {cameras} cameras: every device needs at least one "
            f"camera, so use --devices {cameras} or fewer"
        )


def partition_from_arrays(
    problem: Problem, camera_device: np.ndarray, point_device: np.ndarray | None = None
) -> Partition:
    """A partition given by the user; points follow their cameras if not given."""
    cameras = np.ascontiguousarray(camera_device, dtype=np.int32)
    if cameras.shape != (problem.num_cameras,) or cameras.min() < 0:
        raise DabaError(
            f"camera_device must hold one device number for each of {problem.num_cameras} cameras"
        )
    devices = int(cameras.max()) + 1
    if len(np.unique(cameras)) < devices:
        raise DabaError(f"camera_device must use every device from 0 to {devices - 1}")
    if point_device is None:
        P = range(problem.num_points)
        points = split_points(problem.camera_index, problem.point_index, cameras, devices, P)
        return Partition(cameras, points, devices)
    points = np.ascontiguousarray(point_device, dtype=np.int32)
    inside = points.shape == (problem.num_points,) and points.min() >= 0 and points.max() < devices
    if not inside:
        raise DabaError(
            f"point_device must hold a device number below {devices} for each of "
            f"{problem.num_points} points"
        )
    return Partition(cameras, points, devices)


def statistics(problem: Problem, partition: Partition) -> PartitionStatistics:
    """Balance, share of inter observations, neighbours and bytes per iteration."""
    tally = Tally(partition)
    tally.add(problem.camera_index, problem.point_index)
    return tally.statistics()


class Tally:
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
        held = (
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
            memory=[Holding(*map(int, one)).memory for one in zip(*held, strict=True)],
            boundary_cameras=len(np.unique(camera)),
            boundary_points=len(np.unique(point)),
        )


class Distinct:
    """Distinct numbers among many. New ones wait until they are as many as those known, so that
    each is sorted only a few times and memory stays at twice the result."""

    def __init__(self) -> None:
        self._known = np.empty(0, np.int64)
        self._waiting: list[np.ndarray] = []

    def add(self, numbers: np.ndarray) -> None:
        self._waiting.append(np.unique(numbers))
        if sum(map(len, self._waiting)) > len(self._known):
            self.values()

    def values(self) -> np.ndarray:
        self._known = np.unique(np.concatenate([self._known, *self._waiting]))
        self._waiting = []
        return self._known


def camera_graph(camera: Ints, point: Ints, cameras: int, points: int) -> Any:
    """How strongly every two cameras are tied, as a SciPy sparse matrix (C, C) of integers, from
    all observations of some points. Graphs of different points add up.

    A point seen by n cameras adds 1000/√(n−1) to each pair of them: counted in full, a few long
    tracks would outweigh all others, though cutting one costs no more. It is rounded, so that
    the sum does not depend on the order of points.
    """
    from scipy.sparse import csr_array

    seen = csr_array(
        (np.ones(len(camera), np.int64), (camera, point)),
        shape=(cameras, points),
    )
    seen.data[:] = 1  # an observation given twice makes no stronger tie
    track = np.bincount(seen.indices, minlength=points)
    tie = np.maximum(np.rint(1000.0 / np.sqrt(np.maximum(track - 1, 1))), 1).astype(np.int64)
    tied = csr_array((tie[seen.indices], seen.indices, seen.indptr), shape=seen.shape)
    graph = (tied @ seen.T).tocsr()
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph


def split_cameras(graph: Any, load: np.ndarray, devices: int, seed: int) -> Ints:
    """Device of each camera: the best of some partitions by METIS, which differ by some per cent
    in what they cut.

    graph   the whole `camera_graph`; not needed for one device
    load    observations of each camera
    """
    if devices == 1:
        return np.zeros(len(load), dtype=np.int32)
    import pymetis

    graph.sort_indices()  # METIS looks at neighbours in the order they have here
    integer = pymetis.zero_copy_dtype()
    adjacency = pymetis.CSRAdjacency(graph.indptr.astype(integer), graph.indices.astype(integer))
    vertices, edges = np.maximum(load, 1).astype(integer), graph.data.astype(integer)
    found = [
        pymetis.part_graph(
            devices,
            adjacency,
            vweights=vertices,
            eweights=edges,
            recursive=True,  # bisection cut less than the k-way method on every problem at hand
            options=pymetis.Options(seed=TRIES * seed + k),
        )
        for k in range(min(TRIES, 1 + EDGES_IN_ALL // max(graph.nnz, 1)))
    ]
    _, parts = min(found, key=lambda one: int(one[0]))
    cameras = np.asarray(parts, dtype=np.int32)
    _fill_empty(cameras, load, devices)
    return cameras


def settle_cameras(
    camera_device: Ints, load: np.ndarray, devices: int, read: Callable[[], Iterable[Chunk]]
) -> Ints:
    """Move cameras to the device that owns most of what they see, as long as it does not grow
    beyond ROOM times the mean, and while that lowers the number of inter observations.

    METIS weighs what it cuts in all and leaves a camera with few observations wherever it is;
    seen from a device that owns next to none of its points it is all but undetermined.

    read   gives all observations anew, all of a point at once: their cameras, their points counted
           from the first of a range, and that range
    """
    best, most = camera_device, -1
    for _ in range(ROUNDS if devices > 1 else 0):
        votes = _votes(camera_device, devices, read)
        place = np.arange(len(load))
        own = votes[place, camera_device]
        intra = int(own.sum())
        if intra <= most:
            break
        best, most = camera_device, intra
        wanted = votes.argmax(axis=1).astype(np.int32)
        gain = votes[place, wanted] - own
        moves = _fitting(camera_device, wanted, gain, load, devices)
        if len(moves) == 0:
            break
        camera_device = camera_device.copy()
        camera_device[moves] = wanted[moves]
    return best


def _votes(camera_device: Ints, devices: int, read: Callable[[], Iterable[Chunk]]) -> np.ndarray:
    """How many points that each camera sees each device owns, (C, S)."""
    votes = np.zeros(len(camera_device) * devices, np.int32)
    for camera, point, points in read():
        owner = split_points(camera, point, camera_device, devices, points)
        cells, counts = np.unique(
            camera.astype(np.int64) * devices + owner[point], return_counts=True
        )
        votes[cells] += counts.astype(np.int32)
    return votes.reshape(-1, devices)


def _fitting(
    camera_device: Ints, wanted: Ints, gain: np.ndarray, load: np.ndarray, devices: int
) -> np.ndarray:
    """The cameras to move, those that gain most of their observations first: as many as each
    device has room for, and never the one of a device that gains least: it must keep one."""
    held = np.bincount(camera_device, weights=load, minlength=devices)
    room = np.maximum(ROOM * held.mean() - held, 0.0)
    by_gain = np.lexsort((gain, camera_device))
    least = by_gain[np.flatnonzero(np.diff(camera_device[by_gain], prepend=-1))]
    movable = gain > 0
    movable[least] = False
    asking = np.flatnonzero(movable)
    asking = asking[np.argsort(-gain[asking] / np.maximum(load[asking], 1), kind="stable")]
    asking = asking[stable_order(wanted[asking], devices)]
    target, size = wanted[asking], load[asking].astype(np.float64)
    taken = np.cumsum(size)
    begins = np.searchsorted(target, np.arange(devices))
    before = np.concatenate([[0.0], taken])[begins]
    return asking[taken - before[target] <= room[target]]


def _fill_empty(cameras: Ints, load: np.ndarray, devices: int) -> None:
    """METIS may leave a device empty when there are few cameras: give it the heaviest camera of
    the device with most cameras."""
    for device in range(devices):
        counts = np.bincount(cameras, minlength=devices)
        if counts[device] == 0:
            donors = np.flatnonzero(cameras == counts.argmax())
            cameras[donors[load[donors].argmax()]] = device


def split_points(
    camera: Ints, point: Ints, camera_device: Ints, devices: int, points: range
) -> Ints:
    """Device of each point in a range, from all observations of these points (`point` counts
    from the first of them): the one with most of them. The lowest number wins a tie, and points
    without observations are dealt out evenly."""
    if devices == 1:
        return np.zeros(len(points), np.int32)
    from scipy.sparse import csr_array

    votes = csr_array(
        (np.ones(len(point), np.int32), (point, camera_device[camera])),
        shape=(len(points), devices),
    )
    votes.sum_duplicates()
    votes.sort_indices()
    row = np.repeat(np.arange(len(points)), np.diff(votes.indptr))
    order = np.lexsort((votes.indices, -votes.data, row))
    best = order[np.searchsorted(row, np.unique(row))]  # `order` keeps rows together
    owner = (np.arange(points.start, points.stop) % devices).astype(np.int32)
    owner[np.unique(row)] = votes.indices[best]
    return owner
