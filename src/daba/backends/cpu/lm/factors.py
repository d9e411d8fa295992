"""Diagonal blocks of S, one for each cluster of frames, formed and factored on the CPU."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from daba.backends.cpu.compiled import compiled
from daba.backends.cpu.lm import records
from daba.backends.cpu.threads import Pool, threads
from daba.core.lm import Observations, Plan
from daba.core.types import Floats, Mask

FEW_FLOPS = 1e8
"""Operations of a factorization that one thread does at once, in 4 ms. Two may wait for each other
longer: right after another process has used the machine, the first iterations of ladybug-49, whose
factorization has 52 million, take 20 ms on two and 8 ms on one."""


class Factors:
    """S_cc = L Lᵀ, in square tiles."""

    def __init__(self, obs: Observations, plan: Plan, B: int, kernels: Any, pool: Pool) -> None:
        """The runs of `obs` are those of the plan's clusters."""
        self.obs, self.plan, self.kernels, self.pool = obs, plan, kernels, pool
        size, count, packed = plan.size, len(plan.level_row), records.packed(B)
        raw = np.empty(count * size * size * packed + 8)
        start = (-raw.ctypes.data // 8) % 8  # on a cache line
        self.packed = raw[start : start + count * size * size * packed].reshape(-1, packed)
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
