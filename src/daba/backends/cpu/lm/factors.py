"""Diagonal blocks of S, one for each cluster of frames, formed and factored on the CPU; and how
many numbers of memory go with a block of B×B (`blocks.py`)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from daba.backends.cpu.compiled import compiled
from daba.backends.cpu.threads import Pool, threads
from daba.core.lm import Observations, Plan
from daba.core.types import Floats, Mask

FEW_FLOPS = 1e8
"""Operations of a factorization that one thread does at once, in 4 ms. Two may wait for each other
longer: right after another process has used the machine, the first iterations of ladybug-49, whose
factorization has 52 million, take 20 ms on two and 8 ms on one."""


def lanes(B: int) -> int:
    """Numbers in a padded row of B."""
    return -(-B // 4) * 4


def packed_width(B: int) -> int:
    """Numbers in a packed block."""
    return -(-81 // 8) * 8 if B == 9 else B * lanes(B)


def record_width(B: int) -> int:
    """Numbers in a record of derivatives: two rows of B, the residual, and room to read beyond,
    which blocks of 9 need none of."""
    return 2 * B + 2 if B == 9 else max(2 * B + 2, B + lanes(B))


def added_width(B: int) -> int:
    """Numbers that observations add up to for a frame: a packed block, g, and a distance."""
    return -(-(packed_width(B) + B + 1) // 8) * 8


class Factors:
    """S_cc = L Lᵀ, in square tiles."""

    def __init__(self, obs: Observations, plan: Plan, B: int, kernels: Any, pool: Pool) -> None:
        """The runs of `obs` are those of the plan's clusters."""
        self.obs, self.plan, self.kernels, self.pool = obs, plan, kernels, pool
        size, count, width = plan.size, len(plan.level_row), packed_width(B)
        raw = np.empty(count * size * size * width + 8)
        start = (-raw.ctypes.data // 8) % 8  # on a cache line
        self.packed = raw[start : start + count * size * size * width].reshape(-1, width)
        self.tiles = np.empty((count, B * size, B * size))
        self.inverses = np.empty((len(plan.first), B * size, B * size))
        self.definite = np.empty(len(plan.cluster_ptr) - 1, bool)
        flops = 2.0 * (B * size) ** 3 * np.square(np.diff(plan.row_ptr) + 1.0).sum() / 2.0
        self.alone = bool(flops < FEW_FLOPS)
        self.of_frames = len(plan.cluster_ptr) - 1 == len(plan.place)
        """Whether each frame is a cluster; its block is then at its place."""

    def form(self, J: Floats, V_inv: Floats) -> None:
        """The packed blocks, less D."""
        p, k = self.plan, self.kernels
        self.pool.run(k.form, len(p.share_ptr) - 1, self.obs, J, V_inv, p, self.packed)

    def factor(self, D: Floats, fixed: Mask) -> bool:
        """Factor what was formed; False if one is not positive definite."""
        p, k = self.plan, self.kernels
        self.pool.run(k.fill_tiles, len(p.level_row), p, self.packed, D, fixed, self.tiles)
        with threads(1) if self.alone else nullcontext():
            compiled("lm.tiles").factor(p, self.tiles, self.inverses, self.definite)
        return bool(self.definite.all())

    def solve(self, r: Floats) -> Floats:
        """S_cc⁻¹ r of each cluster c, (F, B), or of several columns, (F, B, w)."""
        columns = np.ascontiguousarray(np.moveaxis(r, 2, 0)) if r.ndim == 3 else r[None]
        out, tasks = np.empty_like(columns), len(columns) * (len(self.plan.cluster_ptr) - 1)
        self.pool.run(
            self.kernels.substitute, tasks, self.plan, self.tiles, self.inverses, columns, out
        )
        return np.ascontiguousarray(np.moveaxis(out, 0, 2)) if r.ndim == 3 else out[0]
