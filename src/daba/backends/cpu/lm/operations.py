"""What Levenberg–Marquardt does with arrays, on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from daba.backends.cpu.compiled import compiled
from daba.backends.cpu.lm.factors import Factors, added_width, record_width
from daba.backends.cpu.threads import Pool
from daba.backends.lm import HostArrays, nothing
from daba.core.decisions import LEAST_DIAGONAL
from daba.core.lm import NO_PRIORS, Buffers, CoarseBlocks, Estimate, Loss, Observations, Plan
from daba.core.types import Bools, Floats, Int32, Tasks
from daba.distributed.lm_shard import LmShard

WORTH_BUFFERS = 4.0
"""Observations for each task and frame from which on tasks of points add up blocks of frames:
derivatives are then read as they lie, and while they are in the cache. On notredame-150, which has
27, U takes 7 instead of 10 ms, and diagonal blocks of S likewise."""


class CpuOperations(HostArrays):
    """Arrays are NumPy's; kernels run on the threads of a pool."""

    def __init__(self, shard: LmShard, loss: Loss, pool: Pool) -> None:
        self.shard, self.loss, self.pool = shard, loss, pool
        B, G = shard.kind.block, shard.kind.columns
        self.kernels: Any = compiled("lm.binding", "kernels", shard.kind)
        self.algebra: Any = compiled("lm.binding", "algebra", B, G)
        F, I = shard.num_frames, int(shard.images.frame_ptr[-1])
        K, all_points = len(shard.obs.frame), len(shard.x.points)
        self.J, self.Jg = np.empty((K, record_width(B))), np.empty((K, 2 * G))
        self.J[:, 2 * B + 2 :] = 0.0  # read as if it were numbers
        self.U, self.g = np.zeros((F, B, B)), np.zeros((F, B))
        self.V, self.g_l = np.zeros((all_points, 6)), np.zeros((all_points, 3))
        self.X, self.T, self.g_s = np.zeros((I, B, G)), np.zeros((I, G, G)), np.zeros((I, G))
        self.frame_bound, self.point_bound = np.full(F, np.inf), np.full(all_points, np.inf)
        self.D = np.zeros((F, B, B))
        self.V_inv, self.z = np.zeros((all_points, 6)), np.zeros((all_points, 3))
        self.image_frame = np.repeat(np.arange(F), np.diff(shard.images.frame_ptr))
        self.buffers = make_buffers(shard)
        self.pushed = np.empty((int(self.buffers.ptr[-1]), B))
        rows = int(self.buffers.ptr[-1]) if shard.crowding >= WORTH_BUFFERS else 0
        self.added = np.empty((rows, added_width(B)))
        self.sums = np.zeros((len(shard.point_tasks.device), 3))
        self.decrease = np.zeros(len(shard.point_tasks.device))

    def _run(self, kernel: Any, tasks: Tasks, *args: Any) -> None:
        self.pool.run(kernel, len(tasks.device), *args)

    def by_device(self, partial: Floats, tasks: Tasks) -> Floats:
        """Sums of what tasks have found, in their order."""
        return np.add.reduceat(partial, tasks.device_ptr[:-1])  # a device has one task at least

    # The objective and its derivatives

    def visible(self, x: Estimate) -> Bools:
        """Whether cameras see the points of their observations, ghosts' included."""
        s, seen = self.shard, np.ones(len(self.shard.obs.frame), bool)
        for tasks in (s.point_tasks, s.ghost_tasks):
            self._run(self.kernels.visible, tasks, s.obs, s.images, x, tasks, seen)
        return seen

    def objective(self, x: Estimate) -> Floats:
        """F, Σ ω²|r|², and points that a camera does not see, of each device, (S, 3)."""
        s = self.shard
        self._run(
            self.kernels.objective, s.point_tasks, s.obs, s.images, x, s.point_tasks, self.loss,
            s.point_priors, self.sums,
        )  # fmt: skip
        return self.by_device(self.sums, s.point_tasks)

    def linearize(self, x: Estimate) -> None:
        """Derivatives of all observations; U, V and gradients."""
        s, k = self.shard, self.algebra
        for tasks, priors, added in (
            (s.point_tasks, s.point_priors, self.added),
            (s.ghost_tasks, NO_PRIORS, self.added[:0]),
        ):
            self._run(
                self.kernels.linearize, tasks, s.obs, s.images, x, tasks, self.loss, priors,
                self.J, self.Jg, self.V, self.g_l, self.point_bound, self.buffers, added,
            )  # fmt: skip
        left = s.obs.inter_ptr, s.obs.inter_obs
        self._run(
            k.linearize_frames, s.frame_tasks, s.obs, x, s.frame_tasks, s.point_tasks, self.J,
            self.buffers, self.added,
            *(left if len(self.added) else (s.obs.frame_ptr, s.obs.frame_obs)),
            self.U, self.g, self.frame_bound,
        )  # fmt: skip
        if s.kind.columns:
            self._run(
                k.linearize_shared, s.frame_tasks, s.obs, s.images, s.frame_tasks, self.J, self.Jg,
                self.X, self.T, self.g_s,
            )  # fmt: skip
        if len(s.fixed_points):
            self.g_l[: s.num_points][s.fixed_points] = 0.0

    def second_order(self, x: Estimate, ahead: Estimate, behind: Estimate, reach: float) -> None:
        """Put the second derivatives of residuals along a step in their place: the gradient is that
        of these, until `first_order`. `ahead` and `behind` are so far along the step."""
        s, k = self.shard, self.algebra
        self.first = self.g, self.g_l, self.g_s
        self.g, self.g_l, self.g_s = (np.zeros_like(a) for a in self.first)
        for tasks in (s.point_tasks, s.ghost_tasks):
            self._run(
                self.kernels.second_order, tasks, s.obs, s.images, x, ahead, behind, tasks,
                self.loss, 1.0 / reach**2, self.J,
            )  # fmt: skip
        room = self.buffers, self.pushed
        self._run(k.gradient_points, s.point_tasks, s.obs, s.point_tasks, self.J, self.g_l, *room)
        self._run(
            k.gradient_frames, s.frame_tasks, s.obs, s.frame_tasks, s.point_tasks, self.J, *room,
            self.g,
        )  # fmt: skip
        if s.kind.columns:
            self._run(
                k.linearize_shared, s.frame_tasks, s.obs, s.images, s.frame_tasks, self.J, self.Jg,
                self.X, self.T, self.g_s,
            )  # fmt: skip
        if len(s.fixed_points):
            self.g_l[: s.num_points][s.fixed_points] = 0.0
        self.hold()

    def first_order(self) -> None:
        """Have the gradient of residuals again."""
        self.g, self.g_l, self.g_s = self.first

    def hold(self) -> None:
        """Take what is fixed out of U and the gradient."""
        fixed = self.shard.fixed_frames
        if len(fixed):
            i = np.flatnonzero(fixed.any(axis=1))
            free = ~fixed[i]
            self.U[i] *= free[:, :, None] & free[:, None, :]
            self.g[i] *= free
            self.X *= ~fixed[self.image_frame][:, :, None]

    # One damped system

    def damp(self, mu: float) -> tuple[Floats, Floats]:
        """D = U', and V'⁻¹ and z = V'⁻¹ g of own points, to be sent to whoever sees them."""
        s = self.shard
        diagonal = np.arange(s.kind.block)
        self.D[:] = self.U
        self.D[:, diagonal, diagonal] += mu * np.maximum(
            self.U[:, diagonal, diagonal], LEAST_DIAGONAL
        )
        self._run(
            self.algebra.damp_points, s.point_tasks, s.point_tasks, self.V, self.g_l, mu,
            s.fixed_points, self.V_inv, self.z,
        )  # fmt: skip
        return self.V_inv, self.z

    def right_hand_side(self) -> Floats:
        """−g + W z of frames."""
        return self.cut(self._push(self.z) - self.g)

    def _push(self, h: Floats, arrive: Callable[[], None] = nothing) -> Floats:
        """W h of own frames; `arrive` waits for h of ghosts."""
        s, k, out = self.shard, self.algebra, np.empty_like(self.g)
        self._run(
            k.push_points, s.point_tasks, s.obs, s.point_tasks, self.J, h, self.buffers, self.pushed
        )
        arrive()
        self._run(
            k.push_frames, s.frame_tasks, s.obs, s.frame_tasks, s.point_tasks, self.J, h,
            self.buffers, self.pushed, out,
        )  # fmt: skip
        return out

    def cut(self, v: Floats) -> Floats:
        """v without what is fixed."""
        if len(self.shard.fixed_frames):
            v[self.shard.fixed_frames] = 0.0
        return v

    # Diagonal blocks of S, cluster by cluster

    def plan(self, plan: Plan, obs: Observations | None = None) -> None:
        """The clusters from now on; `obs`: with their runs, if they are not the shard's."""
        obs = self.shard.obs if obs is None else obs
        self.factors = Factors(obs, plan, self.shard.kind.block, self.algebra, self.pool)

    def factor(self) -> bool:
        """Form and factor them; False if one is not positive definite."""
        if len(self.added) and self.factors.of_frames:
            self._form_by_point(self.factors)
        else:
            self.factors.form(self.J, self.V_inv)
        return self.factors.factor(self.D, self.shard.fixed_frames)

    def _form_by_point(self, to: Factors) -> None:
        s, k, room = self.shard, self.algebra, (self.buffers, self.added)
        self._run(k.form_by_point, s.point_tasks, to.obs, s.point_tasks, self.J, self.V_inv, *room)
        self._run(
            k.form_frames, s.frame_tasks, to.obs, s.frame_tasks, s.point_tasks, self.J, self.V_inv,
            to.plan.place, *room, to.packed,
        )  # fmt: skip

    def precondition(self, r: Floats) -> Floats:
        """S_cc⁻¹ r of each cluster c, (F, B), or of several columns, (F, B, w)."""
        return self.factors.solve(r)

    # Products with S

    def pull(self, v: Floats, v_s: Floats, arrive: Callable[[], None] = nothing) -> Floats:
        """h = V'⁻¹ Wᵀ v of own points; `arrive` waits for v of ghosts, while what own frames pull
        is computed."""
        s, k = self.shard, self.algebra
        h = np.zeros((len(s.x.points), 3))
        args = s.obs, s.point_tasks, self.J, self.Jg, v, v_s
        self._run(k.pull_own, s.point_tasks, *args, h)
        arrive()
        self._run(k.pull_others, s.point_tasks, *args, self.V_inv, h)
        return h

    def push(
        self, v: Floats, v_s: Floats, h: Floats, arrive: Callable[[], None] = nothing
    ) -> Floats:
        """S v = D v + X v_s − W h of own frames; `arrive` waits for h of ghosts, while what own
        points push is computed."""
        out = np.einsum("iab,ib->ia", self.D, v) - self._push(h, arrive)
        if self.shard.kind.columns:
            np.add.at(out, self.image_frame, np.einsum("mab,mb->ma", self.X, v_s[: len(self.X)]))
        return self.cut(out)

    # The coarse space

    def coarse_rows(self, coarse: CoarseBlocks, Z: Floats, width: int) -> Floats:
        """Y of each point and block that sees it, (·, 3, width)."""
        s = self.shard
        Y = np.zeros((len(coarse.block), 3, width))
        self._run(
            self.algebra.coarse_rows, s.point_tasks, s.obs, coarse, s.point_tasks, self.J, self.Jg,
            Z, Y,
        )  # fmt: skip
        return Y

    def coarse_matrix(self, coarse: CoarseBlocks, Y: Floats, pairs: int) -> Floats:
        """Σ_j Y_jqᵀ V'⁻¹ Y_jr of each device and pair, (S, pairs, width, width)."""
        tasks, width = self.shard.point_tasks, Y.shape[2]
        out = np.zeros((len(tasks.device), pairs, width, width))
        self._run(self.algebra.coarse_matrix, tasks, coarse, tasks, self.V_inv, Y, out)
        return self.by_device(out, tasks)

    def coarse_dots(self, coarse: CoarseBlocks, Y: Floats, h: Floats, blocks: int) -> Floats:
        """Σ_j Y_jqᵀ h_j of each device and block that it sees, (S, blocks, width)."""
        tasks = self.shard.point_tasks
        out = np.zeros((len(tasks.device), blocks, Y.shape[2]))
        self._run(self.algebra.coarse_dots, tasks, coarse, tasks, Y, h, out)
        return self.by_device(out, tasks)

    def coarse_correct(self, coarse: CoarseBlocks, Y: Floats, c: Floats, h: Floats) -> None:
        """h −= V'⁻¹ Y c of own points, c by block."""
        tasks = self.shard.point_tasks
        self._run(self.algebra.coarse_correct, tasks, coarse, tasks, Y, c, self.V_inv, h)

    def shared_columns(self, coarse: CoarseBlocks, Y: Floats) -> Floats:
        """The columns of S in which what is shared meets own frames, (F, B, m)."""
        s = self.shard
        out = np.empty((s.num_frames, s.kind.block, s.shared.count))
        self._run(
            self.algebra.shared_columns, s.frame_tasks, s.obs, s.images, coarse, s.frame_tasks,
            self.J, self.V_inv, self.X, Y, out,
        )  # fmt: skip
        return self.cut(out)

    # Local eigenmodes

    def gap_matrices(self, runs: Int32) -> Floats:
        """V_c⁻¹ − V'⁻¹ of each run of observations of a point by one cluster, (runs, 6)."""
        K = np.empty((len(runs), 6))
        self.pool.run(self.algebra.gap_runs, len(runs), self.shard.obs, runs, self.J, self.V_inv, K)
        return K

    def gap(self, runs: Int32, run_at: Int32, K: Floats, X: Floats) -> Floats:
        """Σ W_c K W_cᵀ X: what S_cc has more than it would, were clusters alone; X is (F, B, w)."""
        s = self.shard
        q = np.empty((len(runs), 3, X.shape[2]))
        self.pool.run(self.algebra.gap_pull, len(runs), s.obs, runs, self.J, K, X, q)
        out = np.empty_like(X)
        self._run(
            self.algebra.gap_push, s.frame_tasks, s.obs, run_at, s.frame_tasks, self.J, q, out
        )
        if len(s.fixed_frames):
            out[s.fixed_frames] = 0.0
        return out

    # The step

    def energy_of_points(self) -> Floats:
        """Σ g_lᵀV'⁻¹g_l of each device, (S,)."""
        tasks, own = self.shard.point_tasks, self.shard.num_points
        each = np.einsum("pa,pa->p", self.g_l[:own], self.z[:own])
        begins = tasks.ptr[tasks.device_ptr]
        return np.array([each[i:j].sum() for i, j in zip(begins[:-1], begins[1:], strict=True)])

    def back_substitute(self, step: Floats, step_s: Floats) -> tuple[Floats, Floats]:
        """Steps of own points, and what the model says they lower, (S,); `step` has its ghosts."""
        s = self.shard
        out = np.zeros((len(s.x.points), 3))
        self._run(
            self.algebra.back_substitute, s.point_tasks, s.obs, s.point_tasks, self.J, self.Jg,
            self.V, self.V_inv, self.g_l, self.point_bound, step, step_s, out, self.decrease,
        )  # fmt: skip
        return out, self.by_device(self.decrease, s.point_tasks)

    def settle_points(self, x: Estimate, old: Floats, steps: int) -> Floats:
        """Let each of x's own points make steps of its own; F and the rest as in `objective`."""
        s = self.shard
        self._run(
            self.kernels.settle_points, s.point_tasks, s.obs, s.images, x, old, s.point_tasks,
            self.loss, s.point_priors, steps, s.fixed_points, x.points, self.sums,
        )  # fmt: skip
        return self.by_device(self.sums, s.point_tasks)


def make_buffers(shard: LmShard) -> Buffers:
    tasks, ptr = shard.point_tasks, shard.frame_ptr
    rows = np.diff(ptr)[tasks.device]
    return Buffers(
        np.concatenate([[0], np.cumsum(rows)]).astype(np.int64),
        ptr[tasks.device].astype(np.int64),
    )
