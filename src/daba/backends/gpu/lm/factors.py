"""Diagonal blocks of S, one for each cluster of frames, formed and factored on the GPU: a batch of
dense matrices, padded to the largest."""

from __future__ import annotations

import numpy as np
import torch

from daba.backends.gpu.kernels.lm import products
from daba.backends.gpu.kernels.lm.binding import tile_width
from daba.backends.gpu.lists import pointers
from daba.backends.gpu.lm.arrays import ObservationArrays, expand
from daba.backends.gpu.tensors import Tensor
from daba.core.lm import Observations
from daba.core.types import Int32
from daba.distributed.lm_shard import LmShard


def factoring_cost(obs: Observations, cluster: Int32, block: int) -> tuple[float, float, float]:
    """Pairs of observations that add blocks, operations of the factorization, and bytes."""
    frame, begin, end = (torch.as_tensor(a) for a in (obs.frame, obs.run_begin, obs.run_end))
    first = (begin == torch.arange(len(begin), device=begin.device)) & (frame < len(cluster))
    lengths = (end - begin)[first].double()
    sizes = np.bincount(cluster)
    rows = float(sizes.max() * block)
    return (
        float((lengths * (lengths + 1) / 2).sum()),
        len(sizes) * rows**3 / 3,
        len(sizes) * rows**2 * 8,
    )


class Factors:
    """S_cc = L Lᵀ."""

    def __init__(self, a: ObservationArrays, shard: LmShard, cluster: Int32) -> None:
        """`cluster` of each own frame, counted from 0 here."""
        self.a, self.B = a, shard.kind.block
        sizes = np.bincount(cluster)
        order = np.argsort(cluster, kind="stable")
        within = np.empty(len(cluster), np.int64)
        within[order] = np.arange(len(cluster)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self.count, self.rows = len(sizes), int(sizes.max()) * self.B
        n = self.rows
        self.within = a.put(within)
        self.first = a.put(cluster.astype(np.int64)) * n * n
        """Where the matrix of each frame's cluster begins."""
        base = a.put(cluster.astype(np.int64)) * n + self.within * self.B
        self.index = base[:, None] + torch.arange(self.B, device=a.device)
        """Rows of each frame in the padded vectors, (F, B)."""
        padding = torch.ones(self.count * n, dtype=torch.bool, device=a.device)
        padding[self.index.ravel()] = False
        spare = padding.nonzero()[:, 0]
        self.padding = spare // n * (n * n) + spare % n * (n + 1)
        self.S = torch.empty((self.count, n, n), dtype=torch.float64, device=a.device)
        self._pairs(shard)

    def _pairs(self, shard: LmShard) -> None:
        """The blocks that are not zero, and the pairs of observations that each is summed from."""
        a, obs = self.a, shard.obs
        mine = (a.row >= 0).nonzero()[:, 0]
        begin = a.put(obs.run_begin).long()[mine]
        k, other = expand(a.put(obs.run_end).long()[mine] - begin)
        left, right = mine[k], begin[k] + other
        i, j = a.frame[left].long(), a.frame[right].long()
        lower = (self.within[j] <= self.within[i]).nonzero()[:, 0]
        left, right, i, j = left[lower], right[lower], i[lower], j[lower]
        own = torch.arange(a.F, device=a.device)  # frames that see nothing have a block, too
        key = torch.cat([i * a.F + j, own * (a.F + 1)])
        key, order = torch.sort(key, stable=True)
        names, counts = torch.unique_consecutive(key, return_counts=True)
        real = (order < len(left)).nonzero()[:, 0]
        block = torch.repeat_interleave(counts)[real]
        counts = torch.bincount(block, minlength=len(names))
        order = order[real]
        self.left, self.right = a.row[left[order]].int(), a.row[right[order]].int()
        self.begins = pointers(counts)
        i, j = names // a.F, names % a.F
        at = self.first[i] + (self.within[i] * self.rows + self.within[j]) * self.B
        self.blocks = torch.stack([i, j, at, at], dim=1).contiguous()

    def factor(self, J: Tensor, V_inv: Tensor, D: Tensor, free: Tensor) -> bool:
        """False if one is not positive definite. Of several, L⁻¹ is formed: products are far
        quicker than substitutions."""
        self.S.zero_()
        products.form[(len(self.blocks),)](
            J, self.begins, self.blocks, self.left, self.right, self.a.row_point, V_inv, D, free,
            self.S, self.rows, B=self.B, W=tile_width(self.B), L=16, num_warps=1,
        )  # fmt: skip
        self.S.view(-1)[self.padding] = 1.0
        self.L, info = torch.linalg.cholesky_ex(self.S)
        if bool((info != 0).any()):
            return False
        self.inverse = None
        if self.count > 1:
            unit = torch.eye(self.rows, dtype=self.L.dtype, device=self.L.device)
            self.inverse = torch.linalg.solve_triangular(
                self.L, unit.expand_as(self.L), upper=False
            )
        return True

    def solve(self, r: Tensor) -> Tensor:
        """S_cc⁻¹ r, (F, B) or (F, B, w)."""
        columns = r.reshape(*self.index.shape, -1)
        w = columns.shape[2]
        x = torch.zeros((self.count * self.rows, w), dtype=r.dtype, device=r.device)
        x[self.index] = columns
        x = x.view(self.count, self.rows, w)
        if self.inverse is None:
            x = torch.cholesky_solve(x, self.L)
        else:
            x = self.inverse.mT @ (self.inverse @ x)
        return x.reshape(-1, w)[self.index].reshape(r.shape)
