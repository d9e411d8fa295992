"""What the next iteration of Algorithm 1 depends on: taken from one solver, put into another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from daba.solver import Solver

Arrays = dict[str, np.ndarray]


def device_states(solver: Solver) -> dict[int, Arrays]:
    """Everything that the next iteration depends on, by device."""
    shard, lm, metrics = solver.shard, solver.levenberg, solver.metrics
    x = shard.by_device(solver.x)
    last = shard.by_device(solver.nesterov.last) if solver.accelerated else x
    states = {}
    for a, (device, own) in enumerate(x.items()):
        cameras = slice(shard.devices.camera_ptr[a], shard.devices.camera_ptr[a + 1])
        states[device] = {
            "cameras": own.cameras,
            "points": own.points,
            "radius": lm.radius[a],
            "shrink": lm.shrink[a],
            "limit": lm.limit[a],
        }
        if solver.accelerated:
            states[device] |= {
                "last_cameras": last[device].cameras,
                "last_points": last[device].points,
                "camera_s": solver.nesterov.camera_s[cameras],
                "F": metrics.F[a],
                "F_bar": metrics.F_bar[a],
                "E": metrics.E[a],
            }
    return {device: {k: np.asarray(v) for k, v in s.items()} for device, s in states.items()}


def common_state(solver: Solver) -> dict[str, float]:
    """What is the same on every device."""
    return {
        "eta": float(solver.metrics.eta),
        "s": float(solver.nesterov.s) if solver.accelerated else 1.0,
        "turn": 0 if solver.joint is None else solver.joint.turn,
    }


def put_back(solver: Solver, arrays: dict[int, Arrays], common: dict[str, float]) -> None:
    """The reverse of `device_states` and `common_state`; neighbours tell their ghosts."""
    shard, lm, metrics = solver.shard, solver.levenberg, solver.metrics
    x, last = solver.x.copy(), solver.x.copy()
    camera_s = np.ones(len(x.cameras))
    for a, found in enumerate(arrays.values()):
        cameras = slice(shard.devices.camera_ptr[a], shard.devices.camera_ptr[a + 1])
        points = slice(shard.devices.point_ptr[a], shard.devices.point_ptr[a + 1])
        x.cameras[cameras], x.points[points] = found["cameras"], found["points"]
        lm.radius[a], lm.shrink[a] = found["radius"], found["shrink"]
        lm.limit[a] = found["limit"]
        if solver.accelerated:
            last.cameras[cameras] = found["last_cameras"]
            last.points[points] = found["last_points"]
            camera_s[cameras] = found["camera_s"]
    solver.exchange.update(x, "both")
    if solver.accelerated:
        solver.exchange.update(last, "both")
        rows = camera_s[:, None].copy()
        solver.exchange.constants(rows, np.zeros((len(x.points), 1)))
        solver.nesterov.last, solver.nesterov.camera_s = last, rows[:, 0].copy()
        solver.nesterov.s = common["s"]
        for name in ("F", "F_bar", "E"):  # new arrays: at the start, F and E are one
            setattr(metrics, name, np.array([float(found[name]) for found in arrays.values()]))
    metrics.eta = common["eta"]
    if solver.joint is not None:
        solver.joint.turn = int(common["turn"])
    solver.place(x)
    solver.checked = (solver.objective, metrics.F_bar.copy())
