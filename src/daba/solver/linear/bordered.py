"""Direct solution where parameters are fixed or cameras of a device share d.

What is fixed is cut out of S, and shared d with it. Then d is put back as a border: with y₀ the
solution without it and Y that for its columns B of S, (T − BᵀY) δ = b − Bᵀy₀ is left for all d of a
device, T being what S has where B's columns and rows meet, and y = y₀ − Y δ.
"""

from __future__ import annotations

import numpy as np

from daba.backends.cpu.cache import Job, job
from daba.backends.cpu.kernels import cholesky
from daba.core.types import Bools, Floats, Int64, Plan, Reduced, SharedGroups
from daba.distributed.shard import Shard
from daba.problem.problem import Ints
from daba.solver.linear.cholesky import Cholesky


class BorderedCholesky(Cholesky):
    """S without what is fixed, bordered by what is shared."""

    def __init__(self, shard: Shard, plan: Plan, groups: SharedGroups) -> None:
        super().__init__(shard, plan)
        C = shard.num_cameras
        self.slot = slots(groups.representative, shard.devices.camera_ptr)
        self.still = groups.fixed.copy()
        self.still[self.slot >= 0, 6:] = True
        self.moves = np.repeat(self.slot >= 0, 3).reshape(C, 3) & ~groups.fixed[:, 6:]
        columns = 3 * (int(self.slot.max(initial=-1)) + 1)
        self.border = np.zeros((columns, C, 9))
        self.answer = np.zeros((columns, C, 9))

    def jobs(self) -> list[Job]:
        return [*super().jobs(), job(cholesky.borders), job(cholesky.fix)]

    def solve(self, reduced: Reduced, rhs: Floats, active: Bools, y: Floats) -> tuple[Bools, int]:
        plan = self.plan
        cholesky.form(self.shard.intra, reduced, active, plan, self.blocks, self.tiles)
        self.border[:] = 0.0
        if len(self.border):
            cholesky.borders(plan, self.tiles, self.slot, self.border)
        cholesky.fix(plan, self.still, self.tiles)
        solved = active & cholesky.factor(plan, active, self.tiles, self.inverses)
        for column, answer in zip(self.border, self.answer, strict=True):
            self._without_shared(column, answer)
        return self._substitute(rhs, solved, y), 0

    def solve_again(self, rhs: Floats, active: Bools, y: Floats) -> None:
        self._substitute(rhs, active, y)

    def _substitute(self, rhs: Floats, active: Bools, y: Floats) -> Bools:
        self._without_shared(rhs, y)
        solved = active.copy()
        for device in np.flatnonzero(active) if len(self.border) else ():
            solved[device] = self._put_back(int(device), rhs, y)
        return solved

    def _without_shared(self, rhs: Floats, y: Floats) -> None:
        self.substitute(np.where(self.still, 0.0, rhs), y)
        y[self.still] = 0.0

    def _put_back(self, device: int, rhs: Floats, x: Floats) -> bool:
        """Find d of one device's groups, and correct the rest; False if that cannot be done."""
        own = slice(*self.shard.devices.camera_ptr[device : device + 2])
        slot, moves = self.slot[own], self.moves[own]
        G = int(slot.max(initial=-1)) + 1
        if G == 0:
            return True
        n, sharing = 3 * G, np.flatnonzero(slot >= 0)
        B, Y, y = self.border[:n, own], self.answer[:n, own], x[own]

        def collected(rows: Floats) -> Floats:  # d's rows (sharing, 3, …) summed by slot
            total = np.zeros((G, *rows.shape[1:]))
            np.add.at(total, slot[sharing], rows)
            return total

        free = collected(moves[sharing].astype(float)).ravel() > 0
        T = collected(B[:, sharing, 6:].transpose(1, 2, 0)).reshape(n, n)
        apart = np.where(self.still[own], 0.0, B).reshape(n, -1)
        K = T - apart @ Y.reshape(n, -1).T
        K = 0.5 * (K + K.T)
        b = collected(rhs[own][sharing, 6:]).ravel() - apart @ y.ravel()
        K, b = K[np.ix_(free, free)], b[free]
        try:
            np.linalg.cholesky(K)
        except np.linalg.LinAlgError:
            return False
        step = np.zeros(n)
        step[free] = np.linalg.solve(K, b)
        y -= np.tensordot(step, Y, axes=1)
        y[sharing, 6:] = step.reshape(G, 3)[slot[sharing]]
        return True


def slots(representative: Ints, camera_ptr: Int64) -> Ints:
    """Number, within its device, of the group of each camera that shares its d; −1 for others."""
    follows = representative != np.arange(len(representative))
    shares = follows.copy()
    shares[representative[follows]] = True
    slot = np.full(len(representative), -1, np.int32)
    for lo, hi in zip(camera_ptr[:-1], camera_ptr[1:], strict=True):
        found = lo + np.flatnonzero(shares[lo:hi])
        slot[found] = np.unique(representative[found], return_inverse=True)[1]
    return slot
