"""One accepted Levenberg–Marquardt step on E^α, for all devices at once (method §4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from daba.backends.cpu.kernels import objective as passes
from daba.backends.cpu.kernels import schur, state
from daba.core import decisions
from daba.core.options import Options
from daba.core.types import Bools, Floats, System
from daba.distributed.shard import Shard, State
from daba.solver.constraints.masks import make_limits
from daba.solver.linear.solvers import make_linear_solver
from daba.solver.radius import careful
from daba.solver.surrogate import Surrogate

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator

EPSILON = 1e-16
"""Share of E^α below which a promised decrease is none."""


@dataclass
class Step:
    """What a step found: the new estimate and its values on each device."""

    x: State
    intra: Floats
    """F and squared pixel error of the intra observations at x, (S, 2)."""
    moved: Bools
    pcg_iterations: int
    retries: int
    accepted: int = 0
    """Steps, of all devices together."""


class Levenberg:
    """Trust region, system and workspace; the radius of each device is kept between steps."""

    def __init__(self, shard: Shard, options: Options, comm: Communicator | None = None) -> None:
        C, P, S = shard.num_cameras, shard.num_points, shard.num_devices
        self.shard, self.options = shard, options
        self.limit = np.where(
            careful(shard, options), decisions.CAUTIOUS_RADIUS, decisions.LARGEST_RADIUS
        )
        self.radius = np.minimum(options.first_radius, self.limit)
        self.shrink = np.full(S, 2.0)
        self.system = System(
            J=np.empty((len(shard.intra.camera), 20)),
            U=np.empty((C, 9, 9)),
            V=np.empty((P, 6)),
            g_c=np.empty((C, 9)),
            g_l=np.empty((P, 3)),
            reach=np.full(P, np.inf),
        )
        self.D = np.zeros((C, 9, 9))
        self.V_inv = np.zeros((P, 6))
        self.z = np.zeros((P, 3))
        self.rhs = np.zeros((C, 9))
        self.camera_reach = np.full(C, np.inf)
        self.x = shard.start
        self.prepared = False
        self.step_c = np.zeros((C, 9))
        self.step_l = np.zeros((P, 3))
        self.limits = make_limits(shard, comm)
        ties = None if self.limits is None else self.limits.ties
        self.linear = make_linear_solver(shard, options, comm, ties)

    def objective(self, x: State, active: Bools) -> Floats:
        """F of the intra observations and priors, and squared pixel error, (S, 2)."""
        loss = self.options.loss
        tasks = self.shard.devices.point_tasks
        value = passes.objective(self.shard.intra, *x, tasks, loss.kind, loss.radius, active)
        if self.limits is not None and self.limits.priors is not None:
            value[:, 0] += self.limits.priors.value(x, active)
        return value

    def prior_objective(self, x: State) -> Floats:
        """The priors' part of F, (S,)."""
        priors = None if self.limits is None else self.limits.priors
        return np.zeros(self.shard.num_devices) if priors is None else priors.value(x)

    def prepare(self, x: State) -> None:
        """Gauss–Newton system of the intra observations and priors at x, which needs no ghosts:
        neighbours may still be sending theirs."""
        loss, devices, s = self.options.loss, self.shard.devices, self.system
        passes.linearize_points(
            self.shard.intra,
            *x,
            devices.point_tasks,
            loss.kind,
            loss.radius,
            s.J,
            s.V,
            s.g_l,
            s.reach,
        )
        passes.linearize_cameras(
            self.shard.intra, *x, devices.camera_tasks, s.J, s.U, s.g_c, self.camera_reach
        )
        if self.limits is not None and self.limits.priors is not None:
            self.limits.priors.add_to(s, x)
        self.x, self.prepared = x, True

    def linearize(self, x: State, surrogate: Surrogate) -> None:
        """Gauss–Newton system of E^α at x."""
        if not (self.prepared and self.x is x):
            self.prepare(x)
        surrogate.add_to(self.system, x)
        if self.limits is not None:
            self.limits.mask(self.system)
        self.prepared = False  # it is E^α's system now

    def propose(self, active: Bools) -> tuple[Floats, int]:
        """Solve the damped system into step_c, step_l; returns the model's decrease (S,), which
        is not positive where no step was found, and the PCG iterations."""
        obs, devices, system = self.shard.intra, self.shard.devices, self.system
        limits = self.limits
        schur.damp(system, 1.0 / self.radius, active, *devices[2:], self.D, self.V_inv, self.z)
        if limits is not None:
            limits.hold(self.V_inv, self.z)
        schur.right_hand_side(obs, system, self.z, active, devices.camera_tasks, self.rhs)
        solved, iterations = self.linear.solve(
            system, self.D, self.V_inv, self.rhs, active, self.step_c
        )
        together = None if limits is None else limits.together
        passes.bound_cameras(
            self.x.cameras, self.camera_reach, solved, devices.camera_tasks, together, self.step_c
        )
        decrease = schur.back_substitute(
            obs, system, self.V_inv, self.step_c, solved, *devices[2:], self.step_l
        )
        return np.where(solved, decrease, -np.inf), iterations

    def step(self, x: State, intra: Floats, surrogate: Surrogate, active: Bools) -> Step:
        """From x, lower E^α(· | base of `surrogate`) on each active device by one accepted step.

        `intra` is F of the intra observations at x. A device that finds no step stays at x.
        """
        self.linearize(x, surrogate)
        start = intra[:, 0] + surrogate.value(x, active)
        result = Step(x, intra.copy(), np.zeros_like(active), 0, 0)
        trying = active.copy()
        trial = x.copy()
        for attempt in range(self.options.lm_tries):
            predicted, iterations = self.propose(trying)
            result.pcg_iterations += iterations
            result.retries += int(trying.sum()) if attempt else 0
            state.retract(*x, self.step_c, self.step_l, trying, *self.shard.devices[2:], *trial)
            if self.limits is not None:
                self.limits.keep(x, trial)
            value = self.objective(trial, trying)
            actual = start - value[:, 0] - surrogate.value(trial, trying)
            good, gain = decisions.accept(trying, actual, predicted, self.options.lm_gain)
            if good.all():
                result.x = trial
            else:
                if result.x is x:
                    result.x = x.copy()
                state.choose(good, *trial, *self.shard.devices[2:], *result.x)
            result.intra[good] = value[good]
            result.moved |= good
            stalled = decisions.stalled(trying, good, predicted, start, EPSILON)
            failed = trying & ~good & ~stalled
            self.radius, self.shrink = decisions.next_radius(
                good, failed, gain, self.radius, self.shrink, self.limit
            )
            trying = failed & (self.radius > decisions.SMALLEST_RADIUS)
            if not trying.any():
                break
        result.accepted = int(result.moved.sum())
        stayed = active & ~result.moved
        self.shrink[stayed] = decisions.FIRST_SHRINK  # the next base is another: begin gently
        return result

    def judge(self, before: Floats, after: Floats) -> None:
        """Limit the radius by what F^α has done."""
        self.radius, self.limit = decisions.limit_by_objective(
            before, after, self.radius, self.limit
        )
