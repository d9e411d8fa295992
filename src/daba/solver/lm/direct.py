"""S of one cluster, factored; what is shared is a border of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.types import Floats
from daba.distributed.lm_shard import LmShard
from daba.solver.lm.coarse import CoarseSpace
from daba.solver.lm.linear import Reduced, Solution
from daba.solver.lm.network import Network


class Direct(Reduced):
    """One cluster. What is shared is a border: with Y = A⁻¹B, (T − BᵀY) d = b − Bᵀ y₀ and
    y = y₀ − Y d, where y₀ = A⁻¹ rhs."""

    description = "direct"

    def __init__(
        self, shard: LmShard, ops: Any, network: Network, shared: CoarseSpace | None
    ) -> None:
        super().__init__(shard, ops, network)
        self.space = shared

    def linearized(self, frames: Floats) -> None:
        if self.space is not None:
            self.space.linearized(frames)

    def solve(self, mu: float) -> Solution | None:
        ops, space = self.ops, self.space
        V_inv, z = ops.damp(mu)
        self.network.points(V_inv, z)
        if not ops.factor():
            return None
        y = ops.precondition(ops.right_hand_side())
        if space is None:
            return Solution(y, ops.zeros(0))
        space.assemble(mu, z)
        B = ops.shared_columns(space.blocks, space.Y)
        m = B.shape[2]
        Y = ops.precondition(B)
        flat = B.reshape(-1, m)
        K = ops.host(space.E - flat.T @ Y.reshape(-1, m))
        K = 0.5 * (K + K.T)
        try:
            np.linalg.cholesky(K)
        except np.linalg.LinAlgError:
            return None
        d = ops.put(np.linalg.solve(K, ops.host(space.right - flat.T @ y.reshape(-1))))
        return Solution(y - Y @ d, d)
