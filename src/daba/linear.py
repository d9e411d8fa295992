"""Solvers of the reduced camera system S y = rhs of all devices: iterative and direct."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from daba.direct import Cost, Plan, make_plan
from daba.kernels.cpu import cholesky, pcg, schur
from daba.kernels.cpu.block import aligned
from daba.kernels.cpu.types import Bools, Floats, System
from daba.options import Options
from daba.shard import Shard

if TYPE_CHECKING:
    from daba.comm import Communicator

MOST_CAMERAS_FOR_PLAN = 6000
"""Beyond this no direct solution is considered: the plan alone is quadratic in cameras."""
SECONDS_PER_PAIR = 30e-9
SECONDS_PER_FLOP = 2e-11
SECONDS_PER_PRODUCT = 11e-9
"""Of one thread of a current CPU: to add a block to S, in factoring it, and of one observation in
one S·v. Only their ratios matter here."""
EXPECTED_PCG_ITERATIONS = 30
BYTES_PER_OBSERVATION = 196
"""What an observation and its derivatives take. Where cameras are copied, to any device that sees
one of their points, factors may take no more: they would be most of what the device holds."""


class LinearSolver(Protocol):
    def solve(
        self, system: System, D: Floats, V_inv: Floats, rhs: Floats, active: Bools, x: Floats
    ) -> tuple[Bools, int]:
        """Fill x; returns the devices that have a solution, and iterations made."""


class Pcg:
    """Implicit S, preconditioned by its diagonal blocks."""

    def __init__(self, shard: Shard, options: Options) -> None:
        self.shard = shard
        self.limits = (options.pcg_forcing, options.pcg_residual, options.pcg_iterations)
        tasks = shard.devices.point_tasks
        rows = np.diff(shard.devices.camera_ptr)[tasks.device]
        ptr = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        self.buffers = (ptr, np.empty((int(ptr[-1]), 9)))
        self.factors = np.empty((shard.num_cameras, 9, 9))

    def solve(
        self, system: System, D: Floats, V_inv: Floats, rhs: Floats, active: Bools, x: Floats
    ) -> tuple[Bools, int]:
        obs, devices = self.shard.intra, self.shard.devices
        schur.schur_diagonal(obs, system, D, V_inv, active, devices.camera_tasks, self.factors)
        pcg.factor_blocks(self.factors, devices.camera_tasks, active)
        count = pcg.solve(
            obs,
            system,
            D,
            V_inv,
            self.factors,
            rhs,
            active,
            devices.camera_ptr,
            devices.camera_tasks,
            devices.point_tasks,
            self.buffers,
            self.limits,
            x,
        )
        return active, int(count.sum())


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


def make_linear_solver(
    shard: Shard, options: Options, comm: Communicator | None = None
) -> LinearSolver:
    """The solver asked for; `auto` compares the estimated cost of both, over all processes: what
    is chosen must not depend on how devices are placed."""
    many = shard.extent.cameras > MOST_CAMERAS_FOR_PLAN
    if options.linear_solver == "pcg" or (options.linear_solver == "auto" and many):
        return Pcg(shard, options)
    plan, cost = make_plan(shard.intra, shard.devices, shard.extent.largest)
    if options.linear_solver == "auto":
        here = np.array([*cost, float(len(shard.intra.camera))])
        *total, observations = here if comm is None else comm.sum(here)
        if not direct_pays(Cost(*total), observations, options.copies):
            return Pcg(shard, options)
    return Direct(shard, plan)


def direct_pays(cost: Cost, observations: float, copies: bool = False) -> bool:
    direct = SECONDS_PER_PAIR * cost.pairs + SECONDS_PER_FLOP * cost.factor_flops
    iterative = SECONDS_PER_PRODUCT * observations * EXPECTED_PCG_ITERATIONS
    room = BYTES_PER_OBSERVATION * observations if copies else max(256e6, 48.0 * observations)
    return direct < max(iterative, 1e-3) and cost.bytes < room
