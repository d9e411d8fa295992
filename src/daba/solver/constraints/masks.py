"""Constraints in the form that a process's steps and refinements need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daba.core.types import Floats, System, Ties
from daba.distributed.shard import Shard, State
from daba.solver.constraints.groups import Groups, find_groups
from daba.solver.constraints.prior_terms import PriorTerms, known

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator


class Limits:
    """What may move, what moves as one, and what is known of it.

    `held` are the parameters that take no part in a device's step: those that are fixed, and d of
    cameras that share it with cameras of another device, which is moved by all of them together
    (`sharing`). In a sweep each camera moves alone, so there every shared d is held.
    """

    def __init__(self, shard: Shard, comm: Communicator) -> None:
        asked = shard.constraints
        assert asked is not None
        C, P = shard.num_cameras, shard.num_points
        self.groups: Groups | None = None
        leader = np.arange(C, dtype=np.int32)
        free = np.ones((C, 9), bool) if asked.free_cameras is None else asked.free_cameras
        self.held = ~free
        alone = free
        if asked.shared is not None:
            self.groups = find_groups(shard, asked.shared, comm)
            leader = self.groups.leader
            self.held[self.groups.member >= 0, 6:] = True
            alone = free & ~np.outer(self.groups.shares, np.arange(9) >= 6)
        self.free = free
        self.ties = Ties(self.held, leader)
        self.together = None if asked.shared is None else leader != np.arange(C)
        if self.together is not None:
            self.together[leader[self.together]] = True  # and those that the others follow
        self.some_fixed = np.flatnonzero(~free.all(axis=1))
        self.no_turn = np.flatnonzero(~free[:, :3].any(axis=1))
        may_move = np.ones(P, bool) if asked.free_points is None else asked.free_points
        self.fixed_points = np.flatnonzero(~may_move)
        priors = asked.priors
        self.priors = None if priors is None else PriorTerms(shard, priors)
        positions, intrinsics = (priors.positions, priors.intrinsics) if priors else (None, None)
        self.cameras = (np.ascontiguousarray(alone), known(positions, C), known(intrinsics, C))
        self.points = (np.ascontiguousarray(may_move), known(priors.points if priors else None, P))
        """What refinement asks of variables that move one by one."""

    def mask(self, system: System) -> None:
        """Take what is fixed out of the system; damping keeps its blocks invertible."""
        i = self.some_fixed
        free = self.free[i]
        system.U[i] *= free[:, :, None] & free[:, None, :]
        system.g_c[i] *= free
        system.g_l[self.fixed_points] = 0.0

    def hold(self, V_inv: Floats, z: Floats) -> None:
        """Fixed points are not eliminated."""
        V_inv[self.fixed_points] = 0.0
        z[self.fixed_points] = 0.0

    def keep(self, x: State, moved: State) -> None:
        """What does not turn keeps its rotation to the bit: projection would round it."""
        moved.cameras[self.no_turn, :9] = x.cameras[self.no_turn, :9]

    def gradient(self, system: System) -> Floats:
        """Of cameras, along what they move by: d once for those that share it on a device."""
        g = np.where(self.held, 0.0, system.g_c)
        follows = np.flatnonzero(self.ties.leader != np.arange(len(g)))
        np.add.at(g[:, 6:], self.ties.leader[follows], g[follows, 6:])
        g[follows, 6:] = 0.0
        return np.asarray(g)


def make_limits(shard: Shard, comm: Communicator | None) -> Limits | None:
    """None where there are no constraints, and nothing costs anything."""
    from daba.distributed.comm.base import Communicator

    return None if shard.constraints is None else Limits(shard, comm or Communicator())
