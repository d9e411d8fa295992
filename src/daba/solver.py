"""Algorithm 1 of the paper: decentralized, accelerated bundle adjustment.

DABA runs all of it; DUBA leaves out acceleration and restart; LM is DUBA with one device.
"""

from __future__ import annotations

import numpy as np

from daba import solver_state
from daba.acceleration import Nesterov, RestartMetrics
from daba.comm.serial import Blocks, Communicator
from daba.errors import DabaError
from daba.kernels.cpu import objective as passes
from daba.kernels.cpu import refine, state
from daba.kernels.cpu.types import Bools, Floats
from daba.levenberg import Levenberg, Step
from daba.options import Options
from daba.shard import Shard, State
from daba.solver_state import Arrays
from daba.surrogate import NoSurrogate, Surrogate

ROUNDS: dict[str, tuple[Blocks, ...]] = {
    "none": (),
    "points": ("points",),
    "sweep": ("points", "cameras", "points"),
}
"""Which variables of the boundary each kind of refinement moves, in turn."""


class Solver:
    """The devices of one process and the state of Algorithm 1 on them."""

    def __init__(self, shard: Shard, options: Options, comm: Communicator | None = None) -> None:
        self.shard, self.options, self.comm = shard, options, comm or Communicator()
        self.exchange = self.comm.exchange(shard)
        self.accelerated = options.method == "daba" and not options.centralized
        self.rounds = () if options.centralized else ROUNDS[options.refine]
        self.all = np.ones(shard.num_devices, dtype=bool)
        self.levenberg = Levenberg(shard, options, self.comm)

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
        self.restarts = self.pcg_iterations = self.retries = self.accepted = 0
        self.moved = True
        self.checked = (self.objective, self.metrics.F_bar.copy())

    def place(self, x: State) -> None:
        """Stand at x, whose ghosts are known."""
        self.x = x
        self.intra = self.levenberg.objective(x, self.all)
        self.inter = self.surrogate.rebase(x)

    @property
    def objective(self) -> float:
        """F(x), of all devices; every process must ask at the same time."""
        return float(self.comm.gather(self.intra + self.inter)[:, 0].sum())

    def iterate(self) -> None:
        """One pass through the loop of Algorithm 1, for every device α."""
        x, metrics, here = self.x, self.metrics, self.surrogate
        # Nesterov's acceleration, majorization, minimization
        if self.accelerated:
            self.accelerated_surrogate.rebase(self.nesterov.extrapolate(x))
        step = self.levenberg.step(x, self.intra, self.accelerated_surrogate, self.all)
        restart = np.zeros_like(self.all)
        E = metrics.E
        if self.accelerated:
            # Adaptive restart
            now = self.intra[:, 0] + here.value(x, self.all)
            E = metrics.bound(step.intra[:, 0] + here.value(step.x, self.all), now)
            restart = E > metrics.F_bar
            if restart.any():
                again = self.levenberg.step(x, self.intra, here, restart)
                self.adopt(again, restart, step)
                E = metrics.bound(step.intra[:, 0] + here.value(step.x, self.all), now)
        # Exchange with neighbours, F^α = E^α + ΔE^α(x⁺ | x)
        change = self.communicate(step, x)
        refined = bool(self.rounds)
        self.inter = here.rebase(step.x, gap=self.accelerated and not refined)
        if self.accelerated:
            F = E + (change if refined else here.gap - self.proximal(step.x, x))
            if not refined:
                self.levenberg.judge(metrics.F, F)
            metrics.update(E, F)
            self.nesterov.advance(x, step.x)
        self.x, self.intra = step.x, step.intra
        self.restarts = int(restart.sum())
        self.pcg_iterations, self.retries = step.pcg_iterations, step.retries
        self.accepted = step.accepted
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

    def overlap(self, step: Step) -> None:
        """While ghosts are on their way, begin the next iteration with what needs none."""
        if self.exchange.neighbours:
            self.levenberg.prepare(step.x)

    def check(self) -> None:
        """Raise `DabaError` if a guarantee of the method does not hold at this iteration.

        DABA: ΣF^α = F, F^α ≤ E^α ≤ F̄^α of the iteration before, F̄^α not rising (Lemma 1). DUBA and
        LM: F not rising.
        """
        F, before, metrics = self.objective, self.checked, self.metrics
        if self.accelerated:
            scale = 1e-9 * F
            total = float(self.comm.gather(metrics.F[:, None]).sum())
            broken = {
                "ΣF^α = F": abs(total - F) > scale,
                "F^α ≤ E^α": bool((metrics.F > metrics.E + scale).any()),
                "E^α ≤ F̄^α": bool((metrics.E > before[1] + scale).any()),
                "F̄^α never rises": bool((metrics.F_bar > before[1] + scale).any()),
            }
        else:
            broken = {"F never rises": before[0] * (1 + 1e-12) < F}
        self.checked = (F, metrics.F_bar.copy())
        if any(broken.values()):
            names = ", ".join(name for name, failed in broken.items() if failed)
            raise DabaError(f"a guarantee of the method failed in rounding or in code: {names}")

    def device_states(self) -> dict[int, Arrays]:
        """Everything that the next iteration depends on, by device; for checkpoints."""
        return solver_state.device_states(self)

    def common_state(self) -> dict[str, float]:
        """What of it is the same on every device."""
        return solver_state.common_state(self)

    def put_back(self, states: dict[int, Arrays], common: dict[str, float]) -> None:
        """The reverse of both."""
        solver_state.put_back(self, states, common)

    def gradient_norm(self) -> float:
        """Largest entry of the gradient of F; the surrogate's is the same at its base (Prop. 1)."""
        self.levenberg.linearize(self.x, self.surrogate)
        system = self.levenberg.system
        here = max(np.abs(g).max(initial=0.0) for g in (system.g_c, system.g_l))
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
        if block == "points":
            return refine.refine_points(*both, devices.point_tasks, loss.kind, loss.radius)
        return refine.refine_cameras(*both, devices.camera_tasks, loss.kind, loss.radius)

    def adopt(self, again: Step, where: Bools, step: Step) -> None:
        """Take the devices in `where` from `again`."""
        state.choose(where, *again.x, *self.shard.devices[2:], *step.x)
        step.intra[where] = again.intra[where]
        step.moved[where] = again.moved[where]
        step.pcg_iterations += again.pcg_iterations
        step.retries += again.retries
        step.accepted += again.accepted
