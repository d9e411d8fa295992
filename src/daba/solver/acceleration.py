"""Nesterov's sequence and extrapolation, and the decentralized restart metrics (paper Sec. V)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from daba.backends.cpu.kernels import state
from daba.core import decisions
from daba.core.types import Floats
from daba.distributed.shard import Shard, State
from daba.solver.extrapolation_scales import surroundings

if TYPE_CHECKING:
    from daba.distributed.comm.base import Exchange


class Nesterov:
    """x̄ = Proj(x + γ (x − x_last)), γ = (s − 1)/s⁺, s⁺ = (1 + √(4s² + 1))/2.

    Whoever holds a ghost extrapolates it as its owner does, so that x̄ is never sent: what the rule
    needs besides x, x_last and x̄ is sent once, at the start. In the paper's method s is never
    reset; with `reset` a camera whose momentum has carried it too far starts its own anew.
    """

    def __init__(
        self, shard: Shard, x: State, clip: float, reset: bool, exchange: Exchange | None = None
    ) -> None:
        self.clip, self.reset = clip, reset
        self.s = 1.0
        self.camera_s = np.ones(len(x.cameras))
        distance, self.middle = surroundings(shard, x)
        if exchange is not None:
            exchange.constants(distance, self.middle)
        self.distance = distance[:, 0]
        self.last = x.copy()
        self.x_bar = x.copy()

    def extrapolate(self, x: State) -> State:
        """x̄, which moves each point by at most clip × its distance to its cameras."""
        gamma, self.s = decisions.nesterov(self.s)
        camera_gamma, self.camera_s = decisions.nesterov(self.camera_s)
        x_bar, last = self.x_bar, self.last
        state.extrapolate_cameras(camera_gamma, x.cameras, last.cameras, x_bar.cameras)
        state.extrapolate_points(
            float(gamma), x.points, last.points, self.middle, self.clip, x_bar.points
        )
        return x_bar

    def advance(self, x: State, new: State) -> None:
        """x becomes x_last; a camera that went back on its momentum starts anew."""
        self.last = x
        if self.reset:
            state.reset_momentum(
                self.x_bar.cameras, new.cameras, x.cameras, self.distance, self.camera_s
            )


@dataclass
class RestartMetrics:
    """F^α, F̄^α and E^α of each device; ΣF^α = F, F^α ≤ E^α ≤ F̄^α, F̄^α never rises (Lemma 1)."""

    F: Floats
    F_bar: Floats
    E: Floats
    eta: float
    eta_growth: float

    def bound(self, surrogate_new: Floats, surrogate_now: Floats) -> Floats:
        return np.asarray(decisions.bound(surrogate_new, self.F, surrogate_now))

    def update(self, E: Floats, F: Floats) -> None:
        self.E, self.F = E, F
        self.F_bar = decisions.restart_level(self.F_bar, F, self.eta)
        self.eta = decisions.next_eta(self.eta, self.eta_growth)
