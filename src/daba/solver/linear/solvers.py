"""Solvers of the reduced camera system S y = rhs of all devices: iterative and direct."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from daba.backends.cpu.kernels import cholesky, pcg, schur
from daba.backends.cpu.kernels.block import aligned
from daba.core.options import Options
from daba.core.types import Bools, Floats, Plan, System, Ties
from daba.distributed.shard import Shard
from daba.problem.problem import Ints
from daba.solver.linear.symbolic import Cost, make_plan

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator

MOST_CAMERAS_FOR_PLAN = 6000
"""Beyond this no direct solution is considered: the plan alone is quadratic in cameras."""
SECONDS_PER_PAIR = 30e-9
SECONDS_PER_FLOP = 2e-11
SECONDS_PER_PRODUCT = 11e-9
"""Of one thread of a current CPU: to add a block to S, in factoring it, and of one observation in
one S·v. Only their ratios matter here."""
EXPECTED_PCG_ITERATIONS = 30
MOST_GROUPS_FOR_DIRECT = 12
"""Of cameras on a device that share d: each adds three right-hand sides to a direct solution."""
BYTES_PER_OBSERVATION = 196
"""What an observation and its derivatives take. Where cameras are copied, to any device that sees
one of their points, factors may take no more: they would be most of what the device holds."""


class LinearSolver(Protocol):
    def solve(
        self, system: System, D: Floats, V_inv: Floats, rhs: Floats, active: Bools, x: Floats
    ) -> tuple[Bools, int]:
        """Fill x; returns the devices that have a solution, and iterations made."""

    def resolve(self, rhs: Floats, active: Bools, x: Floats) -> None:
        """The same for another right-hand side of the system that each device solved last."""


class Pcg:
    """Implicit S, preconditioned by its diagonal blocks."""

    last: tuple[System, Floats, Floats]

    def __init__(self, shard: Shard, options: Options, ties: Ties | None = None) -> None:
        self.shard, self.ties = shard, ties
        self.limits = (options.pcg_forcing, options.pcg_residual, options.pcg_iterations)
        self.buffers = product_buffers(shard)
        self.factors = np.empty((shard.num_cameras, 9, 9))

    def solve(
        self, system: System, D: Floats, V_inv: Floats, rhs: Floats, active: Bools, x: Floats
    ) -> tuple[Bools, int]:
        obs, devices = self.shard.intra, self.shard.devices
        self.last = (system, D, V_inv)
        schur.schur_diagonal(obs, system, D, V_inv, active, devices.camera_tasks, self.factors)
        if self.ties is not None:
            pcg.tie_blocks(self.factors, self.ties, active, devices.camera_ptr)
        pcg.factor_blocks(self.factors, devices.camera_tasks, active)
        return active, self._iterate(rhs, active, x)

    def resolve(self, rhs: Floats, active: Bools, x: Floats) -> None:
        self._iterate(rhs, active, x)

    def _iterate(self, rhs: Floats, active: Bools, x: Floats) -> int:
        devices = self.shard.devices
        count = pcg.solve(
            self.shard.intra,
            *self.last,
            self.factors,
            rhs,
            active,
            devices.camera_ptr,
            devices.camera_tasks,
            devices.point_tasks,
            self.buffers,
            self.limits,
            self.ties,
            x,
        )
        return int(count.sum())


def product_buffers(shard: Shard) -> tuple[np.ndarray, Floats]:
    """Room for what each task adds to the cameras of its device in S·v, and where it begins."""
    tasks = shard.devices.point_tasks
    rows = np.diff(shard.devices.camera_ptr)[tasks.device]
    ptr = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    return ptr, np.empty((int(ptr[-1]), 9))


class Direct:
    """Explicit S in tiles, Cholesky. Expects BLAS to use one thread (see `threads`)."""

    def __init__(self, shard: Shard, plan: Plan) -> None:
        self.shard, self.plan = shard, plan
        side = 9 * plan.size
        self.blocks = aligned(len(plan.tile_device) * plan.size**2)
        self.tiles = np.empty((len(plan.tile_device), side, side))
        self.inverses = np.empty((len(plan.tile), side, side))

    def solve(
        self, system: System, D: Floats, V_inv: Floats, rhs: Floats, active: Bools, x: Floats
    ) -> tuple[Bools, int]:
        plan = self.plan
        cholesky.form(self.shard.intra, system, D, V_inv, active, plan, self.blocks, self.tiles)
        definite = cholesky.factor(plan, active, self.tiles, self.inverses)
        cholesky.substitute(plan, self.tiles, self.inverses, rhs, x)
        return active & definite, 0

    def resolve(self, rhs: Floats, active: Bools, x: Floats) -> None:
        cholesky.substitute(self.plan, self.tiles, self.inverses, rhs, x)


class TiedDirect(Direct):
    """The same where parameters are held or cameras of a device share d.

    What is held is cut out of S, and shared d with it. Then d is put back as a border: with y₀ the
    solution without it and Y that for its columns B of S, (T − BᵀY) δ = b − Bᵀy₀ is left for all d
    of a device, T being what S has where B's columns and rows meet, and x = y₀ − Y δ.
    """

    def __init__(self, shard: Shard, plan: Plan, ties: Ties) -> None:
        super().__init__(shard, plan)
        C = shard.num_cameras
        self.slot = _slots(ties.leader, shard.devices.camera_ptr)
        self.still = ties.held.copy()
        self.still[self.slot >= 0, 6:] = True
        self.moves = np.repeat(self.slot >= 0, 3).reshape(C, 3) & ~ties.held[:, 6:]
        columns = 3 * (int(self.slot.max(initial=-1)) + 1)
        self.border = np.zeros((columns, C, 9))
        self.answer = np.zeros((columns, C, 9))

    def solve(
        self, system: System, D: Floats, V_inv: Floats, rhs: Floats, active: Bools, x: Floats
    ) -> tuple[Bools, int]:
        plan = self.plan
        cholesky.form(self.shard.intra, system, D, V_inv, active, plan, self.blocks, self.tiles)
        self.border[:] = 0.0
        if len(self.border):
            cholesky.borders(plan, self.tiles, self.slot, self.border)
        cholesky.hold(plan, self.still, self.tiles)
        solved = active & cholesky.factor(plan, active, self.tiles, self.inverses)
        for column, answer in zip(self.border, self.answer, strict=True):
            self._without_shared(column, answer)
        return self._substitute(rhs, solved, x), 0

    def resolve(self, rhs: Floats, active: Bools, x: Floats) -> None:
        self._substitute(rhs, active, x)

    def _substitute(self, rhs: Floats, active: Bools, x: Floats) -> Bools:
        self._without_shared(rhs, x)
        solved = active.copy()
        for device in np.flatnonzero(active) if len(self.border) else ():
            solved[device] = self._put_back(int(device), rhs, x)
        return solved

    def _without_shared(self, rhs: Floats, x: Floats) -> None:
        cut = np.where(self.still, 0.0, rhs)
        cholesky.substitute(self.plan, self.tiles, self.inverses, cut, x)
        x[self.still] = 0.0

    def _put_back(self, device: int, rhs: Floats, x: Floats) -> bool:
        """Find d of one device's groups, and correct the rest; False if that cannot be done."""
        own = slice(*self.shard.devices.camera_ptr[device : device + 2])
        slot, moves = self.slot[own], self.moves[own]
        G = int(slot.max(initial=-1)) + 1
        if G == 0:
            return True
        n, members = 3 * G, np.flatnonzero(slot >= 0)
        B, Y, y = self.border[:n, own], self.answer[:n, own], x[own]

        def collected(rows: Floats) -> Floats:  # d's rows (members, 3, …) summed by slot
            total = np.zeros((G, *rows.shape[1:]))
            np.add.at(total, slot[members], rows)
            return total

        free = collected(moves[members].astype(float)).ravel() > 0
        T = collected(B[:, members, 6:].transpose(1, 2, 0)).reshape(n, n)
        apart = np.where(self.still[own], 0.0, B).reshape(n, -1)
        K = T - apart @ Y.reshape(n, -1).T
        K = 0.5 * (K + K.T)
        b = collected(rhs[own][members, 6:]).ravel() - apart @ y.ravel()
        K, b = K[np.ix_(free, free)], b[free]
        try:
            np.linalg.cholesky(K)
        except np.linalg.LinAlgError:
            return False
        step = np.zeros(n)
        step[free] = np.linalg.solve(K, b)
        y -= np.tensordot(step, Y, axes=1)
        y[members, 6:] = step.reshape(G, 3)[slot[members]]
        return True


def _slots(leader: Ints, camera_ptr: np.ndarray) -> Ints:
    """Number, within its device, of the group of each camera that shares its d; −1 for others."""
    follows = leader != np.arange(len(leader))
    shares = follows.copy()
    shares[leader[follows]] = True
    slot = np.full(len(leader), -1, np.int32)
    for lo, hi in zip(camera_ptr[:-1], camera_ptr[1:], strict=True):
        found = lo + np.flatnonzero(shares[lo:hi])
        slot[found] = np.unique(leader[found], return_inverse=True)[1]
    return slot


def make_linear_solver(
    shard: Shard, options: Options, comm: Communicator | None = None, ties: Ties | None = None
) -> LinearSolver:
    """The solver asked for; `auto` compares the estimated cost of both, over all processes: what
    is chosen must not depend on how devices are placed."""
    many = shard.extent.cameras > MOST_CAMERAS_FOR_PLAN
    if ties is not None:
        slots = int(_slots(ties.leader, shard.devices.camera_ptr).max(initial=-1)) + 1
        crowded = slots > MOST_GROUPS_FOR_DIRECT
        many = many or (crowded if comm is None else comm.any(crowded))
    if options.linear_solver == "pcg" or (options.linear_solver == "auto" and many):
        return Pcg(shard, options, ties)
    plan, cost = make_plan(shard.intra, shard.devices, shard.extent.largest)
    if options.linear_solver == "auto":
        here = np.array([*cost, float(len(shard.intra.camera))])
        *total, observations = here if comm is None else comm.sum(here)
        if not direct_pays(Cost(*total), observations, options.copies):
            return Pcg(shard, options, ties)
    return Direct(shard, plan) if ties is None else TiedDirect(shard, plan, ties)


def direct_pays(cost: Cost, observations: float, copies: bool = False) -> bool:
    direct = SECONDS_PER_PAIR * cost.pairs + SECONDS_PER_FLOP * cost.factor_flops
    iterative = SECONDS_PER_PRODUCT * observations * EXPECTED_PCG_ITERATIONS
    room = BYTES_PER_OBSERVATION * observations if copies else max(256e6, 48.0 * observations)
    return direct < max(iterative, 1e-3) and cost.bytes < room
