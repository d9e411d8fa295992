"""Cameras and points to devices, and what a partition will cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from daba.errors import DabaError
from daba.problem import CAMERA_RECORD, Floats, Ints, Problem


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
    boundary_cameras: int
    """Cameras that some other device sees."""
    boundary_points: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def make_partition(problem: Problem, devices: int, seed: int = 0) -> Partition:
    """Split by METIS on the camera graph: edges weighted by common points, cameras by their
    observations; each point goes to the device that sees it most. The same seed gives the same
    partition."""
    C = problem.num_cameras
    if devices < 1:
        raise DabaError(f"the number of devices must be at least 1, not {devices}")
    if devices > C:
        raise DabaError(
            f"{devices} devices but only {C} cameras: every device needs at least one camera, "
            f"so use --devices {C} or fewer"
        )
    if devices == 1:
        cameras = np.zeros(C, dtype=np.int32)
    else:
        cameras = _metis(problem, devices, seed)
        _fill_empty(cameras, problem, devices)
    return Partition(cameras, _points_to_devices(problem, cameras, devices), devices)


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
        return Partition(cameras, _points_to_devices(problem, cameras, devices), devices)
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
    S = partition.devices
    a = partition.camera_device[problem.camera_index].astype(np.int64)
    b = partition.point_device[problem.point_index].astype(np.int64)
    inter = a != b
    ghosts_c = _distinct_pairs(problem.camera_index[inter], b[inter], S)
    ghosts_l = _distinct_pairs(problem.point_index[inter], a[inter], S)
    sent = 8 * (
        CAMERA_RECORD * np.bincount(partition.camera_device[ghosts_c[0]], minlength=S)
        + 3 * np.bincount(partition.point_device[ghosts_l[0]], minlength=S)
    )
    pairs = np.unique(np.concatenate([a[inter] * S + b[inter], b[inter] * S + a[inter]]))
    load = np.bincount(a, minlength=S)
    return PartitionStatistics(
        devices=S,
        cameras=np.bincount(partition.camera_device, minlength=S).tolist(),
        points=np.bincount(partition.point_device, minlength=S).tolist(),
        observations=(load + np.bincount(b[inter], minlength=S)).tolist(),
        imbalance=float(load.max() / load.mean()),
        inter_share=float(inter.mean()),
        neighbours=np.bincount(pairs // S, minlength=S).tolist(),
        bytes_sent=sent.tolist(),
        boundary_cameras=len(np.unique(ghosts_c[0])),
        boundary_points=len(np.unique(ghosts_l[0])),
    )


def _distinct_pairs(item: Ints, device: np.ndarray, S: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct (item, device) pairs: each is one ghost."""
    keys = np.unique(item.astype(np.int64) * S + device)
    return keys // S, keys % S


def camera_graph(problem: Problem) -> Any:
    """How strongly every two cameras are tied, as a SciPy sparse matrix (C, C).

    A point seen by n cameras adds 1/√(n−1) to each pair of them: counted in full, a few long
    tracks would outweigh all others, though cutting one costs no more.
    """
    from scipy.sparse import csr_array, diags_array

    seen = csr_array(
        (np.ones(problem.num_observations), (problem.camera_index, problem.point_index)),
        shape=(problem.num_cameras, problem.num_points),
    )
    seen.data[:] = 1.0  # an observation given twice makes no stronger tie
    track = np.bincount(seen.indices, minlength=problem.num_points)
    graph = (seen @ diags_array(1.0 / np.sqrt(np.maximum(track - 1, 1))) @ seen.T).tocsr()
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph


def _metis(problem: Problem, devices: int, seed: int) -> Ints:
    import pymetis

    graph = camera_graph(problem)
    weights = np.maximum(np.bincount(problem.camera_index, minlength=problem.num_cameras), 1)
    _, parts = pymetis.part_graph(
        devices,
        pymetis.CSRAdjacency(graph.indptr.tolist(), graph.indices.tolist()),
        vweights=weights.tolist(),
        eweights=np.maximum(1000 * graph.data, 1).astype(np.int64).tolist(),
        recursive=True,  # bisection cut less than the k-way method on every problem at hand
        options=pymetis.Options(seed=seed),
    )
    return np.asarray(parts, dtype=np.int32)


def _fill_empty(cameras: Ints, problem: Problem, devices: int) -> None:
    """METIS may leave a device empty when there are few cameras: give it the heaviest camera of
    the device with most cameras."""
    weight = np.bincount(problem.camera_index, minlength=len(cameras))
    for device in range(devices):
        counts = np.bincount(cameras, minlength=devices)
        if counts[device] == 0:
            donors = np.flatnonzero(cameras == counts.argmax())
            cameras[donors[weight[donors].argmax()]] = device


def _points_to_devices(problem: Problem, camera_device: Ints, devices: int) -> Ints:
    """The device with most observations of each point; the lowest number wins a tie, and points
    without observations are dealt out evenly."""
    from scipy.sparse import csr_array

    votes: Floats = np.ones(problem.num_observations, dtype=np.int32)
    table = csr_array(
        (votes, (problem.point_index, camera_device[problem.camera_index])),
        shape=(problem.num_points, devices),
    )
    table.sum_duplicates()
    table.sort_indices()
    row = np.repeat(np.arange(problem.num_points), np.diff(table.indptr))
    order = np.lexsort((table.indices, -table.data, row))
    best = order[np.searchsorted(row, np.unique(row))]  # `order` keeps rows together
    owner = (np.arange(problem.num_points) % devices).astype(np.int32)
    owner[np.unique(row)] = table.indices[best]
    return owner
