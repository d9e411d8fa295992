"""Nesterov's sequence and extrapolation, and the decentralized restart metrics (paper Sec. V)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daba.kernels.cpu import state
from daba.kernels.cpu.types import Floats, System
from daba.shard import Shard, State


class Nesterov:
    """x̄ = Proj(x + γ (x − x_last)), γ = (s − 1)/s⁺, s⁺ = (1 + √(4s² + 1))/2, on every device.

    A neighbour can extrapolate a ghost by itself: in the paper's method s is never reset, so γ is
    the same everywhere; with `reset` each device starts its sequence anew when its momentum has
    carried it too far, and tells its neighbours, one number each.
    """

    def __init__(self, shard: Shard, x: State, clip: float, reset: bool) -> None:
        self.shard, self.reset = shard, reset
        self.s = np.ones(shard.num_devices)
        self.clip = clip
        self.middle = _mean_center(shard, x) if np.isfinite(clip) else None
        self.last = x.copy()
        self.x_bar = x.copy()
        self.reach = np.full(len(x.points), np.inf)

    def extrapolate(self, x: State) -> State:
        """x̄, which moves each point by at most clip × its distance to its cameras."""
        s_next = (1.0 + np.sqrt(4.0 * self.s**2 + 1.0)) / 2.0
        gamma = (self.s - 1.0) / s_next
        self.s = s_next
        if self.middle is not None:
            self.reach = self.clip * np.linalg.norm(x.points - self.middle, axis=1)
        tasks = self.shard.devices[2:]
        state.extrapolate(gamma, *x, *self.last, self.reach, *tasks, *self.x_bar)
        return self.x_bar

    def advance(self, x: State, new: State, system: System) -> None:
        """x becomes x_last; a device whose step went back on its momentum starts anew."""
        self.last = x
        if self.reset:
            tasks = self.shard.devices[2:]
            back = state.overshoot(*self.x_bar, *new, *x, system.U, system.V, *tasks)
            self.s[back > 0.0] = 1.0


def _mean_center(shard: Shard, x: State) -> Floats:
    """Mean centre of the cameras that see each point, at the start: constant, so that whoever
    extrapolates a ghost clips it as its owner does."""
    P = len(x.points)
    total = np.zeros((P, 3))
    count = np.zeros(P)
    for obs in (shard.intra, shard.inter):
        count += np.bincount(obs.point, minlength=P)
        for a in range(3):
            total[:, a] += np.bincount(obs.point, weights=x.cameras[obs.camera, 9 + a], minlength=P)
    return np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], x.points)


@dataclass
class RestartMetrics:
    """F^α, F̄^α and E^α of each device; ΣF^α = F, F^α ≤ E^α ≤ F̄^α, F̄^α never rises (Lemma 1)."""

    F: Floats
    F_bar: Floats
    E: Floats
    eta: float
    eta_growth: float

    def bound(self, surrogate_new: Floats, surrogate_now: Floats) -> Floats:
        """E^α⁺ = E^α(x⁺ | x) + F^α − E^α(x | x)."""
        return surrogate_new + self.F - surrogate_now

    def update(self, E: Floats, F: Floats) -> None:
        """F̄^α ← (1 − η) F̄^α + η F^α."""
        self.E, self.F = E, F
        self.F_bar = (1.0 - self.eta) * self.F_bar + self.eta * F
        self.eta = min(1.0, self.eta * self.eta_growth)
