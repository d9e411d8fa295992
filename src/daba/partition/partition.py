"""Cameras and points to devices: by METIS, and then by who sees what.

The functions below `make_partition` take observations as arrays, some or all of them, so that a
problem in memory and one that is streamed from a file are split by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.types import distinct, frozen
from daba.problem.problem import Ints, Problem

ROOM = 1.05
"""Most that a device works on, over the mean, when cameras are moved to their points."""
ROUNDS = 6
"""Of moving cameras to their points, at most."""
TRIES = 8
"""Partitions tried, …"""
EDGES_IN_ALL = 2_000_000
"""… if METIS has not seen so many edges by then."""

Chunk = tuple[Ints, Ints, range]
"""All observations of a range of points: cameras, points counted from its first, the range."""


@frozen
class Partition:
    """Which device owns each camera and each point."""

    camera_device: Ints
    """Device of each camera, (C,)."""
    point_device: Ints
    """Device of each point, (P,)."""
    devices: int
    """How many there are."""


def make_partition(problem: Problem, devices: int, seed: int = 0) -> Partition:
    """Split by METIS on the camera graph: edges weighted by common points, cameras by their
    observations; each point goes to the device that sees it most, and each camera, if that device
    has room, to the one that owns most of its points. The same seed gives the same partition. Where
    METIS is not installed, cameras are bisected by what they look at instead. The images of a frame
    stay together: it is split like a camera that sees what all of them see."""
    P, frame = problem.num_points, frames_of(problem)
    if devices == 1:
        return Partition(np.zeros(problem.num_cameras, np.int32), np.zeros(P, np.int32), 1)
    C = num_frames(problem)
    camera_index = problem.camera_index if frame is None else frame[problem.camera_index]
    ends = camera_index, problem.point_index
    check_devices(devices, C, "camera" if frame is None else "frame")
    load = np.bincount(camera_index, minlength=C)
    if not has_metis():
        from daba.partition.bisection import bisect_cameras, centroids_seen, few

        some = few(C, len(camera_index))
        seen = centroids_seen(problem.points, camera_index[some], problem.point_index[some], C)
        cameras = bisect_cameras(seen, load, devices)
    else:
        cameras = split_cameras(camera_graph(*ends, C, P), load, devices, seed)
    cameras = settle_cameras(cameras, load, devices, lambda: [(*ends, range(P))])
    points = split_points(*ends, cameras, devices, range(P))
    return Partition(cameras if frame is None else cameras[frame], points, devices)


def frames_of(problem: Problem) -> Ints | None:
    """Frame of each image, where frames have several."""
    return None if problem.given_optics is None else problem.given_optics.frame


def num_frames(problem: Problem) -> int:
    """The most devices that a problem can have: each needs a frame, or an image without rigs."""
    frame = frames_of(problem)
    return problem.num_cameras if frame is None else int(frame.max()) + 1


def check_devices(devices: int, cameras: int, what: str = "camera") -> None:
    if devices < 1:
        raise DabaError(f"the number of devices must be at least 1, not {devices}")
    if devices > cameras:
        raise DabaError(
            f"{devices} devices but only {cameras} {what}s: every device needs at least one "
            f"{what}, so use --devices {cameras} or fewer"
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
    if len(distinct(cameras)) < devices:
        raise DabaError(f"camera_device must use every device from 0 to {devices - 1}")
    if (frame := frames_of(problem)) is not None:
        first = np.unique(frame, return_index=True)[1]
        bad = np.flatnonzero(cameras != cameras[first][frame])
        if len(bad):
            raise DabaError(
                f"images {first[frame[bad[0]]]} and {bad[0]} are of one frame of a rig, so they "
                "must be on one device"
            )
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


def has_metis() -> bool:
    """Whether METIS, and the sparse matrices its graph is made with, are installed."""
    try:
        return all(find_spec(name) is not None for name in ("pymetis", "scipy"))
    except ValueError:  # a module that was made unavailable
        return False


def camera_graph(camera: Ints, point: Ints, cameras: int, points: int) -> Any:
    """How strongly every two cameras are connected, as a SciPy sparse matrix (C, C) of integers,
    from all observations of some points. Graphs of different points add up.

    A point seen by n cameras adds 1000/√(n−1) to each pair of them: counted in full, a few long
    tracks would outweigh all others, though cutting one costs no more. It is rounded, so that
    the sum does not depend on the order of points.
    """
    from scipy.sparse import csr_array

    seen = csr_array(
        (np.ones(len(camera), np.int64), (camera, point)),
        shape=(cameras, points),
    )
    seen.data[:] = 1  # an observation given twice makes no stronger edge
    weight = edge_weights(np.bincount(seen.indices, minlength=points))
    weighted = csr_array((weight[seen.indices], seen.indices, seen.indptr), shape=seen.shape)
    graph = (weighted @ seen.T).tocsr()
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph


def edge_weights(track: np.ndarray) -> np.ndarray:
    """What a point that so many cameras see adds to each pair of them."""
    return np.maximum(np.rint(1000.0 / np.sqrt(np.maximum(track - 1, 1))), 1).astype(np.int64)


def split_cameras(
    graph: Any, load: np.ndarray, devices: int, seed: int, tries: int = TRIES
) -> Ints:
    """Device of each camera: the best of some partitions by METIS, which differ by some per cent
    in what they cut.

    graph   the whole `camera_graph`; not needed for one device
    load    observations of each camera
    tries   partitions at most
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
        for k in range(min(tries, 1 + EDGES_IN_ALL // max(graph.nnz, 1)))
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
        every = np.arange(len(load))
        own = votes[every, camera_device]
        intra = int(own.sum())
        if intra <= most:
            break
        best, most = camera_device, intra
        wanted = votes.argmax(axis=1).astype(np.int32)
        gain = votes[every, wanted] - own
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
        cells, counts = _counted(camera.astype(np.int64) * devices + owner[point], len(votes))
        votes[cells] += counts.astype(np.int32)
    return votes.reshape(-1, devices)


def _fitting(
    camera_device: Ints, wanted: Ints, gain: np.ndarray, load: np.ndarray, devices: int
) -> np.ndarray:
    """The cameras to move, those that gain most of their observations first: as many as each
    device has room for, and never the one of a device that gains least: it must keep one."""
    work = np.bincount(camera_device, weights=load, minlength=devices)
    room = np.maximum(ROOM * work.mean() - work, 0.0)
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
    from the first of them): the one with most of them. Of equals the lowest
    number wins, and points without observations are spread evenly."""
    if devices == 1:
        return np.zeros(len(points), np.int32)
    cells, counts = _counted(
        point.astype(np.int64) * devices + camera_device[camera], len(points) * devices
    )
    row = cells // devices
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    most = np.repeat(np.maximum.reduceat(counts, begins), np.diff(np.append(begins, len(row))))
    largest = np.flatnonzero(counts == most)
    best = cells[largest[np.flatnonzero(np.diff(row[largest], prepend=-1))]]
    owner = (np.arange(points.start, points.stop) % devices).astype(np.int32)
    owner[best // devices] = (best % devices).astype(np.int32)
    return owner


def _counted(keys: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct keys, ascending, and how often each is there; all are below `bound`. Counting takes
    a third of the time of sorting, unless there are many more cells than keys."""
    if bound > 8 * len(keys):
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys, minlength=bound)
    cells = np.flatnonzero(counts)
    return cells, counts[cells]


def stable_order(keys: np.ndarray, count: int) -> np.ndarray:
    """What sorts keys below `count`, equal ones as they are. NumPy sorts 16 bits by radix, eight
    times sooner."""
    return np.argsort(keys.astype(np.uint16) if count <= 1 << 16 else keys, kind="stable")
