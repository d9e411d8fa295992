"""The coarse space's sums over points, on the GPU."""

from __future__ import annotations

import torch

from daba.backends.gpu.kernels.lm import coarse as kernels
from daba.backends.gpu.kernels.lm.binding import tile_width
from daba.backends.gpu.lists import pointers
from daba.backends.gpu.lm.arrays import ObservationArrays, expand
from daba.backends.gpu.lm.segments import Segments, cut
from daba.backends.gpu.tensors import Tensor
from daba.core.lm import CoarseBlocks, Kind

MATRIX = 256
"""Pairs of entries that one program adds up."""
DOTS = 512
"""Entries that one program adds up."""


class CoarseLists:
    """Who sees what, sorted as it is added up."""

    def __init__(self, a: ObservationArrays, kind: Kind, coarse: CoarseBlocks) -> None:
        self.a, self.kind, self.blocks = a, kind, coarse
        self.ptr, self.block = a.put(coarse.ptr), a.put(coarse.block)
        local = a.put(coarse.local).long()
        owner = torch.repeat_interleave(torch.diff(self.ptr))
        self.owner, device = owner.int(), a.owner[owner]
        self.clusters = int(self.block.max()) + 1 if len(self.block) else 0  # without groups: all
        if kind.columns and len(coarse.at_group):
            self.clusters = int(self.block[a.put(coarse.at_group).long()].min())
        self._observations(coarse)
        seen = coarse.pair.shape[1]
        self.seen = seen
        key, order = torch.sort(device * seen + local, stable=True)
        self.entries = order.int()
        begins = pointers(torch.bincount(key, minlength=a.S * seen))
        self.dot_begins, pieces = cut(begins, DOTS)
        self.dot_sums = Segments(pieces)
        self._pairs(device, local)

    def _observations(self, coarse: CoarseBlocks) -> None:
        """Slots of the observations that each entry is summed from."""
        a = self.a
        lists = [a.put(at).long() for at in (coarse.at_cluster, coarse.at_group) if len(at)]
        entry = torch.cat([a.slot[:0], *lists])  # a process may own no points
        slot = a.slot.repeat(len(lists))
        entry, order = torch.sort(entry, stable=True)
        self.slots = slot[order].int()
        self.begins = pointers(torch.bincount(entry, minlength=len(self.block)))

    def _pairs(self, device: Tensor, local: Tensor) -> None:
        a = self.a
        entries = torch.arange(len(self.block), device=a.device)
        first = self.ptr[self.owner.long()]
        left, other = expand(entries - first + 1)
        right = first[left] + other
        table = a.put(self.blocks.pair)
        number = table[device[left], local[left], local[right]].long()
        most = int(table.max()) + 1
        key, order = torch.sort(device[left] * most + number, stable=True)
        self.left, self.right = left[order].int(), right[order].int()
        begins = pointers(torch.bincount(key, minlength=a.S * most))
        self.pairs = most
        self.pair_begins, pieces = cut(begins, MATRIX)
        self.pair_sums = Segments(pieces)

    def rows(self, J: Tensor, Z: Tensor, width: int) -> Tensor:
        """Y of each entry, (·, 3, width)."""
        a, count = self.a, len(self.block)
        Y = torch.empty((count, 3, width), dtype=torch.float64, device=a.device)
        if count:
            kernels.coarse_rows[(count,)](
                J, a.size, a.slot_ends, self.begins, self.slots, self.block, self.clusters, Z, Y,
                Z.shape[2], width, B=self.kind.block, G=self.kind.columns, W=tile_width(width),
                num_warps=1,
            )  # fmt: skip
        return Y

    def matrix(self, Y: Tensor, V_inv: Tensor) -> Tensor:
        """Σ_j Y_jq V'⁻¹ Y_jrᵀ of each device and pair, (S, pairs, width, width)."""
        width, programs = Y.shape[2], len(self.pair_begins) - 1
        out = torch.empty((programs, width * width), dtype=Y.dtype, device=Y.device)
        if programs:
            kernels.coarse_matrix[(programs,)](
                Y, width, self.pair_begins, self.left, self.right, self.owner, V_inv, out,
                W=tile_width(width), num_warps=1,
            )  # fmt: skip
        return self.pair_sums.sum(out).view(self.a.S, self.pairs, width, width)

    def dots(self, Y: Tensor, h: Tensor) -> Tensor:
        """Σ_j Y_jq h_j of each device and block that it sees, (S, blocks, width)."""
        width, programs = Y.shape[2], len(self.dot_begins) - 1
        out = torch.empty((programs, width), dtype=Y.dtype, device=Y.device)
        if programs:
            kernels.coarse_dots[(programs,)](
                Y, width, self.dot_begins, self.entries, self.owner, h, out, W=tile_width(width),
                L=64,
            )  # fmt: skip
        return self.dot_sums.sum(out).view(self.a.S, self.seen, width)

    def correct(self, Y: Tensor, c: Tensor, V_inv: Tensor, h: Tensor) -> None:
        """h −= V'⁻¹ Yᵀ c of own points."""
        kernels.coarse_correct[(-(-self.a.P // 16),)](
            Y, Y.shape[2], self.ptr, self.block, c, V_inv, h, self.a.P, W=tile_width(Y.shape[2]),
            L=16, num_warps=2,
        )  # fmt: skip
