"""Everything that one process keeps on its GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from daba.backends.gpu import lists, tables
from daba.backends.gpu.lists import Ends
from daba.backends.gpu.precision import Precision
from daba.backends.gpu.sums import Cut, PartialSums
from daba.backends.gpu.tensors import Tensor
from daba.backends.operations import Row
from daba.core.options import Options
from daba.core.types import State, starts
from daba.distributed.shard import Shard

BLOCK = 8
"""Cameras of one program of conjugate gradients."""
STRIDES = {torch.float32: 28, torch.float64: 26}
"""Numbers of the linear solver's record of a camera: an odd number of 16 bytes."""


class GpuState(NamedTuple):
    """An estimate on the GPU: rows of R, t, d, 1 and of l, 0."""

    cameras: Tensor
    points: Tensor

    def clone(self) -> GpuState:
        return GpuState(self.cameras.clone(), self.points.clone())

    def copy_(self, other: GpuState) -> None:
        self.cameras.copy_(other.cameras)
        self.points.copy_(other.points)

    def arguments(self, prefix: str = "") -> dict[str, Tensor]:
        """What kernels are handed, by the names of their parameters."""
        return {f"{prefix}cameras": self.cameras, f"{prefix}points": self.points}


class MomentTensors(NamedTuple):
    """A surrogate: tiles of P_i and rows of Q_j (`kernels/moments.py`)."""

    cameras: Tensor
    points: Tensor


class Arrays:
    """Observations, estimates, system, workspace and device table."""

    def __init__(
        self, shard: Shard, options: Options, precision: Precision, device: torch.device
    ) -> None:
        self.shard, self.device, self.precision = shard, device, precision
        C, P, S = shard.num_cameras, shard.num_points, shard.num_devices
        self.C, self.P, self.S = C, P, S
        self.all_C = C + len(shard.ghost_cameras)
        self.all_P = P + len(shard.ghost_points)
        self.surrogate = not (options.centralized or options.copies)
        self.accelerated, self.refined = options.accelerated, bool(options.rounds)
        self.copies = options.copies
        # by the whole problem: sums must not depend on what else a process holds
        self.lanes = lists.lanes_of(shard.ranges.cameras, shard.ranges.observations)
        self._order()
        self._lists()
        self._estimates()
        self._workspace()

    def _order(self) -> None:
        """The GPU's order of points: each device's own, sorted to make slices of equal width."""
        shard, device = self.shard, self.device
        degree = torch.from_numpy(np.diff(shard.intra.point_ptr)).to(device)
        counts = torch.from_numpy(np.diff(shard.devices.point_ptr)).to(device)
        owner = torch.repeat_interleave(torch.arange(self.S, device=device), counts)
        order = lists.point_order(degree, owner, self.lanes.many)
        ghosts = torch.arange(self.P, self.all_P, device=device)
        self.order = torch.cat([order, ghosts])
        """The shard's point at each of the GPU's indices."""
        self.index = torch.empty_like(self.order)
        """The GPU's index of each of the shard's points."""
        self.index[self.order] = torch.arange(self.all_P, device=device)
        self.owner_l = owner  # the same in both orders: devices stay together

    def _lists(self) -> None:
        shard, number = self.shard, self.precision.records
        points = torch.arange(self.P, device=self.device)
        index = self.index.int()
        intra = Ends.of(shard.intra, index, number)
        orders = [
            torch.as_tensor(obs.camera_obs, device=self.device).long()
            for obs in (shard.intra, shard.inter)
        ]
        self.intra_c = lists.by_camera(intra, orders[0], self.C)
        self.intra_l = lists.by_point(intra, points, self.owner_l, self.S, self.P, self.lanes)
        inter = Ends.of(shard.inter, index, number)
        self.inter_c = lists.by_camera(inter, orders[1], self.C)
        own = inter.point[inter.point < self.P].long()
        shared = torch.bincount(own, minlength=self.P) > 0
        edge = shared.nonzero()[:, 0]
        self.inter_l = lists.by_point(inter, edge, self.owner_l[edge], self.S, self.P, self.lanes)
        counts = torch.from_numpy(np.diff(shard.devices.camera_ptr)).to(self.device)
        self.owner_c = torch.repeat_interleave(
            torch.arange(self.S, device=self.device, dtype=torch.int32), counts
        )
        self.both_c, self.both_l = self.inter_c, self.inter_l
        if self.copies:  # with which all that is not copied is refined
            self.both_c, self.both_l = self.intra_c, self.intra_l
        if self.refined:
            both = Ends.together(intra, inter)
            of_edge = torch.diff(self.inter_c.begins) > 0
            order = torch.cat([orders[0], len(intra.camera) + orders[1]])
            order = order[of_edge[both.camera[order].long()]]
            self.both_c = lists.by_camera(both, order, self.C)
            self.both_l = lists.by_point(both, edge, self.owner_l[edge], self.S, self.P, self.lanes)

    def _estimates(self) -> None:
        self.x = self.upload(self.shard.start)
        self.new = self.x.clone()
        self.last = self.x.clone() if self.accelerated else self.x
        self.bar = self.x.clone() if self.accelerated else self.x
        ptr = self.shard.devices.camera_ptr
        centers = self.shard.start.cameras[:, 9:12]
        count = np.maximum(np.diff(ptr), 1)[:, None]
        centroid = [centers[ptr[a] : ptr[a + 1]].sum(axis=0) for a in range(self.S)]
        self.centroid = torch.from_numpy(np.stack(centroid) / count).to(self.device)
        """Where the linear solver counts coordinates from, on each device."""

    def _workspace(self) -> None:
        C, P, S, W = self.C, self.P, self.S, self.precision.linear
        double = torch.float64

        def zeros(*shape: int, kind: torch.dtype = double) -> Tensor:
            return torch.zeros(shape, dtype=kind, device=self.device)

        def moments() -> MomentTensors:
            return (
                MomentTensors(zeros(C, 256), zeros(P, 4))
                if self.surrogate
                else MomentTensors(zeros(1, 256), zeros(1, 4))
            )

        self.at_x = moments()
        self.at_bar = moments() if self.accelerated else self.at_x
        self.U, self.system = zeros(C, 256), zeros(C, 256)
        self.camera_bound = zeros(C)
        self.V, self.g = zeros(7, P, kind=self.precision.points), zeros(3, P)
        self.stride = STRIDES[W]
        self.record_c = zeros(C, self.stride, kind=W)
        self.record_l, self.v_inv = zeros(P, 8, kind=W), zeros(P, 8, kind=W)
        self.tiles, self.M_inv = zeros(C, 256, kind=W), zeros(C, 256, kind=W)
        self.rhs, self.r, self.z, self.step, self.Sp = (zeros(C, 16, kind=W) for _ in range(5))
        self.camera_s = torch.ones(self.all_C, dtype=double, device=self.device)
        self.zeta = torch.from_numpy(tables.zeta().ravel()).to(self.device)
        self.derivative = torch.from_numpy(tables.derivative().ravel()).to(self.device)
        self.blocks, self.device_blocks = self._blocks()
        self.device_cameras = torch.from_numpy(self.shard.devices.camera_ptr.astype(np.int64)).to(
            self.device
        )
        self.dots, self.cg_sums = zeros(C), zeros(2, len(self.blocks))
        self.table = zeros(len(Row), S)
        cuts = {
            Cut.CAMERAS: self.device_cameras,
            Cut.POINTS: self.intra_l.ranges,
            Cut.BOUNDARY: self.inter_l.ranges,
            Cut.BOUNDARY_ALL: self.both_l.ranges,
        }
        programs = {
            Cut.CAMERAS: C,
            Cut.POINTS: self.intra_l.count,
            Cut.BOUNDARY: self.inter_l.count,
            Cut.BOUNDARY_ALL: self.both_l.count,
        }
        self.sums = PartialSums(programs, cuts)

    def _blocks(self) -> tuple[Tensor, Tensor]:
        """Runs of BLOCK cameras of one device: first, last, device."""
        rows, counts = [], []
        ptr = self.shard.devices.camera_ptr
        for device in range(self.S):
            begins = np.arange(ptr[device], ptr[device + 1], BLOCK)
            ends = np.minimum(begins + BLOCK, ptr[device + 1])
            rows.append(np.stack([begins, ends, np.full(len(begins), device)], axis=1))
            counts.append(len(begins))
        blocks = np.concatenate(rows).astype(np.int32)
        offsets = starts(np.array(counts))
        return (
            torch.from_numpy(blocks).to(self.device).contiguous(),
            torch.from_numpy(offsets).to(self.device),
        )

    def upload(self, x: State) -> GpuState:
        """The shard's estimate, in the GPU's order."""
        cameras = torch.ones((len(x.cameras), 16), dtype=torch.float64, device=self.device)
        cameras[:, :15] = torch.from_numpy(np.ascontiguousarray(x.cameras)).to(self.device)
        points = torch.zeros((len(x.points), 4), dtype=torch.float64, device=self.device)
        given = torch.from_numpy(np.ascontiguousarray(x.points)).to(self.device)
        points[:, :3] = given[self.order]
        return GpuState(cameras, points)

    def download(self, x: GpuState) -> State:
        """The reverse of `upload`."""
        return State(
            x.cameras[:, :15].contiguous().cpu().numpy(),
            x.points[self.index, :3].contiguous().cpu().numpy(),
        )
