"""What the next iteration of Algorithm 1 depends on: taken from one solver, put into another, on
whichever machine each of them computes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from daba.core.types import Floats
from daba.distributed.shard import State
from daba.solver.interface import Arrays, Solver


@dataclass
class Saved:
    """Arrays of the shard: its own variables before its ghosts, or one number for each device."""

    x: State
    last: State
    camera_s: Floats
    """Nesterov's s of each camera; that of points is the same on all devices."""
    radius: Floats
    shrink: Floats
    limit: Floats
    F: Floats
    F_bar: Floats
    E: Floats


class Saving(Solver):
    """A solver of Algorithm 1 that can be saved and put back."""

    accelerated: bool

    @abstractmethod
    def saved(self) -> Saved:
        """Everything that the next iteration depends on."""

    @abstractmethod
    def restore(self, saved: Saved, common: dict[str, float]) -> None:
        """Go on from there; the ghosts are known."""

    def device_states(self) -> dict[int, Arrays]:
        """Everything that the next iteration depends on, by device; for checkpoints."""
        shard, saved = self.shard, self.saved()
        x, last = shard.by_device(saved.x), shard.by_device(saved.last)
        states = {}
        for a, (device, own) in enumerate(x.items()):
            cameras = slice(shard.devices.camera_ptr[a], shard.devices.camera_ptr[a + 1])
            states[device] = {
                "cameras": own.cameras,
                "points": own.points,
                "radius": saved.radius[a],
                "shrink": saved.shrink[a],
                "limit": saved.limit[a],
            }
            if self.accelerated:
                states[device] |= {
                    "last_cameras": last[device].cameras,
                    "last_points": last[device].points,
                    "camera_s": saved.camera_s[cameras],
                    "F": saved.F[a],
                    "F_bar": saved.F_bar[a],
                    "E": saved.E[a],
                }
        return {device: {k: np.asarray(v) for k, v in s.items()} for device, s in states.items()}

    def put_back(self, states: dict[int, Arrays], common: dict[str, float]) -> None:
        """The reverse of `device_states` and `common_state`; neighbours tell their ghosts."""
        shard, saved = self.shard, self.saved()
        x, last = saved.x.copy(), saved.x.copy()
        camera_s = np.ones((len(x.cameras), 1))
        for a, found in enumerate(states.values()):
            cameras = slice(shard.devices.camera_ptr[a], shard.devices.camera_ptr[a + 1])
            points = slice(shard.devices.point_ptr[a], shard.devices.point_ptr[a + 1])
            x.cameras[cameras], x.points[points] = found["cameras"], found["points"]
            if self.accelerated:
                last.cameras[cameras] = found["last_cameras"]
                last.points[points] = found["last_points"]
                camera_s[cameras, 0] = found["camera_s"]
        self.exchange.update(x, "both")
        if self.accelerated:
            self.exchange.update(last, "both")
            self.exchange.constants(camera_s, np.zeros((len(x.points), 1)))
        names = ["radius", "shrink", "limit", *(("F", "F_bar", "E") if self.accelerated else ())]
        told = {name: np.array([float(s[name]) for s in states.values()]) for name in names}
        found = {"F": saved.F, "F_bar": saved.F_bar, "E": saved.E} | told
        self.restore(Saved(x, last, camera_s[:, 0].copy(), **found), common)
