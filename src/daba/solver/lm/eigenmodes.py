"""Local eigenmodes (GenEO): the motions of each cluster that its own points hardly resist, while
those that it shares with other clusters do.

Let N_cc be S_cc were the cluster alone, each of its points seen by its own frames only. Conjugate
gradients that are preconditioned by S_cc are slow where N_cc v = λ S_cc v with small λ: there the
cluster moves freely and only its neighbours hold it. A body's motions are such, and a long thin
chain has many more: it bends. With S_cc factored, the largest eigenvalues 1 − λ of
S_cc⁻¹ (S_cc − N_cc) come by subspace iteration, and S_cc − N_cc is of the boundary's points alone:

    S_cc − N_cc = Σ_j W_c (V_c⁻¹ − V'⁻¹) W_cᵀ,   V_c of the cluster's own observations of point j
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.types import Floats, distinct
from daba.distributed.lm_shard import LmShard

MODES = 30
"""Of each cluster, at most."""
THRESHOLD = 0.3
"""Of λ: modes below are taken into the coarse space."""
FIRST = 4
"""Subspace iterations for the first step."""
LATER = 1
"""Those for each step after it, which begin with its modes."""


class Eigenmodes:
    """Kept from step to step."""

    def __init__(self, shard: LmShard, ops: Any) -> None:
        self.shard, self.ops = shard, ops
        a, obs = shard.arrays, shard.obs
        begins = a.changes(obs.run_begin)
        lengths, point = obs.run_end[begins] - begins, obs.point[begins]
        whole = a.take(a.put(np.diff(obs.point_ptr)), point) == lengths
        own, ghost = obs.frame[begins] < shard.num_frames, point >= shard.num_points
        chosen = own & (ghost | ~whole)
        self.runs = a.int32(begins[chosen])
        number = a.where(chosen, chosen.cumsum(0) - 1, -1)
        self.run_at = a.int32(a.repeat(number, lengths))
        clusters = shard.cluster[: shard.num_frames]
        self.members = [np.flatnonzero(clusters == c) for c in distinct(clusters)]
        self.basis: Floats | None = None

    def find(self, start: Floats) -> tuple[Floats, int]:
        """Modes of own frames, (F, B, MODES), zeros where a cluster has fewer, and the most that
        one has; `start` are motions to begin with the first time."""
        iterations = FIRST if self.basis is None else LATER
        X = self._first(start[: self.shard.num_frames]) if self.basis is None else self.basis
        K = self.ops.gap_matrices(self.runs)
        Y = self.ops.gap(self.runs, self.run_at, K, X)
        for _ in range(iterations):
            X = self._solve(Y)
            gap = self.ops.gap(self.runs, self.run_at, K, X)
            X, Y, kept = self._ritz(X, Y, gap)
        self.basis = X
        return X * kept, int(self.ops.host(kept).sum(axis=2).max(initial=0))

    def _first(self, start: Floats) -> Floats:
        """The motions given, and others at random: always the same ones."""
        F, B, w = start.shape
        X = np.zeros((F, B, MODES))
        X[:, :, : min(w, MODES)] = start[:, :, :MODES]
        for members in self.members:
            random = np.random.default_rng(len(members))
            X[members, :, w:] = random.standard_normal((len(members), B, max(MODES - w, 0)))
        X[np.diff(self.shard.obs.frame_ptr) == 0] = 0.0
        if len(self.shard.fixed_frames):
            X[self.shard.fixed_frames] = 0.0
        return X

    def _solve(self, Y: Floats) -> Floats:
        return np.asarray(self.ops.precondition(Y))

    def _ritz(self, X: Floats, SX: Floats, gap: Floats) -> tuple[Floats, Floats, Floats]:
        """Of each cluster's subspace the vectors that diagonalize both matrices, orthonormal in
        S_cc, the slowest first; gap applied to them; and which are below the threshold, (F, 1, w).
        """
        F, B, w = X.shape
        out, applied, kept = np.zeros_like(X), np.zeros_like(X), np.zeros((F, 1, w))
        for members in self.members:
            x, s, g = (a[members].reshape(-1, w) for a in (X, SX, gap))
            mass, V = np.linalg.eigh(_symmetric(x.T @ s))
            good = mass > 1e-12 * mass[-1]
            T = V[:, good] / np.sqrt(mass[good])
            value, turn = np.linalg.eigh(_symmetric(T.T @ (x.T @ g) @ T))
            T = (T @ turn)[:, ::-1]
            n = T.shape[1]
            if n == 0:  # nothing of it is shared
                continue
            out[members, :, :n] = (x @ T).reshape(-1, B, n)
            applied[members, :, :n] = (g @ T).reshape(-1, B, n)
            kept[members, 0, :n] = value[::-1] > 1.0 - THRESHOLD
        return out, applied, kept


def _symmetric(A: Floats) -> Floats:
    return 0.5 * (A + A.T)
