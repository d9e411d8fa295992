"""Conjugate gradients on one cluster, preconditioned by factors of S that are renewed when they are
too old.

Factoring takes as long as many iterations. So the first systems are preconditioned by the diagonal
blocks of S alone, frame by frame, and from the first factorization on by the factors of an earlier
system, whatever its damping was. Iterations beyond a few for each system are paid from a budget;
when it is spent, S is factored, the system at hand is solved by that, and the budget is full again.
So a solve never takes much more than twice as long as one that factors every system, nor as one
that factors none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.lm import Estimate, Observations
from daba.core.types import Floats
from daba.distributed.lm_shard import LmShard
from daba.solver.lm.coarse import CoarseSpace
from daba.solver.lm.direct import Direct
from daba.solver.lm.linear import FactoredAt, Solution
from daba.solver.lm.network import Network

FREE = 3
"""Iterations for each system that are not paid for: factors of an earlier step take one to three on
cup-362 and pinhole-149. With 2 and 5 all is the same within 10 %."""
RESIDUAL_OF_FRAMES = 0.3
"""Conjugate gradients stop when √(rᵀM⁻¹r) has fallen by this factor, if M is of single frames: with
0.1, notredame-150 takes 15 to 20 % longer, with 0.5 kitti-vo-250 a third, …"""
RESIDUAL = 0.1
"""… and if M was S of an earlier step; 0.03 and 0.3 take longer on half of seven problems."""
RESIDUAL_WHERE_ROUGH = 0.003
"""The same where errors are still large. M of single frames tells little of a camera that they
share: of 27 models with cameras 2°, 3° and 5° off, 4, 11 and 13 end above COLMAP without this, 1, 0
and 1 with 0.01, and 0, 0 and 1 with it; of 25 others, which had no part in the choice, 5, 13 and 14
without it, and 0, 0 and 1 with it."""


class Renewed(Direct):
    """Conjugate gradients. M is what is factored."""

    def __init__(
        self,
        shard: LmShard,
        ops: Any,
        network: Network,
        shared: CoarseSpace | None,
        worth: float,
        alone: tuple[Any, Observations],
    ) -> None:
        """`worth`: iterations that take as long as factoring; `alone`: the plan for frames that
        are clusters of their own, and observations with their runs."""
        super().__init__(shard, ops, network, shared)
        self.worth = self.budget = worth
        self.whole = ops.factors
        """Factors of S, …"""
        self.count = 0
        """… and how often it was factored."""
        ops.plan(*alone)
        self.frames = ops.factors
        self.made: FactoredAt | None = None
        """Where M was S; None, while it is of frames."""
        self.x = shard.x

    @property
    def description(self) -> str:
        often = "once" if self.count == 1 else f"{self.count:,} times"
        return f"conjugate gradients, S factored {often if self.count else 'never'}"

    def linearized(self, x: Estimate) -> None:
        super().linearized(x)
        self.x = x

    def solve(self, mu: float) -> Solution | None:
        b, b_s = self._damp(mu)
        if self.made is None and not self._factor_frames():
            return None
        solution = Solution(0.0 * b, 0.0 * b_s)
        left = self._iterate(solution, b, b_s)
        if left is None:
            return _with_energy(solution, b, b_s)
        self.budget = self.worth
        if not self._factor_whole(mu):
            return None
        y, d = self._divide(*left)
        solution.frames, solution.shared = solution.frames + y, solution.shared + d
        return _with_energy(solution, b, b_s)

    def again(self, mu: float) -> Solution | None:
        b, b_s = self._damp(mu)
        solution, budget = Solution(0.0 * b, 0.0 * b_s), self.budget
        self._iterate(solution, b, b_s)
        self.budget = budget
        return _with_energy(solution, b, b_s)

    def _iterate(self, solution: Solution, r: Floats, r_s: Floats) -> tuple[Any, Any] | None:
        """Conjugate gradients; the residual, if it is better to factor S now."""
        tolerance = RESIDUAL_OF_FRAMES if self.made is None else RESIDUAL
        tolerance = (RESIDUAL_WHERE_ROUGH if self.rough else tolerance) ** 2
        w, w_s = self._divide(r, r_s)
        p, p_s = w, w_s
        rw = first = _dot(r, w) + _dot(r_s, w_s)
        while rw > 0.0:
            Sp, Sp_s = self._product(p, p_s)
            curvature = _dot(p, Sp) + _dot(p_s, Sp_s)
            solution.iterations += 1
            if not curvature > 0.0:  # rounding has eaten it: what we have must do
                break
            alpha = rw / curvature
            solution.frames = solution.frames + alpha * p
            solution.shared = solution.shared + alpha * p_s
            r, r_s = r - alpha * Sp, r_s - alpha * Sp_s
            w, w_s = self._divide(r, r_s)
            left = _dot(r, w) + _dot(r_s, w_s)
            if not left > tolerance * first:
                break
            self.budget -= solution.iterations > FREE
            if self.budget <= 0.0:
                return r, r_s
            p, p_s, rw = w + left / rw * p, w_s + left / rw * p_s, left
        return None

    def _product(self, v: Floats, v_s: Floats) -> tuple[Floats, Floats]:
        """S v."""
        ops, space = self.ops, self.space
        h = ops.pull(v, self.of_images(ops.zeros(len(v_s))))
        if space is None:
            return ops.push(v, self.of_images(v_s), h), v_s
        of_shared = space.project(v, h)[0] + space.E @ v_s
        ops.coarse_correct(space.blocks, space.Y, -space.by_block(v_s), h)
        return ops.push(v, self.of_images(v_s), h), of_shared

    def _factor_frames(self) -> bool:
        """Factor the diagonal blocks of S."""
        if not self.ops.factor():
            return False
        if self.space is None:
            return True
        E = self.space.E
        return self._factor_inner(E if isinstance(E, np.ndarray) else E.toarray())

    def _factor_whole(self, mu: float) -> bool:
        """Factor S, and have it from now on."""
        self.ops.factors, self.made = self.whole, FactoredAt(self.x, mu)
        self.count += 1
        if not self._factor():
            self.ops.factors, self.made = self.frames, None
        return self.made is not None

    def _divide(self, b: Floats, b_s: Floats) -> tuple[Floats, Floats]:
        """M⁻¹ (b, b_s)."""
        if self.made is not None or self.space is None:
            return super()._divide(b, b_s)
        return self.ops.precondition(b), self.inner.T @ (self.inner @ b_s)

    # Checkpoints

    def common_state(self) -> dict[str, Any]:
        mu = None if self.made is None else self.made.mu
        return {"budget": self.budget, "count": self.count, "damping": mu}

    def remake(self, common: dict[str, Any]) -> None:
        if not common:  # a checkpoint of a version that factored every system
            return
        if common["damping"] is not None:
            self._damp(common["damping"])
            self._factor_whole(common["damping"])
        self.budget, self.count = common["budget"], common["count"]


def _with_energy(solution: Solution, b: Floats, b_s: Floats) -> Solution:
    solution.energy = _dot(b, solution.frames) + _dot(b_s, solution.shared)
    return solution


def _dot(a: Floats, b: Floats) -> float:
    return float(np.einsum("i,i->", a.reshape(-1), b.reshape(-1)))


def frames_alone(obs: Observations) -> Observations:
    """The same, if each frame is a cluster of its own."""
    another = np.diff(obs.point, prepend=-1) | np.diff(obs.frame, prepend=-1)
    begins = np.flatnonzero(another)
    lengths = np.diff(np.append(begins, len(obs.frame)))
    return obs._replace(
        run_begin=np.repeat(begins, lengths).astype(np.int32),
        run_end=np.repeat(begins + lengths, lengths).astype(np.int32),
    )
