"""The coarse space and local eigenmodes where frames' arrays are tensors on a GPU: the same as in
`coarse.py` and `eigenmodes.py`, for all clusters at once. And what is done before the clock starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from daba.backends.gpu.lm.segments import Scatter
from daba.core.decisions import LEAST_DIAGONAL
from daba.core.types import Floats
from daba.distributed.lm_shard import LmShard
from daba.solver.lm.coarse import SINGULAR, CoarseSpace
from daba.solver.lm.deflated import Deflated
from daba.solver.lm.eigenmodes import MODES, THRESHOLD, Eigenmodes
from daba.solver.lm.network import Network
from daba.solver.lm.solver import LevenbergMarquardt, move

Tensor = Any


class GpuCoarseSpace(CoarseSpace):
    """Vectors of the space are tensors, too."""

    Z: Any

    def __init__(self, shard: LmShard, ops: Any, network: Network, *clusters: Any) -> None:
        super().__init__(shard, ops, network, *clusters)
        ops.coarse_lists(self.blocks)  # now, and not when kernels are compiled and no clock runs

    def resize(self, modes: int) -> None:
        super().resize(modes)
        put, s, G = self.ops.put, self.shard, self.shard.kind.columns
        own = self.cluster[: s.num_frames]
        self.at = put(self.columns)
        by_frame: np.ndarray = np.empty(0)
        if self.clusters:
            by_frame = self.frame_device[:, None] * self.size + self.columns[own, :modes]
        by_image: np.ndarray = np.empty(0)
        if G:
            at = self.columns[self.image_block, :G]
            by_image = np.where(at >= 0, self.image_device[:, None] * self.size + at, -1)
        by_dot = np.full((s.devices, self.most_seen, self.width), -1)
        for d in range(s.devices):
            blocks = self.seen_block[self.seen_begin[d] : self.seen_begin[d + 1]]
            at = self.columns[blocks]
            by_dot[d, : len(blocks)] = np.where(at >= 0, d * self.size + at, -1)
        parts = (by_frame, by_image, by_dot)
        target = np.concatenate([part.ravel() for part in parts]).astype(np.int64)
        self.to_vector = Scatter(put(target), s.devices * self.size)
        self._pairs_of()
        self._places_of()

    def _pairs_of(self) -> None:
        """Which pair of blocks each frame and image adds to."""
        put, E, s = self.ops.put, self.everywhere, self.shard
        own, total = self.cluster[: s.num_frames], s.devices * self.everywhere
        if self.clusters:
            at = self.frame_device * E + self._pair(self.frame_device, own, own)
            self.to_pair = Scatter(put(at), total)
        if s.kind.columns:
            of, device = self.image_block, self.image_device
            self.to_group = Scatter(put(device * E + self._pair(device, of, of)), total)
            if self.clusters:
                at = device * E + self._pair(device, of, own[self.image_frame])
                self.to_crossed = Scatter(put(at), total)

    def _places_of(self) -> None:
        """Where the numbers of all devices' pairs go in E."""
        put, n, source, target = self.ops.put, self.width, [], []
        inside = put(np.arange(n * n).reshape(1, n, n))
        for d, pairs in enumerate(self.all_pairs):
            count = int((pairs[0] >= 0).sum())
            a, b = (put(self.columns[pairs[end, :count]]) for end in (0, 1))
            from_ = put(d * self.everywhere + np.arange(count))[:, None, None] * (n * n) + inside
            apart = put(pairs[0, :count] != pairs[1, :count])[:, None, None]
            known = (a[:, :, None] >= 0) & (b[:, None, :] >= 0)
            cell = a[:, :, None] * self.size + b[:, None, :]
            mirrored = b[:, None, :] * self.size + a[:, :, None]
            source += [from_[known], from_[known & apart]]
            target += [cell[known], mirrored[known & apart]]
        self.source, self.target = torch.cat(source), torch.cat(target)

    def take(self, Z: Any, travels: bool) -> None:
        if Z.shape[2] != self.modes:
            self.resize(Z.shape[2])
        self.Z = self.ops.put(self._with_ghosts(Z) if travels and self.clusters else Z)
        self.Y = self.ops.coarse_rows(self.blocks, self.Z, self.width)

    def assemble(self, mu: float, z: Tensor) -> None:
        s, ops, n, t = self.shard, self.ops, self.width, self.ops.tensors
        values = self.Z.new_zeros((s.devices, self.everywhere, n, n))
        found = ops.coarse_matrix(self.blocks, self.Y)
        values[:, : found.shape[1]] = -found
        self._add_frames(values.view(-1, n, n))
        right = self._vector(-t["g"], -t["g_s"], ops.coarse_dots(self.blocks, self.Y, z))
        total = self.network.gather(values.view(s.devices, -1))
        self.right = self.network.sparse_sum(right, self.used)
        E = self.Z.new_zeros(self.size * self.size)
        E.index_put_((self.target,), total.view(-1)[self.source], accumulate=True)
        self.E = E.view(self.size, self.size)
        if s.shared.count:
            diagonal = t["T"].diagonal(dim1=1, dim2=2)
            none = self.Z.new_zeros((s.num_frames, s.kind.block))
            rows = self._vector(none, diagonal, 0.0 * ops.coarse_dots(self.blocks, self.Y, z))
            shared = self.network.sum(rows)[self.first_shared :]
            added = mu * torch.clamp(shared, min=LEAST_DIAGONAL)
            self.E.diagonal()[self.first_shared :] += added

    def _add_frames(self, values: Tensor) -> None:
        t, m, G = self.ops.tensors, self.modes, self.shard.kind.columns
        Z = self.Z[: self.shard.num_frames]
        if self.clusters:
            values[:, :m, :m] += self.to_pair.sum(Z.transpose(1, 2) @ (t["D"] @ Z))
        if G:
            values[:, :G, :G] += self.to_group.sum(t["T"])
            if self.clusters:
                crossed = t["X"].transpose(1, 2) @ Z[self.ops.a.image_frame]
                values[:, :G, :m] += self.to_crossed.sum(crossed)

    def _vector(self, v: Tensor, v_s: Tensor, dots: Tensor) -> Tensor:
        """Zᵀ (v, v_s) + Σ_j Y_jq h_j of each device, (S, size), given the last."""
        parts = [dots.reshape(-1)]
        if self.shard.kind.columns:
            parts.insert(0, v_s.reshape(-1))
        if self.clusters:
            Z = self.Z[: self.shard.num_frames]
            parts.insert(0, torch.einsum("iaw,ia->iw", Z, v).reshape(-1))
        found = self.to_vector.sum(torch.cat(parts)[:, None])
        return found.view(self.shard.devices, self.size)

    def project(self, v: Tensor, h: Tensor) -> Tensor:
        t, ops = self.ops.tensors, self.ops
        pulled = torch.einsum("mab,ma->mb", t["X"], v[ops.a.image_frame])
        moved = torch.einsum("iab,ib->ia", t["D"], v)
        return self._vector(moved, pulled, -ops.coarse_dots(self.blocks, self.Y, h))

    def modes_of(self, v: Tensor) -> Tensor:
        none = v.new_zeros((len(self.image_frame), self.shard.kind.columns))
        dots = v.new_zeros((self.shard.devices, self.most_seen, self.width))
        return self._vector(v, none, dots)

    def factor(self) -> bool:
        scale = torch.sqrt(torch.clamp(self.E.diagonal(), min=0.0))
        self.scale = torch.where(scale > 0, 1.0 / scale, 0.0)
        E = self.E * (self.scale[:, None] * self.scale)
        L = _factor(E)
        if L is None:
            return False
        unit = torch.eye(self.size, dtype=E.dtype, device=E.device)
        self.inverse = torch.linalg.solve_triangular(L, unit, upper=False)
        return True

    def solve(self, c: Tensor) -> Tensor:
        return self.scale * (self.inverse.T @ (self.inverse @ (self.scale * c)))

    def by_block(self, c: Tensor) -> Tensor:
        if not len(c):  # where eigenmodes are looked for, there may be none
            return c.new_zeros(self.columns.shape)
        return torch.where(self.at >= 0, c[torch.clamp(self.at, min=0)], 0.0)

    def extend(self, c: Tensor) -> tuple[Tensor, Tensor]:
        own = self.shard.num_frames
        out = c.new_zeros((own, self.shard.kind.block))
        if self.clusters:
            modes = c[self.at[self.ops.put(self.cluster[:own]).long(), : self.modes]]
            out = torch.einsum("iaw,iw->ia", self.Z[:own], modes)
        return out, c[self.first_shared :]


class GpuEigenmodes(Eigenmodes):
    """All clusters in a batch, padded to the largest."""

    basis: Any

    def __init__(self, shard: Any, ops: Any) -> None:
        super().__init__(shard, ops)
        sizes = [len(members) for members in self.members]
        self.most = max(sizes)
        place = np.empty(shard.num_frames, np.int64)
        for c, members in enumerate(self.members):
            place[members] = c * self.most + np.arange(len(members))
        self.place = ops.put(place)

    def _first(self, start: Floats) -> Tensor:
        return self.ops.put(super()._first(start))

    def _solve(self, Y: Tensor) -> Tensor:
        return self.ops.precondition(Y)

    def _batch(self, X: Tensor) -> Tensor:
        """(clusters, rows, w)."""
        _, B, w = X.shape
        out = X.new_zeros((len(self.members) * self.most, B, w))
        out[self.place] = X
        return out.view(len(self.members), self.most * B, w)

    def _frames(self, batch: Tensor, B: int) -> Tensor:
        return batch.reshape(-1, B, batch.shape[2])[self.place]

    def _ritz(self, X: Tensor, SX: Tensor, gap: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        B = X.shape[1]
        x, s, g = self._batch(X), self._batch(SX), self._batch(gap)
        mass, V = torch.linalg.eigh(_symmetric(x.mT @ s))
        good = mass > 1e-12 * mass[:, -1:]
        T = V * torch.where(good, 1.0 / torch.sqrt(torch.where(good, mass, 1.0)), 0.0)[:, None]
        inner = _symmetric(T.mT @ (x.mT @ g) @ T)
        # what was left out must come last
        inner = inner - torch.diag_embed(torch.where(good, 0.0, 2.0))
        value, turn = torch.linalg.eigh(inner)
        T = (T @ turn).flip(2)
        kept = (value.flip(1) > 1.0 - THRESHOLD).to(X.dtype)
        cluster = self.place // self.most
        return self._frames(x @ T, B), self._frames(g @ T, B), kept[cluster][:, None, :]


def launch_linear(solver: LevenbergMarquardt) -> None:
    """Launch the kernels of clusters and of the coarse space: for compilation, not to be run."""
    ops, parts = solver.ops, solver.parts
    ops.factor()
    space = getattr(solver.reduced, "space", None)
    if space is not None:
        space.linearized(solver.x.frames)
        space.assemble(1.0, ops.no_steps())
        c = space.by_block(ops.zeros(space.size))
        ops.coarse_correct(space.blocks, space.Y, c, ops.no_steps())
    if isinstance(solver.reduced, Deflated):
        runs, each = np.zeros(2, np.int32), np.zeros(len(parts.obs.frame), np.int32)
        modes = ops.zeros((parts.num_frames, parts.kind.block, MODES))
        ops.gap(runs, each, ops.gap_matrices(runs), modes)
    elif space is not None:
        ops.shared_columns(space.blocks, space.Y)


_rehearsed: set[Any] = set()


def rehearse(solver: LevenbergMarquardt) -> None:
    """Make one step that nobody keeps, so that no library is loaded while the clock runs; once for
    each kind of problem and way to solve it."""
    parts, network = solver.parts, solver.network
    key = (parts.kind, type(solver.reduced), parts.shared.count > 0)
    if key in _rehearsed:
        return
    _rehearsed.add(key)
    reduced = solver.reduced
    if isinstance(reduced, Deflated):  # what it finds out must not be known to the real one
        reduced = Deflated(parts, solver.ops, network, reduced.space, reduced.most)
    solver.linearize()
    reduced.linearized(solver.x)
    solution = reduced.solve(1.0 / solver.radius)
    if solution is not None:
        step, _ = solver.step(solution)
        solver.ops.settle_points(move(parts, solver.x, step), solver.x.points, 1)


def _factor(E: Tensor) -> Tensor | None:
    """As `coarse.py` has it: no more is added to the diagonal, which is 1, than it takes."""
    ridge = SINGULAR
    while True:
        E.diagonal().fill_(1.0 + ridge)
        L, info = torch.linalg.cholesky_ex(E)
        if int(info) == 0:
            return L
        if not ridge < 1.0:
            return None
        ridge *= 100.0


def _symmetric(A: Tensor) -> Tensor:
    return 0.5 * (A + A.mT)
