"""What the next step of Levenberg–Marquardt depends on, taken from one solver and put into another:
for checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.lm import Estimate
from daba.problem import image_rows
from daba.solver.interface import Arrays
from daba.solver.lm.solver import LevenbergMarquardt


def device_states(solver: LevenbergMarquardt) -> dict[int, Arrays]:
    """What belongs to each device here."""
    states: dict[int, Arrays] = {}
    modes, made = solver.reduced.state(), solver.reduced.made
    for a, (device, own) in enumerate(solver.shard.by_device(solver.rows(solver.x)).items()):
        frames = slice(solver.parts.frame_ptr[a], solver.parts.frame_ptr[a + 1])
        states[device] = {
            "cameras": own.cameras,
            "points": own.points,
            "value": solver.value[a],
            **{name: array[frames] for name, array in modes.items()},
        }
    if made is not None:
        for device, own in solver.shard.by_device(solver.rows(made.x)).items():
            states[device] |= {"factored_cameras": own.cameras, "factored_points": own.points}
    return states


def common_state(solver: LevenbergMarquardt) -> dict[str, Any]:
    """What is the same on all devices."""
    made = solver.reduced.made
    return {
        "radius": solver.radius,
        "shrink": solver.shrink,
        "settled": solver.settled,
        "bends": solver.bends,
        "curved": solver.curved,
        "falling": solver.falling,
        "total": solver.total.tolist(),
        "linear": solver.reduced.common_state(),
        "factored": None if made is None else _beside_frames(solver, made.x),
        **_beside_frames(solver, solver.x),
    }


def _beside_frames(solver: LevenbergMarquardt, x: Estimate) -> dict[str, Any]:
    """What of an estimate belongs to no image alone."""
    own = len(x.frames) if solver.parts.kind.own else 0
    return {"sensors": x.sensors.tolist(), "shared": x.params[own:].tolist()}


def put_back(solver: LevenbergMarquardt, states: dict[int, Arrays], common: dict[str, Any]) -> None:
    """The reverse; with the factors of an earlier system, if the next step uses them again."""
    solver.reduced.restore(states)
    if common.get("factored"):
        solver.x = _estimate(solver, states, common["factored"], "factored_")
        solver.linearize()
        solver.reduced.linearized(solver.x)
    solver.reduced.remake(common.get("linear", {}))
    solver.x = _estimate(solver, states, common)
    solver.value = np.stack([found["value"] for found in states.values()])
    solver.radius, solver.shrink = float(common["radius"]), float(common["shrink"])
    solver.settled = bool(common.get("settled", False))
    solver.bends = bool(common.get("bends", False))
    solver.curved = bool(common.get("curved", False))
    solver.falling = bool(common.get("falling", False))
    solver.total = np.array(common["total"], np.float64)
    solver.checked = solver.total[0]


def _estimate(
    solver: LevenbergMarquardt, states: dict[int, Arrays], common: dict[str, Any], prefix: str = ""
) -> Estimate:
    """From what a checkpoint has of all devices here."""
    parts, kind = solver.parts, solver.parts.kind
    rows = np.concatenate([found[prefix + "cameras"] for found in states.values()])
    points = np.zeros((len(solver.x.points), 3))
    points[: parts.num_points] = np.concatenate(
        [found[prefix + "points"] for found in states.values()]
    )
    first = parts.images.frame_ptr[:-1]
    everywhere = solver.network.frames(np.ascontiguousarray(rows[first]))
    solver.network.points(points)
    own = len(solver.x.frames) if kind.own else 0
    params = solver.x.params.copy()
    found = image_rows.PARAMS if kind.error == "pixel" else slice(12, 15)
    params[:own, : found.stop - 12] = everywhere[:own, found]
    params[own:] = np.array(common["shared"]).reshape(-1, params.shape[1])
    frames = np.ascontiguousarray(everywhere[:, :12])
    return solver.ops.upload(Estimate(frames, np.array(common["sensors"]), params, points))
