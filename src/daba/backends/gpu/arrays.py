"""Everything that one process keeps on its GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from daba.backends.gpu import lists, tables
from daba.backends.gpu.kernels.book import ROWS
from daba.backends.gpu.lists import Ends
from daba.backends.gpu.precision import Precision
from daba.backends.gpu.tensors import Tensor
from daba.core.options import Options
from daba.distributed.shard import Shard, State

BLOCK = 8
"""Cameras of one program of conjugate gradients."""
STRIDES = {torch.float32: 28, torch.float64: 26}
"""Numbers of the linear solver's record of a camera: an odd number of 16 bytes."""


class Estimate(NamedTuple):
    """An estimate on the GPU: rows of R, t, d, 1 and of l, 0."""

    cameras: Tensor
    points: Tensor

    def clone(self) -> Estimate:
        return Estimate(self.cameras.clone(), self.points.clone())


class Moments(NamedTuple):
    """A surrogate: tiles of P_i and rows of Q_j (`kernels/gpu/moments.py`)."""

    cameras: Tensor
    points: Tensor


class Columns:
    """Partial sums, one column after the other in one buffer."""

    def __init__(self) -> None:
        self.size = 0
        self.at: dict[str, int] = {}

    def add(self, name: str, rows: int, count: int = 1) -> None:
        """Columns name, name+1, … of so many rows each."""
        for n in range(count):
            self.at[f"{name}{n}" if n else name] = self.size
            self.size += rows


class Arrays:
    """Observations, estimates, system, workspace and book."""

    def __init__(
        self, shard: Shard, options: Options, precision: Precision, device: torch.device
    ) -> None:
        self.shard, self.device, self.precision = shard, device, precision
        C, P, S = shard.num_cameras, shard.num_points, shard.num_devices
        self.C, self.P, self.S = C, P, S
        self.all_C = C + len(shard.ghost_cameras)
        self.all_P = P + len(shard.ghost_points)
        self.surrogate = not options.centralized
        self.accelerated = self.surrogate and options.method == "daba"
        self.refined = self.surrogate and options.refine != "none"
        self.lanes = lists.lanes_of(C, len(shard.intra.camera) + len(shard.inter.camera))
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
        """The shard's point at each of the GPU's places."""
        place = torch.empty_like(self.order)
        place[self.order] = torch.arange(self.all_P, device=device)
        self.place = place
        self.owner_l = owner  # the same in both orders: devices stay together

    def _lists(self) -> None:
        shard, number = self.shard, self.precision.records
        points = torch.arange(self.P, device=self.device)
        place = self.place.int()
        intra = Ends.of(shard.intra, place, number)
        self.intra_c = lists.by_camera(intra, self.C)
        self.intra_l = lists.by_point(intra, points, self.owner_l, self.S, self.P, self.lanes)
        inter = Ends.of(shard.inter, place, number)
        self.inter_c = lists.by_camera(inter, self.C)
        own = inter.point[inter.point < self.P].long()
        shared = torch.bincount(own, minlength=self.P) > 0
        edge = shared.nonzero()[:, 0]
        self.inter_l = lists.by_point(inter, edge, self.owner_l[edge], self.S, self.P, self.lanes)
        counts = torch.from_numpy(np.diff(shard.devices.camera_ptr)).to(self.device)
        self.owner_c = torch.repeat_interleave(
            torch.arange(self.S, device=self.device, dtype=torch.int32), counts
        )
        self.both_c, self.both_l = self.inter_c, self.inter_l
        if self.refined:
            both = Ends.together(intra, inter)
            of_edge = torch.diff(self.inter_c.begins) > 0
            ghost = torch.ones(self.all_C - self.C, dtype=torch.bool, device=self.device)
            kept = torch.cat([of_edge, ghost])[both.camera.long()].nonzero()[:, 0]
            some = Ends(both.camera[kept], both.point[kept], both.u[kept], both.weight[kept])
            self.both_c = lists.by_camera(some, self.C)
            self.both_l = lists.by_point(both, edge, self.owner_l[edge], self.S, self.P, self.lanes)

    def _estimates(self) -> None:
        self.x = self.upload(self.shard.start)
        self.new = self.x.clone()
        self.last = self.x.clone() if self.accelerated else self.x
        self.bar = self.x.clone() if self.accelerated else self.x
        ptr = self.shard.devices.camera_ptr
        centers = self.shard.start.cameras[:, 9:12]
        middle = [centers[ptr[a] : ptr[a + 1]].mean(axis=0) for a in range(self.S)]
        self.middle = torch.from_numpy(np.stack(middle)).to(self.device)
        """Where the linear solver counts coordinates from, on each device."""

    def _workspace(self) -> None:
        C, P, S, W = self.C, self.P, self.S, self.precision.linear
        double = torch.float64

        def zeros(*shape: int, kind: torch.dtype = double) -> Tensor:
            return torch.zeros(shape, dtype=kind, device=self.device)

        def moments() -> Moments:
            return (
                Moments(zeros(C, 256), zeros(P, 4))
                if self.surrogate
                else Moments(zeros(1, 256), zeros(1, 4))
            )

        self.at_x = moments()
        self.at_bar = moments() if self.accelerated else self.at_x
        self.U, self.system = zeros(C, 256), zeros(C, 256)
        self.reach = zeros(C)
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
        self.book = zeros(ROWS, S)
        self._partials()

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
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return (
            torch.from_numpy(blocks).to(self.device).contiguous(),
            torch.from_numpy(offsets).to(self.device),
        )

    def _partials(self) -> None:
        C, N, I, B = self.C, self.intra_l.count, self.inter_l.count, self.both_l.count
        columns = Columns()
        columns.add("zero", max(C, N, I, B))
        columns.add("inter_c", C, 3)  # F, squared pixel error, slack
        columns.add("inter_l", I, 2)  # F, slack
        columns.add("slack", I, 2)
        columns.add("value_c", C, 3)  # of two surrogates, and the square of the distance
        columns.add("value_l", N, 3)
        columns.add("decrease_c", C)
        columns.add("decrease_l", N)
        columns.add("objective", C, 2)
        columns.add("refined_c", C)
        columns.add("refined_l", B)
        columns.add("dots", C)
        columns.add("pcg", len(self.blocks), 2)
        self.columns = columns
        self.partial = torch.zeros(columns.size, dtype=torch.float64, device=self.device)
        cuts = [self.device_cameras, self.intra_l.ranges, self.inter_l.ranges, self.both_l.ranges]
        self.ranges = torch.cat(cuts)

    def column(self, name: str) -> Tensor:
        return self.partial[self.columns.at[name] :]

    def jobs(self, *named: tuple[str, int]) -> Tensor:
        """What `add_up` adds: columns, and by what they are cut (0 cameras, 1 slices, 2 slices of
        the boundary, 3 those with all its observations)."""
        rows = [[self.columns.at[name], cut * (self.S + 1)] for name, cut in named]
        return torch.tensor(rows, dtype=torch.int64, device=self.device)

    def upload(self, x: State) -> Estimate:
        """The shard's estimate, in the GPU's order."""
        cameras = torch.ones((len(x.cameras), 16), dtype=torch.float64, device=self.device)
        cameras[:, :15] = torch.from_numpy(np.ascontiguousarray(x.cameras)).to(self.device)
        points = torch.zeros((len(x.points), 4), dtype=torch.float64, device=self.device)
        given = torch.from_numpy(np.ascontiguousarray(x.points)).to(self.device)
        points[:, :3] = given[self.order]
        return Estimate(cameras, points)

    def download(self, x: Estimate) -> State:
        """The reverse of `upload`."""
        return State(
            x.cameras[:, :15].contiguous().cpu().numpy(),
            x.points[self.place, :3].contiguous().cpu().numpy(),
        )
