"""Constraints in the form that a process's steps and refinements need."""

from __future__ import annotations

import numpy as np

from daba.core.types import Floats, SharedGroups, State, System
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard
from daba.solver.constraints.groups import Groups, find_groups
from daba.solver.constraints.prior_terms import PriorTerms, known


class Masks:
    """What may move, what moves as one, and what is known of it.

    `fixed` are the parameters that take no part in a device's step: those that a user has fixed,
    and d of cameras that share it with cameras of another device, which is moved by all of them
    together (`shared_step.py`). In a sweep each camera moves alone, so there every shared d stays.
    Where every d is fixed nobody has to ask who shares it.
    """

    def __init__(self, shard: Shard, comm: Communicator) -> None:
        given = shard.constraints
        assert given is not None
        C, P = shard.num_cameras, shard.num_points
        self.groups: Groups | None = None
        representative = np.arange(C, dtype=np.int32)
        free = np.ones((C, 9), bool) if given.free_cameras is None else given.free_cameras
        self.fixed = ~free
        alone = free
        shared = comm.any(given.shared is not None and bool(free[:, 6:].any()))
        if given.shared is not None and shared:
            self.groups = find_groups(shard, given.shared, comm)
            representative = self.groups.representative
            self.fixed[self.groups.part >= 0, 6:] = True
            alone = free & ~np.outer(self.groups.shares, np.arange(9) >= 6)
        self.free = free
        self.shared = SharedGroups(self.fixed, representative)
        self.shares = None if self.groups is None else representative != np.arange(C)
        """Cameras that share d with others of their device."""
        if self.shares is not None:
            self.shares[representative[self.shares]] = True
        self.some_fixed = np.flatnonzero(~free.all(axis=1))
        self.no_turn = np.flatnonzero(~free[:, :3].any(axis=1))
        may_move = np.ones(P, bool) if given.free_points is None else given.free_points
        self.fixed_points = np.flatnonzero(~may_move)
        priors = given.priors
        self.priors = None if priors is None else PriorTerms(shard, priors)
        positions, intrinsics = (priors.positions, priors.intrinsics) if priors else (None, None)
        self.free_cameras = np.ascontiguousarray(alone)
        """What refinement may change, of variables that move one by one; and what is known."""
        self.known_positions, self.known_intrinsics = known(positions, C), known(intrinsics, C)
        self.free_points = np.ascontiguousarray(may_move)
        self.known_points = known(priors.points if priors else None, P)

    def mask(self, system: System) -> None:
        """Take what is fixed out of the system; damping keeps its blocks invertible."""
        i = self.some_fixed
        free = self.free[i]
        system.U[i] *= free[:, :, None] & free[:, None, :]
        system.g_c[i] *= free
        system.g_l[self.fixed_points] = 0.0

    def hold_points(self, V_inv: Floats, z: Floats) -> None:
        """Fixed points are not eliminated."""
        V_inv[self.fixed_points] = 0.0
        z[self.fixed_points] = 0.0

    def keep(self, x: State, moved: State) -> None:
        """What does not turn keeps its rotation to the bit: projection would round it."""
        moved.cameras[self.no_turn, :9] = x.cameras[self.no_turn, :9]

    def gradient(self, system: System) -> Floats:
        """Of cameras, along what they move by: d once for those that share it on a device."""
        g = np.where(self.fixed, 0.0, system.g_c)
        representative = self.shared.representative
        follows = np.flatnonzero(representative != np.arange(len(g)))
        np.add.at(g[:, 6:], representative[follows], g[follows, 6:])
        g[follows, 6:] = 0.0
        return np.asarray(g)
