"""Memory of a device and bytes of an iteration, predicted from a partition, for every method.

Each device is taken to be a process of its own. For ADMM and DR the problem is written with its
copies, as a problem without inter observations: then what tells DABA's memory tells theirs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from daba.core.options import Options
from daba.partition.memory_model import CAMERA_SURROGATES, POINT_SURROGATES, PROGRAM
from daba.partition.ordering import lay_out
from daba.partition.partition import Partition
from daba.partition.statistics import statistics
from daba.problem.checks import CAMERA_RECORD
from daba.problem.problem import Problem
from daba.runtime.prediction import predict_lm
from daba.solver.consensus.consensus import RENEWED
from daba.solver.consensus.copies import CAMERA_NUMBERS, Block
from daba.solver.linear.factor_memory import with_factors
from daba.solver.lm.footprint import program
from daba.tools.bench.methods import DISTRIBUTED

ROW: dict[Block, int] = {"cameras": 8 * CAMERA_RECORD, "points": 8 * 3}
"""Bytes of a variable."""
COPIED: dict[str, Block] = {"admm": "cameras", "dr": "points"}
COPY_BYTES: dict[Block, float] = {
    "cameras": 2 * (ROW["cameras"] + 8 * len(CAMERA_NUMBERS) / RENEWED),
    "points": 2 * ROW["points"],
}
"""Bytes in an iteration for a copy that is not at its owner: itself and the mean, and of a camera,
now and then, its metric."""


LM_ITERATIONS = 2
"""Of conjugate gradients, in the step of lm whose bytes are told."""


def footprint(problem: Problem, partition: Partition) -> dict[str, Any]:
    """For each method the most memory of a device, without the program, and bytes sent by all."""
    lm = predict_lm(problem, partition, Options(error="ray"))
    steps = {"memory": max(lm.memory) - program(), "bytes": lm.sent.of(LM_ITERATIONS)}
    if partition.devices == 1:  # every method is lm
        return dict.fromkeys(DISTRIBUTED, steps | {"bytes": 0})
    memory = _memory(problem, partition)
    ghosts = {block: _ghosts(problem, partition, block) for block in ROW}
    once = int(sum(ROW[block] * ghosts[block].sum() for block in ROW))
    found: dict[str, Any] = {}
    for name, times in (("daba", 1), ("daba-points", 1), ("daba-sweep", 2), ("duba", 1)):
        found[name] = {"memory": int(memory.max()), "bytes": times * once}
    for name, block in COPIED.items():
        copied = _consensus_memory(problem, partition, block)
        found[name] = {
            "memory": int(copied.max()),
            "bytes": round(COPY_BYTES[block] * ghosts[block].sum()),
        }
    return found | {"lm-devices": steps}


def _memory(problem: Problem, partition: Partition, copies: bool = False) -> np.ndarray:
    """Memory of each device, (S,), without the program."""
    layout = lay_out(problem, partition)
    blocks = (layout.device_block(device) for device in range(partition.devices))
    predicted = with_factors(statistics(problem, partition).memory, blocks, layout.ranges, copies)
    return np.array(predicted) - PROGRAM


def _ghosts(problem: Problem, partition: Partition, block: Block) -> np.ndarray:
    """Variables of others that each device sees across an inter observation, (S,)."""
    camera_at = partition.camera_device[problem.camera_index].astype(np.int64)
    point_at = partition.point_device[problem.point_index].astype(np.int64)
    cameras = block == "cameras"
    variable = problem.camera_index if cameras else problem.point_index
    seen_at, own = (point_at, camera_at) if cameras else (camera_at, point_at)
    pairs = np.unique((variable * np.int64(partition.devices) + seen_at)[seen_at != own])
    return np.bincount(pairs % partition.devices, minlength=partition.devices)


def _consensus_memory(problem: Problem, partition: Partition, block: Block) -> np.ndarray:
    """Memory of each device, (S,): its system with its copies, what each copy remembers, and x."""
    copied, shared = _with_copies(problem, partition, block)
    held_cameras, held_points = _counts(shared)
    copies = held_cameras if block == "cameras" else held_points
    remembered = 4 * ROW[block] * copies  # dual or s, target, metric and mean
    absent = CAMERA_SURROGATES * held_cameras + POINT_SURROGATES * held_points
    own_cameras, own_points = _counts(partition)
    estimate = 2 * (
        ROW["cameras"] * (own_cameras + _ghosts(problem, partition, "cameras"))
        + ROW["points"] * (own_points + _ghosts(problem, partition, "points"))
    )
    return _memory(copied, shared, copies=True) - absent + remembered + estimate


def _counts(partition: Partition) -> tuple[np.ndarray, np.ndarray]:
    """Cameras and points of each device."""
    ends = partition.camera_device, partition.point_device
    cameras, points = (np.bincount(end, minlength=partition.devices) for end in ends)
    return cameras, points


def _with_copies(problem: Problem, partition: Partition, block: Block) -> tuple[Problem, Partition]:
    """Every device with its own copy of what it sees: all observations are intra."""
    cameras = block == "cameras"
    kept, split = (
        (partition.point_device[problem.point_index], problem.camera_index)
        if cameras
        else (partition.camera_device[problem.camera_index], problem.point_index)
    )
    count = problem.num_cameras if cameras else problem.num_points
    key, number = np.unique(kept * np.int64(count) + split, return_inverse=True)
    source, device = key % count, (key // count).astype(np.int32)
    index = number.astype(np.int32)
    if cameras:
        copied = replace(
            problem,
            cameras=problem.cameras[source],
            focal=problem.focal[source],
            camera_index=index,
        )
        return copied, Partition(device, partition.point_device, partition.devices)
    copied = replace(problem, points=problem.points[source], point_index=index)
    return copied, Partition(partition.camera_device, device, partition.devices)
