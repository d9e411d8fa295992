"""The state of Algorithm 1: what its next iteration depends on, taken from one solver and put into
another, on whichever backend each of them computes; and what must hold of it after every iteration
(`--check`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daba.backends.operations import Operations, Row
from daba.core.errors import DabaError
from daba.core.types import Floats, State
from daba.solver.interface import Arrays, Solver

KEPT = {"radius": Row.RADIUS, "shrink": Row.SHRINK, "limit": Row.LIMIT}
KEPT_ACCELERATED = {"F": Row.F, "F_bar": Row.F_BAR, "E": Row.E}
"""Rows of the device table by their names in a checkpoint."""
CARRIED = 1e-5
"""Rounding of the largest F so far that F^α and E^α may still carry, in units of the backend's
tolerance. They follow the iterations by differences, so that what was rounded at the start stays:
1e-16 of it, on a scene without noise, over 300 iterations in which F fell by 14 orders."""


class Checkpointed(Solver):
    """A solver of Algorithm 1 that can be saved and put back."""

    operations: Operations
    accelerated: bool
    checked: Before

    def row(self, row: Row) -> Floats:
        """A row of the device table, (S,)."""
        return self.operations.table[row].copy()

    @property
    def kept(self) -> dict[str, Row]:
        return KEPT | KEPT_ACCELERATED if self.accelerated else KEPT

    def device_states(self) -> dict[int, Arrays]:
        shard, ops, table = self.shard, self.operations, self.operations.read()
        x, (before, camera_s) = shard.by_device(ops.estimate()), ops.momentum()
        last = shard.by_device(before)
        states = {}
        for a, (device, own) in enumerate(x.items()):
            states[device] = {"cameras": own.cameras, "points": own.points}
            states[device] |= {name: np.asarray(table[row, a]) for name, row in self.kept.items()}
            if self.accelerated:
                cameras = slice(*shard.devices.camera_ptr[a : a + 2])
                states[device] |= {
                    "last_cameras": last[device].cameras,
                    "last_points": last[device].points,
                    "camera_s": camera_s[cameras],
                }
        return states

    def common_state(self) -> dict[str, Any]:
        """s of points, η, whose turn it is among shared intrinsics, and the largest F."""
        table = self.operations.read()
        s = float(table[Row.S_POINTS, 0]) if self.accelerated else 1.0
        return {
            "eta": float(table[Row.ETA, 0]),
            "s": s,
            "turn": int(table[Row.TURN, 0]),
            "largest": self.checked.largest,
        }

    def put_back(self, states: dict[int, Arrays], common: dict[str, Any]) -> None:
        ops, x = self.operations, self._gathered(states, "")
        self.exchange.update(x, "both")
        ops.set_estimate(x)
        if self.accelerated:
            last = self._gathered(states, "last_")
            camera_s = np.ones((len(x.cameras), 1))
            own = [found["camera_s"] for found in states.values()]
            camera_s[: self.shard.num_cameras, 0] = np.concatenate(own)
            self.exchange.update(last, "both")
            self.exchange.fill(camera_s, np.zeros((len(x.points), 1)))
            ops.set_momentum(last, camera_s[:, 0].copy())
        table = ops.read().copy()
        for name, row in self.kept.items():
            table[row] = [float(found[name]) for found in states.values()]
        table[Row.S_POINTS], table[Row.ETA] = common["s"], common["eta"]
        table[Row.TURN] = common["turn"]
        ops.write(table)
        largest = float(common.get("largest", 0.0))  # which version 0.1 did not keep
        self.checked = Before.of(self, largest)

    def _gathered(self, states: dict[int, Arrays], prefix: str) -> State:
        """The estimate of all devices here; its ghosts are not known yet."""
        x = self.shard.state()
        x.cameras[: self.shard.num_cameras] = np.concatenate(
            [found[f"{prefix}cameras"] for found in states.values()]
        )
        x.points[: self.shard.num_points] = np.concatenate(
            [found[f"{prefix}points"] for found in states.values()]
        )
        return x


class Before(NamedTuple):
    """What an iteration is compared with."""

    F: float
    F_bar: Floats
    largest: float
    """F where it was largest."""

    @staticmethod
    def of(solver: Checkpointed, largest: float = 0.0) -> Before:
        F = solver.objective
        return Before(F, solver.row(Row.F_BAR), max(F, largest))


def check(solver: Checkpointed, before: Before) -> Before:
    """Raise `DabaError` if a guarantee fails by more than rounding; returns what the next iteration
    is to be compared with.

    DABA: ΣF^α = F, F^α ≤ E^α ≤ F̄^α of the iteration before, F̄^α not rising (Lemma 1). DUBA and
    LM: F not rising. That F may climb below F̄ is no failure of DABA; a solve that ends above its
    start goes back there (`Loop.outcome`).
    """
    tolerance = solver.operations.tolerance
    now = Before.of(solver, before.largest)
    if solver.accelerated:
        scale = tolerance * (now.F + CARRIED * now.largest)
        F, E = solver.row(Row.F), solver.row(Row.E)
        total = float(solver.comm.gather(F[:, None]).sum())
        failed = {
            "ΣF^α = F": abs(total - now.F) - scale,
            "F^α ≤ E^α": float((F - E).max()) - scale,
            "E^α ≤ F̄^α": float((E - before.F_bar).max()) - scale,
            "F̄^α never rises": float((now.F_bar - before.F_bar).max()) - scale,
        }
    else:
        failed = {"F never rises": now.F - before.F * (1 + max(1e-12, 1e-3 * tolerance))}
    broken = {name: by for name, by in failed.items() if not by <= 0.0}
    if broken:
        words = ", ".join(f"{name} (by {by:.2g}, F is {now.F:.6g})" for name, by in broken.items())
        raise DabaError(f"a guarantee of the method failed in rounding or in code: {words}")
    return now
