"""The coarse space that deflates conjugate gradients: a few motions of each cluster of frames, and
every parameter that frames share.

A cluster moves as a body: it turns about its centroid, shifts, and grows; and all of its cameras
change each of their intrinsics alike. Preconditioned by clusters alone, conjugate gradients need
many iterations for such motions, each of which would have to spread from neighbour to neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.decisions import LEAST_DIAGONAL
from daba.core.types import Floats, Int32, distinct
from daba.distributed.lm_shard import LmShard
from daba.solver.lm.network import Columns, Network, ordered_sum
from daba.solver.lm.pattern import BlockPattern

if TYPE_CHECKING:
    from daba.solver.lm.eigenmodes import Eigenmodes

DENSE = 2000
"""Coarse motions up to which E is factored as a dense matrix; a sparse one pays beyond: at 10,000,
with 1,000 devices, dense factors take minutes."""
RIGID = 7
"""Motions of a body: three turns, three shifts, growth."""
SINGULAR = 1e-11
"""Added to the diagonal of the coarse matrix, scaled to one: it loses rank as damping vanishes."""


class CoarseSpace(BlockPattern):
    """The coarse vector has the motions of each cluster, then the shared parameters."""

    def __init__(
        self, shard: LmShard, ops: Any, network: Network, cluster: Int32, clusters: int
    ) -> None:
        """`cluster` of each frame, ghosts included, of `clusters` over all devices; 0: only what is
        shared is in the space."""
        super().__init__(shard, ops, network, cluster, clusters)
        self.resize(RIGID + shard.kind.own if clusters else 0)

    def resize(self, modes: int) -> None:
        """From now on each cluster has so many motions."""
        s, kind, clusters = self.shard, self.shard.kind, self.clusters
        self.modes = modes
        self.first_shared = clusters * modes
        self.size = self.first_shared + s.shared.count
        self.width = max(modes, kind.columns, 1)
        self.columns = np.full((self.blocks_count, self.width), -1, np.int64)
        """Where each column of a block stands in the coarse vector, −1 for padding."""
        numbers = np.arange(self.first_shared).reshape(clusters, modes)
        self.columns[:clusters, :modes] = numbers
        if kind.columns:
            index = s.images.index.astype(np.int64)
            self.columns[clusters:, : kind.columns] = np.where(
                index >= 0, self.first_shared + index, -1
            )
        used = [_distinct(self.columns[blocks]) for blocks in self.device_blocks]
        self.used = Columns(used, self.size)
        """Where coarse vectors of each device are not zero, …"""
        self.used_beside = Columns([np.append(0, 1 + u) for u in used], 1 + self.size)
        """… and with another number before them."""

    def motions(self, frames: Floats) -> Floats:
        """Z: the motions of each frame's cluster as they move it, (F, B, modes), ghosts too."""
        s = self.shard
        t, own = frames[:, 9:], self.cluster[: s.num_frames]
        sums = np.zeros((self.clusters, 4))
        np.add.at(sums, own, np.column_stack([t[: s.num_frames], np.ones(s.num_frames)]))
        sums = self.network.exact_sum(sums)
        arm = t - (sums[:, :3] / sums[:, 3:])[self.cluster]
        Z = np.zeros((len(frames), s.kind.block, RIGID + s.kind.own))
        x, y, z = arm.T
        for a in range(3):
            Z[:, a, a] = Z[:, 3 + a, 3 + a] = 1.0
        Z[:, 4, 0], Z[:, 5, 0] = -z, y
        Z[:, 3, 1], Z[:, 5, 1] = z, -x
        Z[:, 3, 2], Z[:, 4, 2] = -y, x
        Z[:, 3:6, 6] = arm
        for a in range(s.kind.own):
            Z[:, 6 + a, RIGID + a] = 1.0
        Z[: s.num_frames][np.diff(s.obs.frame_ptr) == 0] = 0.0  # what sees nothing stays
        if len(s.fixed_frames):
            Z[: s.num_frames][s.fixed_frames] = 0.0
        return Z

    def linearized(self, frames: Floats) -> None:
        """Take up new derivatives, and the motions that bodies have now."""
        empty = np.zeros((len(frames), self.shard.kind.block, 0))
        Z = self.motions(frames) if self.clusters else empty
        self.take(Z, travels=len(self.shard.fixed_frames) > 0)

    def take(self, Z: Floats, travels: bool) -> None:
        """These motions from now on; those of ghosts are known, unless they must travel."""
        if Z.shape[2] != self.modes:
            self.resize(Z.shape[2])
        self.Z = self._with_ghosts(Z) if travels and self.clusters else Z
        self.Y = self.ops.coarse_rows(self.blocks, self.Z, self.width)

    def _with_ghosts(self, Z: Any) -> Any:
        """What of a ghost is fixed, only its owner knows, and so its eigenmodes."""
        own, (B, modes) = Z[: self.shard.num_frames], Z.shape[1:]
        rows = self.network.frames(own.reshape(len(own), B * modes))
        return rows.reshape(len(rows), B, modes)

    def assemble(self, mu: float, z: Floats) -> None:
        """E = ZᵀSZ and Zᵀ rhs for damping μ. Needs nothing of ghosts, so that what points tell the
        owners of frames is sent only once."""
        s, ops, n = self.shard, self.ops, self.width
        matrices, size = self.everywhere * n * n, self.used.most
        rows = np.zeros((s.devices, matrices + size + s.shared.count))
        values = rows[:, :matrices].reshape(s.devices, self.everywhere, n, n)
        values[:, : self.most_pairs] = -ops.coarse_matrix(self.blocks, self.Y, self.most_pairs)
        self._add_frames(values)
        right = np.zeros((s.devices, self.size))
        self._add_project(right, -ops.g, -ops.g_s)
        self._add_dots(right, ops.coarse_dots(self.blocks, self.Y, z, self.most_seen), 1.0)
        rows[:, matrices : matrices + size] = self.used.pack(right, s.first_device)
        if s.shared.count:
            self._scatter_images(
                rows[:, matrices + size :], np.diagonal(ops.T, axis1=1, axis2=2), self.first_shared
            )
        total = self.network.gather(rows)
        self.right = self.used.sum(total[:, matrices : matrices + size])
        self.E = self._add_up(total[:, :matrices])
        if s.shared.count:
            diagonal = ordered_sum(total[:, matrices + size :])
            self._add_damping(mu * np.maximum(diagonal, LEAST_DIAGONAL))

    def _add_frames(self, values: Floats) -> None:
        """Zᵀ U' Z, and where shared parameters meet it and each other."""
        ops, m, G = self.ops, self.modes, self.shard.kind.columns
        own = self.cluster[: self.shard.num_frames]
        Z = self.Z[: self.shard.num_frames]
        if self.clusters:
            at = self._pair(self.frame_device, own, own)
            np.add.at(
                values[:, :, :m, :m], (self.frame_device, at), Z.transpose(0, 2, 1) @ ops.D @ Z
            )
        if G:
            of, device = self.image_block, self.image_device
            at = self._pair(device, of, of)
            np.add.at(values[:, :, :G, :G], (device, at), ops.T)
            if self.clusters:
                at = self._pair(device, of, own[self.image_frame])
                crossed = ops.X.transpose(0, 2, 1) @ Z[self.image_frame]
                np.add.at(values[:, :, :G, :m], (device, at), crossed)

    def _add_up(self, rows: Floats) -> Any:
        """E from the pairs of all devices: dense, or sparse where it is large."""
        entries = self._entries_of_devices(rows)
        if self.size <= DENSE:
            E = np.zeros((self.size, self.size))
            for i, j, value in entries:  # never all of them at once
                if self.shard.shared.count:  # several blocks may have the same parameter
                    np.add.at(E, (i, j), value)
                else:
                    E[i, j] += value
            return E
        from scipy.sparse import coo_array

        i, j, value = (np.concatenate(part) for part in zip(*entries, strict=True))
        return coo_array((value, (i, j)), shape=(self.size, self.size)).tocsc()

    def _entries_of_devices(self, rows: Floats) -> Iterator[tuple[np.ndarray, np.ndarray, Floats]]:
        """Row, column and value of what each device adds to E, in their order."""
        n = self.width
        for pairs, row in zip(self.all_pairs, rows, strict=True):
            count = int((pairs[0] >= 0).sum())
            values = row[: count * n * n].reshape(count, n, n)
            a, b = self.columns[pairs[0, :count]], self.columns[pairs[1, :count]]
            apart = pairs[0, :count] != pairs[1, :count]
            yield _entries(a, b, values)
            yield _entries(b[apart], a[apart], values[apart].transpose(0, 2, 1))

    def _add_damping(self, values: Floats) -> None:
        """Add to the diagonal of what is shared."""
        at = np.arange(self.first_shared, self.size)
        if self.size <= DENSE:
            self.E[at, at] += values
            return
        from scipy.sparse import coo_array

        self.E = self.E + coo_array((values, (at, at)), shape=self.E.shape).tocsc()

    def factor(self) -> bool:
        """So that E⁻¹ can be applied; False if nothing of E is left in rounding."""
        dense = self.size <= DENSE
        scale = np.sqrt(np.maximum(np.diagonal(self.E) if dense else self.E.diagonal(), 0.0))
        self.scale = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        if dense:
            L = _factor(self.E * (self.scale[:, None] * self.scale))
            if L is None:
                return False
            inverse = np.linalg.inv(L)
            self._apply = lambda c: inverse.T @ (inverse @ c)
            return True
        from scipy.sparse import diags_array
        from scipy.sparse.linalg import splu

        D = diags_array(self.scale)
        E = (D @ self.E @ D).tocsc()
        E.setdiag(1.0 + SINGULAR)
        options = {"SymmetricMode": True}
        try:
            found = splu(E, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
        except RuntimeError:  # SuperLU: exactly singular
            return False
        self._apply = found.solve
        return True

    def solve(self, c: Floats) -> Floats:
        """E⁻¹ c."""
        return np.asarray(self.scale * self._apply(self.scale * c))

    def project(self, v: Floats, h: Floats) -> Floats:
        """Zᵀ S v of each device, (S, size), given h = V'⁻¹ Wᵀ v; v moves nothing that is shared."""
        ops = self.ops
        out = np.zeros((self.shard.devices, self.size))
        own = self.cluster[: self.shard.num_frames]
        if self.clusters:
            moved = np.einsum("iab,ib->ia", ops.D, v)
            self._add_modes(out, own, moved)
        if self.shard.kind.columns:
            pulled = np.einsum("mab,ma->mb", ops.X, v[self.image_frame])
            self._scatter_images(out, pulled)
        self._add_dots(out, ops.coarse_dots(self.blocks, self.Y, h, self.most_seen), -1.0)
        return out

    def _add_modes(self, out: Floats, own: np.ndarray, v: Floats) -> None:
        values = np.einsum("iaw,ia->iw", self.Z[: len(own)], v)
        np.add.at(out, (self.frame_device[:, None], self.columns[own, : self.modes]), values)

    def _scatter_images(self, out: Floats, values: Floats, first: int = 0) -> None:
        """Add what images have for their shared parameters; `out` begins at column `first`."""
        at = self.columns[self.image_block, : self.shard.kind.columns]
        device = np.broadcast_to(self.image_device[:, None], at.shape)
        known = at >= 0
        np.add.at(out, (device[known], at[known] - first), values[known])

    def modes_of(self, v: Floats) -> Floats:
        """Zᵀ v of each device, (S, size); v moves nothing that is shared."""
        out = np.zeros((self.shard.devices, self.size))
        if self.clusters:
            self._add_modes(out, self.cluster[: self.shard.num_frames], v)
        return out

    def _add_project(self, out: Floats, v: Floats, v_s: Floats) -> None:
        """Add Zᵀ (v, v_s)."""
        if self.clusters:
            self._add_modes(out, self.cluster[: self.shard.num_frames], v)
        if self.shard.kind.columns:
            self._scatter_images(out, v_s)

    def _add_dots(self, out: Floats, dots: Floats, sign: float) -> None:
        for d in range(self.shard.devices):
            blocks = self.seen_block[self.seen_begin[d] : self.seen_begin[d + 1]]
            at = self.columns[blocks]
            known = at >= 0
            np.add.at(out[d], at[known], sign * dots[d, : len(blocks)][known])

    def by_block(self, c: Floats) -> Floats:
        """A coarse vector, block by block, (blocks, width)."""
        if not len(c):
            return np.zeros(self.columns.shape)
        return np.where(self.columns >= 0, c[self.columns], 0.0)

    def extend(self, c: Floats) -> tuple[Floats, Floats]:
        """Z c: of own frames, (F, B), and of what is shared, (m,)."""
        own = self.cluster[: self.shard.num_frames]
        out = np.zeros((self.shard.num_frames, self.shard.kind.block))
        if self.clusters:
            modes = c[: self.first_shared].reshape(self.clusters, self.modes)
            out = np.einsum("iaw,iw->ia", self.Z[: len(own)], modes[own])
        return out, c[self.first_shared :]


def _distinct(columns: np.ndarray) -> np.ndarray:
    return distinct(columns[columns >= 0])


def _factor(E: Floats) -> Floats | None:
    """The Cholesky factor of E, whose diagonal is 1, with no more added to that than it takes:
    motions of clusters that hardly see anything may depend on each other. None where that does not
    do: where a loss leaves next to no weight to all observations, E is rounding."""
    ridge = SINGULAR
    while True:
        E[np.diag_indices(len(E))] = 1.0 + ridge
        try:
            return np.asarray(np.linalg.cholesky(E))
        except np.linalg.LinAlgError:
            if not ridge < 1.0:
                return None
            ridge *= 100.0


def _entries(
    rows: np.ndarray, cols: np.ndarray, values: Floats
) -> tuple[np.ndarray, np.ndarray, Floats]:
    """Row, column and value of each entry of blocks, but for padding."""
    known = (rows[:, :, None] >= 0) & (cols[:, None, :] >= 0)
    r = np.broadcast_to(rows[:, :, None], known.shape)[known]
    c = np.broadcast_to(cols[:, None, :], known.shape)[known]
    return r, c, values[known]


def make_space(
    shard: LmShard, ops: Any, network: Network, cluster: Int32, clusters: int
) -> CoarseSpace:
    """The coarse space that goes with a backend's operations; arguments as `CoarseSpace`."""
    if not ops.on_gpu:
        return CoarseSpace(shard, ops, network, cluster, clusters)
    from daba.solver.lm.on_gpu import GpuCoarseSpace

    return GpuCoarseSpace(shard, ops, network, cluster, clusters)


def make_eigenmodes(shard: LmShard, ops: Any) -> Eigenmodes:
    """The eigenmodes that do."""
    if not ops.on_gpu:
        from daba.solver.lm.eigenmodes import Eigenmodes

        return Eigenmodes(shard, ops)
    from daba.solver.lm.on_gpu import GpuEigenmodes

    return GpuEigenmodes(shard, ops)
