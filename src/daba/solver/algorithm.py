"""Algorithm 1 of the paper: decentralized, accelerated bundle adjustment.

DABA runs all of it; DUBA leaves out acceleration and restart; LM is DUBA with one device.
"""

from __future__ import annotations

import numpy as np

from daba.backends.cpu.kernels import objective as passes
from daba.backends.cpu.kernels import refine, state
from daba.core.options import ROUNDS, Options
from daba.core.types import Bools, Floats
from daba.distributed.comm.base import Blocks, Communicator
from daba.distributed.shard import Shard, State
from daba.solver import invariants as guarantees
from daba.solver.acceleration import Nesterov, RestartMetrics
from daba.solver.constraints.joint_step import JointStep
from daba.solver.constraints.shared_step import Sharing
from daba.solver.interface import Counts, DeviceObjective
from daba.solver.state import Saved, Saving
from daba.solver.surrogate import NoSurrogate, Surrogate
from daba.solver.trust_region import Levenberg, Step


class Algorithm1(Saving):
    """The devices of one process and the state of Algorithm 1 on them."""

    def __init__(self, shard: Shard, options: Options, comm: Communicator | None = None) -> None:
        self.shard, self.options, self.comm = shard, options, comm or Communicator()
        self.exchange = self.comm.exchange(shard)
        self.accelerated = options.method == "daba" and not options.centralized
        self.rounds = () if options.centralized else ROUNDS[options.refine]
        self.all = np.ones(shard.num_devices, dtype=bool)
        self.levenberg = Levenberg(shard, options, self.comm)
        limits = self.limits = self.levenberg.limits
        members = limits.groups.members if limits is not None and limits.groups else None
        self.sharing: Sharing | None = None  # of intrinsics, across devices
        self.joint: JointStep | None = None
        if limits is not None and members is not None:
            self.sharing = Sharing(shard, limits, members, options.loss)
            self.joint = JointStep(self.levenberg, self.sharing)

        if options.centralized:
            self.surrogate: Surrogate = NoSurrogate(shard)
        else:
            fixed = (shard, options.loss, options.split, options.xi)
            self.surrogate = Surrogate(*fixed)  # E^α(· | x)
        self.accelerated_surrogate = self.surrogate
        if self.accelerated:
            records = self.surrogate.records if self.rounds else None
            self.accelerated_surrogate = Surrogate(*fixed, records)  # E^α(· | x̄)
        x = shard.state()
        self.exchange.update(x, "both")
        self.place(x)
        F = self.intra[:, 0] + self.surrogate.value(self.x, self.all)
        if self.accelerated:
            self.nesterov = Nesterov(shard, self.x, options.clip, options.resets, self.exchange)
        self.metrics = RestartMetrics(
            F, F * options.restart_ratio, F, options.eta, options.eta_growth
        )
        self.counts = Counts()
        self.moved = True
        self.checked = (self.objective, self.metrics.F_bar.copy())

    def place(self, x: State) -> None:
        """Stand at x, whose ghosts are known."""
        self.x = x
        self.intra = self.levenberg.objective(x, self.all)
        self.inter = self.surrogate.rebase(x)

    @property
    def estimate(self) -> State:
        return self.x

    def device_objective(self) -> DeviceObjective:
        F, square = (self.intra + self.inter).T
        return DeviceObjective(F, square, self.levenberg.prior_objective(self.x))

    @property
    def linear_solver(self) -> str:
        """What solves the reduced camera system."""
        return type(self.levenberg.linear).__name__.lower()

    def saved(self) -> Saved:
        lm, metrics = self.levenberg, self.metrics
        last, camera_s = self.x, np.ones(len(self.x.cameras))
        if self.accelerated:
            last, camera_s = self.nesterov.last, self.nesterov.camera_s
        values = (lm.radius, lm.shrink, lm.limit, metrics.F, metrics.F_bar, metrics.E)
        return Saved(self.x, last, camera_s, *values)

    def common_state(self) -> dict[str, float]:
        s = float(self.nesterov.s) if self.accelerated else 1.0
        turn = 0 if self.joint is None else self.joint.turn
        return {"eta": float(self.metrics.eta), "s": s, "turn": turn}

    def restore(self, saved: Saved, common: dict[str, float]) -> None:
        lm, metrics = self.levenberg, self.metrics
        lm.radius, lm.shrink, lm.limit = saved.radius, saved.shrink, saved.limit
        if self.accelerated:
            self.nesterov.last, self.nesterov.camera_s = saved.last, saved.camera_s
            self.nesterov.s = common["s"]
            metrics.F, metrics.F_bar, metrics.E = saved.F, saved.F_bar, saved.E
        metrics.eta = common["eta"]
        if self.joint is not None:
            self.joint.turn = int(common["turn"])
        self.place(saved.x)
        self.checked = (self.objective, metrics.F_bar.copy())

    def iterate(self) -> None:
        """One pass through the loop of Algorithm 1, for every device α."""
        x, metrics, here = self.x, self.metrics, self.surrogate
        # Nesterov's acceleration, majorization, minimization
        if self.accelerated:
            self.accelerated_surrogate.rebase(self.nesterov.extrapolate(x))
        step = self.levenberg.step(x, self.intra, self.accelerated_surrogate, self.all)
        if self.joint is not None:
            self.joint.take(step, self.accelerated_surrogate, self.all)
        restart = np.zeros_like(self.all)
        E = metrics.E
        if self.accelerated:
            # Adaptive restart
            now = self.intra[:, 0] + here.value(x, self.all)
            E = metrics.bound(step.intra[:, 0] + here.value(step.x, self.all), now)
            restart = E > metrics.F_bar
            if self.sharing is not None:  # what devices share they keep or give up together
                restart = self.sharing.any_in_cluster(restart)
            if restart.any():
                again = self.levenberg.step(x, self.intra, here, restart)
                self.adopt(again, restart, step)
                E = metrics.bound(step.intra[:, 0] + here.value(step.x, self.all), now)
            if self.joint is not None:
                E = E + self.joint.take(step, here, restart)
        # Exchange with neighbours, F^α = E^α + ΔE^α(x⁺ | x)
        change = self.communicate(step, x)
        refined = bool(self.rounds)
        if not (refined and self.sharing):
            self.inter = here.rebase(step.x, gap=self.accelerated and not refined)
        if self.accelerated and not refined:
            change = here.gap - self.proximal(step.x, x)
        if self.sharing is not None:
            change = change + self.share(step, self.sharing)
        if self.accelerated:
            F = E + change
            if self.options.judged:
                self.levenberg.judge(metrics.F, F)
            metrics.update(E, F)
            self.nesterov.advance(x, step.x)
        if self.joint is not None:
            self.joint.turn += 1
        self.x, self.intra = step.x, step.intra
        self.counts = Counts(
            restarts=int(restart.sum()),
            pcg_iterations=step.pcg_iterations,
            lm_retries=step.retries,
            lm_steps=step.accepted,
        )
        self.moved = bool(step.moved.any())

    def communicate(self, step: Step, x: State) -> Floats:
        """Tell the neighbours x⁺ and learn their ghosts, moving the boundary in between if it is
        to be refined. Returns what that makes F^α − E^α, (S,)."""
        change = np.zeros(len(self.all))
        if not self.rounds:
            self.exchange.start(step.x, "both")
            self.overlap(step)
            self.exchange.finish(step.x)
            return change
        self.exchange.update(step.x, "cameras")
        if self.accelerated:
            change += self.slack(step.x, x)
        for block in self.rounds[:-1]:
            change += self.refine(step.x, block)
            self.exchange.update(step.x, block)
        change += self.refine(step.x, "points")
        self.exchange.start(step.x, "points")
        step.intra = self.levenberg.objective(step.x, self.all)
        self.overlap(step)
        self.exchange.finish(step.x)
        return change

    def share(self, step: Step, sharing: Sharing) -> Floats:
        """Move the intrinsics that devices share, by all of them together, and tell whoever has
        ghosts of their cameras. Returns the change of F on each device."""
        change = sharing.move(step.x)
        self.exchange.traffic.add(sharing.members.exchange.take_traffic())
        self.exchange.update(step.x, "cameras")
        step.intra = self.levenberg.objective(step.x, self.all)
        self.inter = self.surrogate.rebase(step.x)
        return change

    def overlap(self, step: Step) -> None:
        """While ghosts are on their way, begin the next iteration with what needs none."""
        if self.exchange.neighbours and self.sharing is None:  # or cameras will move once more
            self.levenberg.prepare(step.x)

    def check(self) -> None:
        """Raise `DabaError` if a guarantee of the method does not hold at this iteration."""
        self.checked = guarantees.check(self, 1e-9)

    def gradient_norm(self) -> float:
        """Largest entry of the gradient of F; the surrogate's is the same at its base (Prop. 1)."""
        self.levenberg.linearize(self.x, self.surrogate)
        system = self.levenberg.system
        g_c = system.g_c if self.limits is None else self.limits.gradient(system)
        here = max(np.abs(g).max(initial=0.0) for g in (g_c, system.g_l))
        if self.sharing is not None:
            here = max(here, self.sharing.gradient_norm(self.x))
        return float(self.comm.gather(np.full((len(self.all), 1), here)).max())

    def slack(self, x: State, base: State) -> Floats:
        """ΔE^α(x | base), before the boundary is refined. All of an inter observation's is booked
        by the owner of its point, the only one to know both ends before points have moved again;
        without refinement each end books one half, as in the paper (`Surrogate.rebase`)."""
        fixed = (self.options.loss.kind, self.options.loss.radius, self.options.split)
        tasks = self.shard.devices.point_tasks
        gap = passes.slack_by_point(self.shard.inter, *x, *base, tasks, *fixed)
        return gap - self.proximal(x, base)

    def proximal(self, x: State, base: State) -> Floats:
        """½ξ|x^α − base^α|²."""
        return 0.5 * self.options.xi * state.square_distance(*x, *base, *self.shard.devices[2:])

    def refine(self, x: State, block: Blocks) -> Floats:
        """Move the boundary's cameras or points to lower the true F; returns the change on each
        device."""
        loss, devices = self.options.loss, self.shard.devices
        both = (self.shard.intra, self.shard.inter, *x)
        limits, how = self.limits, (loss.kind, loss.radius)
        if block == "points":
            asked = (None, None) if limits is None else limits.points
            return refine.refine_points(*both, devices.point_tasks, *how, *asked)
        alone = (None, None, None) if limits is None else limits.cameras
        return refine.refine_cameras(*both, devices.camera_tasks, *how, *alone)

    def adopt(self, again: Step, where: Bools, step: Step) -> None:
        """Take the devices in `where` from `again`."""
        state.choose(where, *again.x, *self.shard.devices[2:], *step.x)
        step.intra[where] = again.intra[where]
        step.moved[where] = again.moved[where]
        step.pcg_iterations += again.pcg_iterations
        step.retries += again.retries
        step.accepted += again.accepted
