"""What one process holds for Levenberg–Marquardt: a shard's frames, points and observations, in one
order for everything that is done with them, and what frames share.

The same for rays and pixels, with rigs and without: an image is of one frame (itself, without
rigs), has a camera of its own or one of those that are shared, and sits on a sensor of its rig.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from daba.core.lm import NO_PRIORS, Estimate, Images, Kind, Loss, Observations
from daba.core.types import (
    Bools,
    Floats,
    Int32,
    Int64,
    Known,
    Mask,
    Tasks,
    distinct,
    frozen,
    starts,
)
from daba.distributed.comm.base import Communicator, Exchange
from daba.distributed.shard import Boundary, Shard, boundary_of, make_tasks
from daba.partition.ordering import ON_HOST, DeviceRanges, NumpyArrays, pointers


class ImagePriors(NamedTuple):
    """Known values of some own images, at most one for each."""

    image: Int32
    target: Floats
    """(n, w)."""
    information: Floats
    """(n, w, w)."""
    loss: Loss


NO_IMAGE_PRIORS = ImagePriors(
    np.empty(0, np.int32), np.empty((0, 3)), np.empty((0, 3, 3)), Loss(0, 1.0)
)


@frozen
class LmInput:
    """Cameras and sensors of the images that a process owns. What is shared is the same on every
    process."""

    kind: Kind
    frame: Int32
    """Frame of each image, counted here, ascending, (I,)."""
    poses: Floats
    """R and t of each frame, rig to world, (F, 12)."""
    sensor: Int32
    """Where each image's camera sits, (I,)."""
    camera: Int32
    """Which of the shared cameras took it, −1 for one of its own, (I,)."""
    params: Floats
    """Of the frames' own cameras, (F, ROW); empty where all are shared."""
    fixed: Mask
    """Which parameters of a frame's block stay, (F, B); empty if none does."""
    shared_params: Floats
    """Of the shared cameras, (·, ROW)."""
    shared_free: Mask
    """Which of their refined parameters may change, (·, kind.shared)."""
    sensors: Floats
    """R and t of each sensor, camera to rig, (·, 12); the first is the rig's own place."""
    free_sensors: Bools
    fixed_points: Bools
    """Points that stay, (P,); empty if none does."""
    point_priors: Known = NO_PRIORS
    centre_priors: ImagePriors = NO_IMAGE_PRIORS
    parameter_priors: ImagePriors = NO_IMAGE_PRIORS
    """Of the refined parameters of images' cameras; of a shared camera one image says it."""


class Shared(NamedTuple):
    """Numbers of the shared parameters that may change: those of cameras, then those of sensors."""

    camera: Int32
    """−1 where one stays, (·, kind.shared)."""
    sensor: Int32
    """(·, 6)."""
    count: int  # type: ignore[assignment]


@frozen
class LmShard:
    """See the module's first lines. Arrays of frames, images and points hold those of this process
    first, and its ghosts behind them."""

    kind: Kind
    x: Estimate
    """Where the solve begins, ghosts included."""
    images: Images
    obs: Observations
    num_frames: int
    """Owned here."""
    num_points: int
    first_device: int
    frame_ptr: Int64
    """Frames of device a, counted here, are frame_ptr[a] : frame_ptr[a+1]."""
    frame_tasks: Tasks
    point_tasks: Tasks
    ghost_tasks: Tasks
    """Of ghost points, whose observations are linearized for the frames here."""
    crowding: float
    """Observations for each task and frame of its device, over all devices, at least."""
    cluster: Int32
    """Of each frame, counted over all devices: S is factored cluster by cluster."""
    cluster_ptr: Int64
    """Clusters of device a, over all devices, are cluster_ptr[a] : cluster_ptr[a+1]."""
    shared: Shared
    fixed_frames: Mask
    fixed_points: Bools
    point_priors: Known
    centre_priors: ImagePriors
    parameter_priors: ImagePriors
    exchange: Exchange
    """Of rows of frames ("cameras") and points."""
    boundary: Boundary
    """Frames and points that devices must tell each other of."""
    arrays: NumpyArrays = ON_HOST
    """Of observations, but for where those of each frame and point begin: as the shard's."""

    @property
    def devices(self) -> int:
        """Here."""
        return len(self.frame_ptr) - 1


def make_lm_shard(
    shard: Shard, given: LmInput, comm: Communicator, cluster: Int32 | None = None
) -> LmShard:
    """`cluster` of each own frame, counted from 0 on each device; None: each device is one."""
    kind, S = given.kind, shard.num_devices
    own = shard.num_cameras
    first = ON_HOST.changes(given.frame)
    device = np.repeat(np.arange(S), np.diff(shard.devices.camera_ptr))[first]
    frame_ptr = pointers(device, S)
    counts = np.zeros((S, 2))
    counts[:, 0] = np.diff(frame_ptr)
    cluster = np.zeros(len(device), np.int32) if cluster is None else cluster
    np.maximum.at(counts[:, 1], device, cluster + 1.0)
    totals = np.vstack([np.zeros((1, 2)), np.cumsum(comm.gather(counts), axis=0)]).astype(np.int64)
    everywhere, cluster_ptr = totals.T
    exchange_of_images = comm.exchange(shard)
    known = np.zeros((own + len(shard.ghost_cameras), 3))
    known[:own, 0] = everywhere[shard.first] + given.frame
    known[:own, 1], known[:own, 2] = given.sensor, given.camera
    exchange_of_images.fill(known, np.zeros((shard.num_points + len(shard.ghost_points), 0)))
    number = known[:, 0].astype(np.int64)
    ghosts = distinct(number[own:])
    num_frames = len(device)
    frame = np.concatenate(
        [given.frame, num_frames + np.searchsorted(ghosts, number[own:])]
    ).astype(np.int32)
    exchange = comm.exchange(
        replace(
            shard,
            ranges=DeviceRanges(everywhere, shard.ranges.point_ptr, shard.ranges.observations),
            camera_order=np.arange(num_frames, dtype=np.int32),
            ghost_cameras=ghosts.astype(np.int32),
        )
    )
    x, cluster = _start(
        shard, given, exchange, cluster + cluster_ptr[shard.first + device], len(ghosts)
    )
    shared = _numbers(given)
    images = _images(kind, shared, frame, known[:, 1:].astype(np.int64), num_frames, comm)
    obs = _observations(shard, frame, cluster, num_frames, device)
    most = max(4, 64 // shard.ranges.devices)
    work, P = np.diff(obs.point_ptr), shard.num_points
    ghost_tasks = make_tasks(np.array([0, len(work) - P]), work[P:], most)
    return LmShard(
        kind=kind,
        x=x,
        images=images,
        obs=obs,
        num_frames=num_frames,
        num_points=P,
        first_device=shard.first,
        frame_ptr=frame_ptr,
        frame_tasks=make_tasks(frame_ptr, np.diff(obs.frame_ptr), most),
        point_tasks=make_tasks(shard.devices.point_ptr, work[:P], most),
        ghost_tasks=ghost_tasks._replace(ptr=ghost_tasks.ptr + P),
        crowding=shard.ranges.observations / max(most * int(everywhere[-1]), 1),
        cluster=cluster,
        cluster_ptr=cluster_ptr,
        shared=shared,
        fixed_frames=given.fixed,
        fixed_points=given.fixed_points,
        point_priors=given.point_priors,
        centre_priors=given.centre_priors,
        parameter_priors=given.parameter_priors,
        exchange=exchange,
        boundary=boundary_of(shard, frame),
        arrays=shard.arrays,
    )


def _start(
    shard: Shard, given: LmInput, exchange: Exchange, cluster: np.ndarray, ghosts: int
) -> tuple[Estimate, Int32]:
    """The estimate at the start and the clusters of frames, those of ghosts brought from whoever
    owns them."""
    rows = np.column_stack([given.poses, cluster, given.params.reshape(len(cluster), -1)])
    rows = np.concatenate([rows, np.zeros((ghosts, rows.shape[1]))])
    points = shard.start.points.copy()
    exchange.fill(rows, points)
    params = rows[:, 13:] if len(given.params) else np.zeros((0, given.shared_params.shape[1]))
    x = Estimate(
        np.ascontiguousarray(rows[:, :12]),
        given.sensors.copy(),
        np.concatenate([params, given.shared_params]),
        points,
    )
    return x, rows[:, 12].astype(np.int32)


def _numbers(given: LmInput) -> Shared:
    free = given.shared_free
    count = int(free.sum())
    camera = np.full(free.shape, -1, np.int32)
    camera[free] = np.arange(count)
    sensor = np.full((len(given.sensors), 6), -1, np.int32)
    if given.kind.sensors == "refined":
        moving = np.flatnonzero(given.free_sensors)
        sensor[moving] = count + np.arange(6 * len(moving)).reshape(-1, 6)
        count += 6 * len(moving)
    return Shared(camera, sensor, count)


def _images(
    kind: Kind,
    shared: Shared,
    frame: Int32,
    sensor_camera: np.ndarray,
    num_frames: int,
    comm: Communicator,
) -> Images:
    """Groups of images are those with the same sensor and shared camera, numbered alike on every
    process."""
    here = comm.collect(distinct(sensor_camera, axis=0))
    every = distinct(np.concatenate(here), axis=0) if comm.rank == 0 else None
    every = np.asarray(comm.broadcast(every))
    key = (every[:, 0] << 32) + every[:, 1]
    group = np.searchsorted(key, (sensor_camera[:, 0] << 32) + sensor_camera[:, 1])
    index = np.full((len(every), kind.columns), -1, np.int32)
    if kind.shared:
        known = every[:, 1] >= 0
        index[known, : kind.shared] = shared.camera[every[known, 1]]
    if kind.sensors == "refined":
        index[:, kind.shared :] = shared.sensor[every[:, 0]]
    private = int(frame.max()) + 1 if kind.own else 0
    camera = sensor_camera[:, 1]
    return Images(
        frame_ptr=pointers(frame[: np.searchsorted(frame, num_frames)], num_frames),
        sensor=sensor_camera[:, 0].astype(np.int32),
        camera=np.where(camera >= 0, private + camera, frame).astype(np.int32),
        group=group.astype(np.int32),
        index=index,
    )


def _observations(
    shard: Shard, frame: Int32, cluster: Int32, num_frames: int, device: np.ndarray
) -> Observations:
    """All of a shard's: those of its points, then those of its frames whose points are ghosts.
    Where those of each frame and point begin is kept on the host, all else where the shard has its
    observations."""
    a, parts = shard.arrays, [part for part in (shard.intra, shard.inter) if len(part.camera)]
    image, point, xy, weight = (
        a.concatenate([getattr(part, name) for part in parts]) if len(parts) > 1
        else getattr(parts[0], name)
        for name in ("camera", "point", "u", "weight")
    )  # fmt: skip
    of, C = a.take(a.put(frame), image), shard.ranges.cameras
    points = shard.num_points + len(shard.ghost_points)
    ptr = starts(a.count(point, points))
    sorted_already = not len(shard.inter.camera) and int(cluster.max(initial=0)) == 0
    if not sorted_already:
        image_at = _in_device_order(
            shard.num_cameras, shard.ranges.camera_ptr[shard.first], shard.ghost_cameras
        )
        by_image = a.put(cluster[frame] * np.int64(C) + image_at)
        key = a.int64(point) * ((int(cluster.max()) + 1) * C) + a.take(by_image, image)
        if not (key[1:] > key[:-1]).all():
            order = a.order(key, 1 << 62)
            image, point, of, xy, weight, key = (
                a.take(array, order) for array in (image, point, of, xy, weight, key)
            )
        runs = a.changes(key // C)
    else:
        runs = a.put(ptr[:-1][np.diff(ptr) > 0])
    ends = a.concatenate([runs[1:], a.put(np.array([len(point)]))])
    lengths = ends - runs
    if sorted_already and num_frames == shard.num_cameras:  # and frames are images
        frame_ptr, order = shard.intra.camera_ptr, shard.intra.camera_obs
    else:
        frame_ptr, order = _by_frame(shard, of, point, num_frames)
    begin, end, inter = ptr[: shard.num_points], ptr[1 : shard.num_points + 1], order[:0]
    if shard.ranges.devices > 1:
        within = _within_devices(shard, of, point, device, len(cluster))
        inter = order[~within[order]]
        inside = a.nonzero(within)
        # own observations follow each other: clusters are numbered device after device
        counts = a.count(point[inside], points)[: shard.num_points]
        first = a.host(a.smallest(a.int32(inside), point[inside], points))[: shard.num_points]
        begin = np.where(counts > 0, first, begin)
        end = begin + counts
    return Observations(
        frame=a.keep(of),
        image=a.keep(image),
        point=a.keep(point),
        xy=a.keep(xy),
        weight=a.copy(weight),  # to be changed
        point_ptr=ptr,
        frame_ptr=frame_ptr,
        frame_obs=order,
        run_begin=a.int32(a.repeat(runs, lengths)),
        run_end=a.int32(a.repeat(ends, lengths)),
        own_begin=begin.astype(np.int64),
        own_end=end.astype(np.int64),
        inter_ptr=starts(a.count(of[inter], num_frames)),
        inter_obs=a.int32(inter),
    )


def _by_frame(shard: Shard, of: Any, point: Any, num_frames: int) -> tuple[Int64, Any]:
    """Observations frame after frame, each in device order, and where those of a frame begin."""
    a = shard.arrays
    by_point = mine = a.nonzero(of < num_frames)
    if len(shard.ghost_points):
        at = _in_device_order(
            shard.num_points, shard.ranges.point_ptr[shard.first], shard.ghost_points
        )
        by_point = mine[a.order(a.take(a.put(at), point[mine]), 1 << 62)]
    order = by_point[a.order(of[by_point], num_frames)]
    return starts(a.count(of[mine], num_frames)), a.int32(order)


def _within_devices(shard: Shard, of: Any, point: Any, device: np.ndarray, frames: int) -> Any:
    """Which observations are of a frame and a point of the same device here."""
    a, here = shard.arrays, np.arange(shard.num_devices, dtype=np.int32)
    point_device = np.repeat(here, np.diff(shard.devices.point_ptr))
    owner = np.concatenate([point_device, np.full(len(shard.ghost_points), -1, np.int32)])
    home = np.concatenate([device, np.full(frames - len(device), -2)]).astype(np.int32)
    return a.take(a.put(home), of) == a.take(a.put(owner), point)


def _in_device_order(own: int, start: int, ghosts: np.ndarray) -> np.ndarray:
    """The indices, over all devices, of what is owned here and of ghosts."""
    return np.concatenate([int(start) + np.arange(own), ghosts.astype(np.int64)])
