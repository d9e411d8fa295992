"""From what a solve is given to what each process holds."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.core.types import frozen
from daba.distributed.comm.base import Communicator, assign_devices
from daba.distributed.shard import Shard, State, join
from daba.partition.ordering import ON_HOST, DeviceBlock, Layout, NumpyArrays, inverse, lay_out
from daba.partition.partition import Partition, make_partition
from daba.problem.problem import Ints, Problem

if TYPE_CHECKING:
    from daba.io.store.store import Store
    from daba.problem.optics import Optics


@frozen
class Sizes:
    """What was solved, in numbers."""

    name: str
    cameras: int
    points: int
    observations: int
    inter_share: float
    """Share of observations whose camera and point live on different devices."""


@frozen
class Setup:
    """The shard of this process, and how to bring results together."""

    shard: Shard
    options: Options
    comm: Communicator
    source: Problem | Store | None
    orders: tuple[Ints, Ints] | None
    """The problem's camera and point at each index of device order, on rank 0, if it was given
    whole. Not all of its layout: that would hold every observation a second time."""
    sizes: Sizes
    fingerprint: dict[str, Any]
    """Tells one problem and partition from another."""

    def gather(self, x: State) -> Problem | None:
        """The solution in the problem's own order on rank 0, if the problem was given whole."""
        if not self._given_whole():
            return None
        parts = self.comm.collect(self.shard.own(x))
        if self.orders is None:
            return None
        camera, point = map(inverse, self.orders)
        assert isinstance(self.source, Problem)
        cameras = np.concatenate([part.cameras for part in parts]).take(camera, axis=0)
        points = np.concatenate([part.points for part in parts]).take(point, axis=0)
        if self.options.error == "pixel":
            from daba.problem.image_rows import optics_of
            from daba.problem.image_rows import poses as poses_of

            optics = optics_of(self.source.optics, cameras)
            return self.source.with_optics(optics, points, poses_of(cameras))
        return self.source.with_estimate(cameras, points)

    def partition(self) -> Partition | None:
        """Who owns what, in the problem's own order, on rank 0 if the problem was given whole."""
        if self.orders is None:
            return None
        devices = np.arange(self.shard.ranges.devices, dtype=np.int32)
        ends = self.shard.ranges.camera_ptr, self.shard.ranges.point_ptr
        cameras, points = (
            np.repeat(devices, np.diff(ptr))[inverse(order)]
            for order, ptr in zip(self.orders, ends, strict=True)
        )
        return Partition(cameras, points, len(devices))

    def _given_whole(self) -> bool:
        return bool(self.comm.broadcast(self.orders is not None))


def make_setup(
    source: Problem | Store | None,
    options: Options,
    partition: Partition | None,
    comm: Communicator,
    arrays: NumpyArrays = ON_HOST,
    checksums: bool = True,
) -> Setup:
    """Assign the devices to processes, evenly by work, and give each process its blocks. `arrays`
    says where its observations are to live; `checksums` are for checkpoints."""
    whole = comm.broadcast(isinstance(source, Problem))
    if not whole and source is None:
        raise DabaError("there is no problem to solve")
    if whole:
        setup = _from_problem(source, options, partition, comm, arrays)  # type: ignore[arg-type]
    else:
        setup = _from_store(source, options, comm, arrays)  # type: ignore[arg-type]
    if checksums:
        found = comm.gather(np.array(_checksums(setup.shard), np.float64)[:, None])
        setup.fingerprint["checksums"] = [int(value) for value in found[:, 0]]
    return setup


def _from_problem(
    problem: Problem | None,
    options: Options,
    partition: Partition | None,
    comm: Communicator,
    arrays: NumpyArrays,
) -> Setup:
    layout: Layout | None = None
    head: Any = None
    _check_ranks(options.devices, comm)
    if comm.rank == 0:
        assert problem is not None
        looked_at = partition is None and options.devices > 1
        if looked_at:
            problem.validated()
        if partition is None:
            partition = make_partition(problem, options.devices, options.seed)
        alone_on = arrays if comm.size == 1 else ON_HOST  # what is sent is sent from the host
        layout = lay_out(problem, partition, options.minimised, alone_on, not looked_at)
        head = layout.ranges, assign_devices(layout.work(), comm.size), problem.name
    ranges, ranks, name = comm.broadcast(head)
    comm.assigned(ranks)
    blocks = comm.scatter(
        [layout.device_block(device) for device in range(ranks[r], ranks[r + 1])]
        for r in range(comm.size)
        if layout is not None
    )
    alone = problem if comm.size == 1 else None
    shard = join(blocks, int(ranks[comm.rank]), ranges, alone, arrays)
    orders = None if layout is None else (layout.camera_order, layout.point_order)
    return _setup(shard, options, comm, problem, orders, name)


def options_for(store: Store, options: Options) -> Options:
    """The devices are those of the store."""
    if options.devices not in (1, store.devices):
        raise DabaError(
            f"{store.path} is a store of {store.devices} devices, not of "
            f"{options.devices}; leave --devices out, or partition the problem again"
        )
    return replace(options, devices=store.devices)


def _from_store(store: Store, options: Options, comm: Communicator, arrays: NumpyArrays) -> Setup:
    options = options_for(store, options)
    _check_ranks(options.devices, comm)
    ranks = assign_devices(store.work, comm.size)
    comm.assigned(ranks)
    mine = range(ranks[comm.rank], ranks[comm.rank + 1])
    blocks = [device_block(store, device, options, arrays) for device in mine]
    shard = join(blocks, mine.start, store.ranges, arrays=arrays)
    return _setup(shard, options, comm, store, None, store.name)


def device_block(
    store: Store, device: int, options: Options, arrays: NumpyArrays = ON_HOST
) -> DeviceBlock:
    """What a device holds; of the pixel error with all that its images' cameras are. Observations
    are on their way to where they are going to live."""
    block = store.device_block(device, options.minimised, arrays)
    if options.minimised == "ray":
        return block
    from daba.problem.image_rows import image_rows, of_focal_lengths

    optics = refined(store.optics, options)
    return replace(
        block,
        cameras=image_rows(optics, block.cameras[:, :12], block.camera_id),
        constraints=of_focal_lengths(block.constraints, block.cameras[:, 12]),
    )


def refined(optics: Optics, o: Options) -> Optics:
    """With what may change as the options say it."""
    return optics.with_refined(
        focal_length=o.refine_focal_length,
        extra_params=o.refine_extra_params,
        principal_point=o.refine_principal_point,
        sensor_from_rig=o.refine_sensor_from_rig,
    )


def _setup(
    shard: Shard,
    options: Options,
    comm: Communicator,
    source: Problem | Store | None,
    orders: tuple[Ints, Ints] | None,
    name: str,
) -> Setup:
    e = shard.ranges
    inter = np.zeros(shard.num_devices)  # of the process, with its first device
    inter[0] = shard.inter.camera_ptr[-1]  # by camera: once each
    inter = comm.gather(inter[:, None])[:, 0]
    return Setup(
        shard=shard,
        options=options,
        comm=comm,
        source=source,
        orders=orders,
        sizes=Sizes(
            name, e.cameras, e.points, e.observations, float(inter.sum() / max(e.observations, 1))
        ),
        fingerprint={
            "name": name,
            "cameras": e.cameras,
            "points": e.points,
            "observations": e.observations,
            "devices": e.devices,
        },
    )


def _check_ranks(devices: int, comm: Communicator) -> None:
    if comm.size > devices:
        raise DabaError(
            f"{comm.size} processes for {devices} devices: every process needs a device, so "
            f"start at most {devices}, or use --devices {comm.size} or more"
        )


def _checksums(shard: Shard) -> list[int]:
    """A checksum of each device's observations and start."""
    checksums, shard = [], shard.on_host()
    d = shard.devices
    for a in range(shard.num_devices):
        cameras = slice(d.camera_ptr[a], d.camera_ptr[a + 1])
        points = slice(d.point_ptr[a], d.point_ptr[a + 1])
        arrays = [shard.start.cameras[cameras], shard.start.points[points]]
        for obs in (shard.intra, shard.inter):
            rows = slice(obs.point_ptr[points.start], obs.point_ptr[points.stop])
            arrays += [obs.u[rows], obs.weight[rows]]
        if shard.constraints is not None:
            arrays += _constraint_arrays(shard, cameras, points)
        checksum = 0
        for array in arrays:
            checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
        checksums.append(checksum)
    return checksums


def _constraint_arrays(shard: Shard, cameras: slice, points: slice) -> list[np.ndarray]:
    """The constraints of one device, as arrays."""
    assert shard.constraints is not None
    own = (
        np.arange(cameras.start, cameras.stop, dtype=np.int32),
        np.arange(points.start, points.stop, dtype=np.int32),
    )
    here = shard.constraints.take(*own, (shard.num_cameras, shard.num_points))
    losses = repr(here.losses()).encode()
    return [*here.to_arrays().values(), np.frombuffer(losses, np.uint8)]
