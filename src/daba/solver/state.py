"""What the next iteration of Algorithm 1 depends on: taken from one solver, put into another, on
whichever backend each of them computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.backends.operations import Operations
from daba.backends.table import Row
from daba.core.types import Floats, State
from daba.solver import invariants
from daba.solver.interface import Arrays, Solver

KEPT = {"radius": Row.RADIUS, "shrink": Row.SHRINK, "limit": Row.LIMIT}
KEPT_ACCELERATED = {"F": Row.F, "F_bar": Row.F_BAR, "E": Row.E}
"""Rows of the device table by their names in a checkpoint."""


class Checkpointed(Solver):
    """A solver of Algorithm 1 that can be saved and put back."""

    operations: Operations
    accelerated: bool
    checked: invariants.Before

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
            self.exchange.constants(camera_s, np.zeros((len(x.points), 1)))
            ops.set_momentum(last, camera_s[:, 0].copy())
        table = ops.read().copy()
        for name, row in self.kept.items():
            table[row] = [float(found[name]) for found in states.values()]
        table[Row.S_POINTS], table[Row.ETA] = common["s"], common["eta"]
        table[Row.TURN] = common["turn"]
        ops.write(table)
        largest = float(common.get("largest", 0.0))  # which version 0.1 did not keep
        self.checked = invariants.Before.of(self, largest)

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
