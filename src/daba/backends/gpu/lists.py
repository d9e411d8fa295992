"""Observations on the GPU, in the two orders in which they are read.

A record is u, ω and the number of the other end, 16 bytes in single precision. By camera they
follow each other; by point they lie in slices (see `kernels/slices.py`). Built with torch,
where the arrays are going to live.
"""

from __future__ import annotations

import torch

from daba.backends.gpu.tensors import Tensor
from daba.core.types import Observations, frozen

WINDOW = 8192
"""Points are sorted by their number of observations inside such windows: neighbours in memory are
seen by the same cameras, and should stay near each other."""


@frozen
class Lanes:
    """How wide passes are."""

    points: int
    """Points of a slice."""
    many: int
    """Observations beyond which a point has a slice of its own."""
    camera: int
    """Observations of one camera that are looked at side by side, …"""
    block: int
    """… and where blocks of 9×9 are summed."""


def lanes_of(cameras: int, observations: int) -> Lanes:
    """A large problem fills the GPU anyhow, and wants few empty slots. A small one waits for its
    longest track and its largest camera: on notredame-692 a product takes half the time so."""
    points, many = (32, 16) if observations <= 3_000_000 else (64, 64)
    camera, block = (256, 128) if cameras <= 1000 else (128, 64)
    return Lanes(points, many, camera, block)


@frozen
class ByPoint:
    """Slices of points."""

    lanes: Lanes
    records: Tensor
    heads: Tensor
    members: Tensor
    ranges: Tensor
    """Slices of device α are ranges[α] : ranges[α+1]."""

    @property
    def count(self) -> int:
        return len(self.heads)

    @property
    def arguments(self) -> dict[str, Tensor]:
        """What kernels are handed, by the names of their parameters."""
        return {"records": self.records, "heads": self.heads, "members": self.members}


@frozen
class ByCamera:
    """Records one camera after the other."""

    records: Tensor
    begins: Tensor
    """Records of camera i are begins[i] : begins[i+1]."""

    @property
    def arguments(self) -> dict[str, Tensor]:
        return {"records": self.records, "begins": self.begins}


@frozen
class Ends:
    """Observations as they are handed over: camera and point by the GPU's index, u and ω."""

    camera: Tensor
    point: Tensor
    u: Tensor
    weight: Tensor

    @staticmethod
    def of(obs: Observations, index: Tensor, number: torch.dtype) -> Ends:
        """`index` is the GPU's index of each of the shard's points."""
        device = index.device
        camera, point, u, weight = (torch.as_tensor(a, device=device) for a in obs[:4])
        return Ends(camera, index[point.long()], u.to(number), weight.to(number))

    def records(self, which: Tensor, other: Tensor) -> Tensor:
        """Rows of 4: u, ω and the bits of the other end's number."""
        rows = torch.empty((len(which), 4), dtype=self.u.dtype, device=self.u.device)
        rows[:, :2] = self.u[which]
        rows[:, 2] = self.weight[which]
        rows[:, 3] = _bits(other[which], self.u.dtype)
        return rows

    @staticmethod
    def together(a: Ends, b: Ends) -> Ends:
        return Ends(
            *(
                torch.cat([getattr(a, name), getattr(b, name)])
                for name in ("camera", "point", "u", "weight")
            )
        )


def point_order(degree: Tensor, owner: Tensor, many: int) -> Tensor:
    """The GPU's order of points: by device; those with many observations first, the others by
    their number of observations inside windows. Returns the shard's point at each index."""
    counts = torch.bincount(owner) if len(owner) else owner
    first = (torch.cumsum(counts, 0) - counts)[owner.long()]
    rank = torch.arange(len(degree), device=degree.device) - first  # whatever else a process holds
    window = torch.where(degree > many, 0, 1 + rank // WINDOW)
    most = int(degree.max()) + 1 if len(degree) else 1
    key = (owner.long() * (2 + len(degree) // WINDOW) + window) * most + (most - 1 - degree.long())
    return torch.argsort(key, stable=True)


def by_camera(ends: Ends, order: Tensor, cameras: int) -> ByCamera:
    """Of the observations of `order`, by the cameras owned here. Those of a camera follow each
    other as they do in `order`: as devices do, whichever of them a process holds."""
    camera = ends.camera[order]
    order = order[torch.argsort(camera, stable=True)]
    counts = torch.bincount(camera, minlength=cameras)
    return ByCamera(ends.records(order, ends.point), pointers(counts))


def by_point(
    ends: Ends, points: Tensor, owner: Tensor, devices: int, total: int, lanes: Lanes
) -> ByPoint:
    """Slices of some points, in their order.

    points   numbers of the points to hold, ascending by device
    owner    device of each of them
    total    points owned here; observations of ghosts are left out
    """
    where = torch.full((total + 1,), -1, dtype=torch.int64, device=points.device)
    where[points] = torch.arange(len(points), device=points.device)
    item = where[torch.clamp(ends.point.long(), max=total)]
    item[ends.point >= total] = -1
    chosen = (item >= 0).nonzero()[:, 0]
    item = item[chosen]
    degree = torch.bincount(item, minlength=len(points))
    return _sliced(ends, chosen, item, points, owner, degree, devices, lanes)


def _sliced(
    ends: Ends,
    chosen: Tensor,
    item: Tensor,
    points: Tensor,
    owner: Tensor,
    degree: Tensor,
    devices: int,
    lanes: Lanes,
) -> ByPoint:
    slots = cut_slices(item, points, owner, degree, devices, lanes)
    records = torch.zeros((slots.size, 4), dtype=ends.u.dtype, device=points.device)
    records[slots.at] = ends.records(chosen, ends.camera)
    return ByPoint(lanes, records, slots.heads, slots.members, slots.ranges)


@frozen
class Slots:
    """Slices of points, and where in them observations lie."""

    heads: Tensor
    members: Tensor
    ranges: Tensor
    """Slices of device α are ranges[α] : ranges[α+1]."""
    at: Tensor
    """Slot of each observation."""
    size: int


def cut_slices(
    item: Tensor, points: Tensor, owner: Tensor, degree: Tensor, devices: int, lanes: Lanes
) -> Slots:
    """Slices for the observations of `item`, each of which has a point, an owner and a degree."""
    device, count = points.device, lanes.points
    order = point_order(degree, owner, lanes.many)
    points, owner, degree = points[order], owner[order].long(), degree[order]
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=device)
    item = back[item]
    # a slice begins with a new device, with a point of many observations, or when lanes are used up
    many = degree > lanes.many
    run = torch.zeros(len(points), dtype=torch.bool, device=device)
    if len(points):
        run[0] = True
        run[1:] = (owner[1:] != owner[:-1]) | many[1:] | many[:-1]
    begins = run.nonzero()[:, 0]
    since = torch.arange(len(points), device=device)
    since = since - begins[torch.cumsum(run, 0) - 1] if len(points) else since
    lane = since % count
    slice_of = torch.cumsum(lane == 0, 0) - 1
    first = (lane == 0).nonzero()[:, 0]
    shared = many[first]
    width = torch.zeros(len(first), dtype=torch.int64, device=device)
    width.scatter_reduce_(0, slice_of, degree, "amax")
    width = torch.where(shared, (width + count - 1) // count, width)
    start = torch.cumsum(width * count, 0) - width * count
    heads = torch.stack([start, width, owner[first], shared.long()], dim=1).contiguous()
    members = (-1 - points[first])[:, None].repeat(1, count)
    members[slice_of, lane] = points
    # observations of an item in the order they are given
    by_item = torch.argsort(item, stable=True)
    begin = torch.cumsum(degree, 0) - degree
    rank = torch.empty_like(item)
    rank[by_item] = torch.arange(len(item), device=device) - begin[item[by_item]]
    n = slice_of[item]
    inside = torch.where(shared[n], rank, rank * count + lane[item])
    counts = torch.bincount(owner[first], minlength=devices)
    return Slots(
        heads,
        members.int().contiguous(),
        pointers(counts),
        start[n] + inside,
        int((width * count).sum()),
    )


def _bits(numbers: Tensor, kind: torch.dtype) -> Tensor:
    if kind == torch.float64:
        return numbers.long().view(torch.float64)
    return numbers.int().view(torch.float32)


def pointers(counts: Tensor) -> Tensor:
    """Where each of so many begins, and the end."""
    out = torch.zeros(len(counts) + 1, dtype=torch.int64, device=counts.device)
    out[1:] = torch.cumsum(counts, 0)
    return out
