"""S of one cluster, factored; what is shared is a border of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.lm import Estimate
from daba.core.types import Floats
from daba.distributed.lm_shard import LmShard
from daba.solver.lm.coarse import CoarseSpace
from daba.solver.lm.linear import Reduced, Solution
from daba.solver.lm.network import Network


class Direct(Reduced):
    """One cluster. With what is shared,

    S = [A B; Bᵀ T],   (T − BᵀA⁻¹B) d = b_s − Bᵀ A⁻¹ b,   y = A⁻¹ b − A⁻¹B d.
    """

    at_hand = True

    def __init__(
        self, shard: LmShard, ops: Any, network: Network, shared: CoarseSpace | None
    ) -> None:
        super().__init__(shard, ops, network)
        self.space = shared

    @property
    def description(self) -> str:
        return "direct"

    def linearized(self, x: Estimate) -> None:
        if self.space is not None:
            self.space.linearized(x.frames)

    def solve(self, mu: float) -> Solution | None:
        b, b_s = self._damp(mu)
        return self._solution(b, b_s) if self._factor() else None

    def again(self, mu: float) -> Solution | None:
        return self._solution(*self._damp(mu))

    def _solution(self, b: Any, b_s: Any) -> Solution:
        y, d = self._divide(b, b_s)
        return Solution(y, d, energy=self._dot(b, y) + self._dot(b_s, d))

    def _dot(self, a: Any, b: Any) -> float:
        return float((a * b).sum())

    def _damp(self, mu: float) -> tuple[Any, Any]:
        """The system for damping μ: its right-hand side, of frames and of what is shared."""
        ops, space = self.ops, self.space
        V_inv, z = ops.damp(mu)
        self.network.points(V_inv, z)
        if space is not None:
            space.assemble(mu, z)
        return ops.right_hand_side(), ops.zeros(0) if space is None else space.right

    def _factor(self) -> bool:
        """Factor S; False if it is not positive definite."""
        ops, space = self.ops, self.space
        if not ops.factor():
            return False
        if space is None:
            return True
        B = ops.shared_columns(space.blocks, space.Y)
        m = B.shape[2]
        self.border = B.reshape(-1, m)
        self.Y = ops.precondition(B)
        K = ops.host(space.E - self.border.T @ self.Y.reshape(-1, m))
        return self._factor_inner(0.5 * (K + K.T))

    def _factor_inner(self, K: Floats) -> bool:
        """Of what is shared; False if it is not positive definite."""
        try:
            self.inner: Floats = np.linalg.inv(np.linalg.cholesky(K))
        except np.linalg.LinAlgError:
            return False
        return True

    def _divide(self, b: Any, b_s: Any) -> tuple[Any, Any]:
        """S⁻¹ (b, b_s), of the S that was factored last."""
        ops, y = self.ops, self.ops.precondition(b)
        if self.space is None:
            return y, b_s
        right = ops.host(b_s - self.border.T @ y.reshape(-1))
        d = ops.put(self.inner.T @ (self.inner @ right))
        return y - self.Y @ d, d
