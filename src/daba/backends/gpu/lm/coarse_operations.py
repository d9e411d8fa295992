"""What Levenberg–Marquardt's coarse space and local eigenmodes ask of a GPU."""

from __future__ import annotations

import torch

from daba.backends.gpu.kernels.lm import coarse as kernels
from daba.backends.gpu.kernels.lm.binding import tile_width
from daba.backends.gpu.lm.coarse import CoarseLists
from daba.backends.gpu.lm.memory import GpuArrays
from daba.backends.gpu.lm.segments import add_rows
from daba.backends.gpu.tensors import Tensor
from daba.core.lm import CoarseBlocks
from daba.core.types import Int32

SEVERAL = 32
"""Columns that `push_columns` takes at once."""


class CoarseOperations(GpuArrays):
    """On derivatives that have been computed, and on the system as it was damped last."""

    B: int
    """Columns of a frame."""
    J: Tensor
    """Derivatives, by point, …"""
    J_rows: Tensor
    """… and those of frames, by frame."""
    V_inv: Tensor
    free: Tensor
    """1 where frames move, 0 where they are fixed."""
    tensors: dict[str, Tensor]
    lists: CoarseLists | None = None

    # The coarse space

    def coarse_lists(self, coarse: CoarseBlocks) -> CoarseLists:
        """What all that follows needs, made once."""
        if self.lists is None or self.lists.blocks is not coarse:
            self.lists = CoarseLists(self.a, self.shard.kind, coarse)
        return self.lists

    def coarse_rows(self, coarse: CoarseBlocks, Z: Tensor, width: int) -> Tensor:
        """Y of each point and block that sees it, (·, 3, width)."""
        return self.coarse_lists(coarse).rows(self.J, Z, width)

    def coarse_matrix(self, coarse: CoarseBlocks, Y: Tensor) -> Tensor:
        """Σ_j Y_jq V'⁻¹ Y_jrᵀ of each device and pair, (S, pairs, width, width)."""
        return self.coarse_lists(coarse).matrix(Y, self.V_inv)

    def coarse_dots(self, coarse: CoarseBlocks, Y: Tensor, h: Tensor) -> Tensor:
        """Σ_j Y_jq h_j of each device and block that it sees, (S, blocks, width)."""
        return self.coarse_lists(coarse).dots(Y, h)

    def coarse_correct(self, coarse: CoarseBlocks, Y: Tensor, c: Tensor, h: Tensor) -> None:
        """h −= V'⁻¹ Yᵀ c of own points, c by block."""
        self.coarse_lists(coarse).correct(Y, c, self.V_inv, h)

    def shared_columns(self, coarse: CoarseBlocks, Y: Tensor) -> Tensor:
        """The columns of S in which what is shared meets own frames, (F, B, m): S applied to one
        shared parameter after the other, several at once."""
        s, m, a = self.shard, self.shard.shared.count, self.a
        index = s.images.index
        found = []
        group = s.images.group[: a.I]
        for first in range(0, m, SEVERAL):
            some = range(first, min(first + SEVERAL, m))
            h = self._zeros(a.all_P, 3, len(some))
            crossed = self._zeros(a.I, self.B, len(some))
            for n, column in enumerate(some):
                c = (index == column).astype(float)
                one = self.no_steps()
                # the coarse blocks are groups of images only
                self.coarse_lists(coarse).correct(Y, self.a.put(-c), self.V_inv, one)
                h[:, :, n] = one[:, :3]
                crossed[:, :, n] = torch.einsum("mab,mb->ma", self.tensors["X"], a.put(c[group]))
            pushed = self._push_columns(a.row_point, h)
            if a.I != a.F:
                crossed = add_rows(crossed.view(a.I, -1), a.images_of).view(pushed.shape)
            found.append((crossed - pushed) * self.free[:, :, None])
        return torch.cat(found, dim=2)

    def _push_columns(self, number: Tensor, q: Tensor) -> Tensor:
        """Σ W q of frames, (F, B, w), q (·, 3, w); `number` is each observation's row of q."""
        a, w = self.a, q.shape[2]
        out = torch.empty((a.F, self.B, w), dtype=torch.float64, device=self.device)
        kernels.push_columns[(a.F,)](
            self.J_rows, a.frame_begins, number, q, w, out, B=self.B, WB=tile_width(self.B),
            W=tile_width(w), L=16, num_warps=2,
        )  # fmt: skip
        return out

    # Local eigenmodes

    def gap_matrices(self, runs: Int32) -> Tensor:
        """V_c⁻¹ − V'⁻¹ of each run of observations of a point by one cluster, (runs, 8)."""
        obs, a = self.shard.obs, self.a
        begin = self._put(runs).long()
        counts = a.put(obs.run_end).long()[begin] - begin
        of = torch.repeat_interleave(counts)
        ends = torch.cumsum(counts, 0)
        at = begin[of] + torch.arange(len(of), device=self.device) - (ends - counts)[of]
        self.run_begins = torch.cat([ends[:1] * 0, ends])
        self.run_rows = a.row[at]
        K = self._zeros(len(begin), 8)
        if len(begin):
            kernels.gap_runs[(-(-len(begin) // 32),)](
                self.J_rows, self.run_begins, self.run_rows, a.point[begin], self.V_inv, K,
                len(begin), B=self.B, L=32, num_warps=1,
            )  # fmt: skip
        return K

    def gap(self, runs: Int32, run_at: Int32, K: Tensor, X: Tensor) -> Tensor:
        """Σ W_c K W_cᵀ X: what S_cc has more than it would, were clusters alone; X is (F, B, w)."""
        a, w = self.a, X.shape[2]
        q = self._zeros(max(len(runs), 1), 3, w)
        if len(runs):
            kernels.gap_pull[(len(runs),)](
                self.J_rows, self.run_begins, self.run_rows, a.row_frame, K, X, q, w,
                B=self.B, W=tile_width(w), num_warps=1,
            )  # fmt: skip
        order = (a.row >= 0).nonzero()[:, 0]
        number = torch.empty_like(a.row_point)
        number[a.row[order]] = self._put(run_at)[order]
        return self._push_columns(number, q) * self.free[:, :, None]
