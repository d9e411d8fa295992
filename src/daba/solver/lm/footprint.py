"""What Levenberg–Marquardt will need on each device, were it a process of its own: memory, and
bytes to be told. It is known from a solver that is set up for all devices in one process, and has
solved one linear system: which coarse space a solve takes is decided there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daba.core.lm import ROW
from daba.core.types import distinct
from daba.distributed.shard import NUMBER
from daba.partition.memory_model import PROGRAM, RECORD
from daba.solver.lm.coarse import DENSE, CoarseSpace
from daba.solver.lm.deflated import Deflated
from daba.solver.lm.linear import Whole
from daba.solver.lm.renewed import Renewed
from daba.solver.lm.solver import LevenbergMarquardt

WITH_NUMBA = PROGRAM + 5_000_000
"""Bytes of a process of lm that solves next to nothing: beside what any other holds, its kernels
and BLAS's buffers."""
WITHOUT_NUMBA = 82_000_000
"""The same where kernels are loaded without Numba: 77 to 87 MB in scenes of 60 to 500 cameras."""
OBSERVATION = 3 * 4 + 16 + 8 + 5 * 4
"""Bytes: frame, image, point, xy, weight; its run of a cluster, and its places in three indices."""
POINT = 8 * (4 * 3 + 2 * 6 + 2 * 3 + 1 + 2 * 3 + 6)
"""Bytes: four estimates, V and its inverse, gradient and z, bound, two steps, six indices."""
ESTIMATES = 4
"""Of frames that are held at once."""
ENTRY = 2 * 24
"""Bytes that each number of a pair takes while it is added to E: two indices and its value, and the
same for its mirror image."""


class LmBytes(NamedTuple):
    """Bytes that all devices tell, in rounds and in sums."""

    step: int
    """For each linearization and accepted trial, without conjugate gradients."""
    retry: int
    """For each trial more."""
    iteration: int
    """For each iteration of conjugate gradients."""

    def of(self, iterations: int, retries: int = 0) -> int:
        """Of one step with so many iterations of conjugate gradients in all its trials."""
        return self.step + retries * self.retry + iterations * self.iteration


class LmFootprint(NamedTuple):
    """What a solve will need."""

    memory: list[int]
    """Bytes of each device at most, with the program itself."""
    sent: LmBytes


def predict(solver: LevenbergMarquardt) -> LmFootprint:
    """Of a solver that nobody will use."""
    solver.linearize()
    solver.reduced.linearized(solver.x)
    solver.reduced.solve(1.0 / solver.radius)
    return LmFootprint(_memory(solver), _bytes(solver))


def _bytes(solver: LevenbergMarquardt) -> LmBytes:
    parts, reduced, B = solver.parts, solver.reduced, solver.parts.kind.block
    if not isinstance(reduced, Deflated):
        return LmBytes(0, 0, 0)
    space, S, told = reduced.space, parts.devices, parts.boundary.bytes
    assembled = space.everywhere * space.width**2 + space.used.most + parts.shared.count
    trial = told(cameras=B, points=3) + told(points=6 + 3 + 3) + NUMBER * S * (assembled + 1 + 4)
    found = reduced.eigenmodes is not None
    motions = told(cameras=B * space.modes) if found or len(parts.fixed_frames) else 0
    return LmBytes(
        step=trial + motions + NUMBER * S * (4 * space.clusters + found),
        retry=trial,
        iteration=told(cameras=B, points=3) + NUMBER * S * (space.used_beside.most + 3),
    )


def _memory(solver: LevenbergMarquardt) -> list[int]:
    parts, reduced = solver.parts, solver.reduced
    kind, obs, B = parts.kind, parts.obs, parts.kind.block
    if isinstance(reduced, Whole):  # small, and nothing beside the program
        dense = NUMBER * 3 * (B * parts.num_frames) ** 2
        return [program() + dense + POINT * parts.num_points]
    devices = solver.shard.devices
    frames, points = np.diff(parts.frame_ptr), np.diff(devices.point_ptr)
    images = np.diff(devices.camera_ptr)
    seen = np.diff(obs.point_ptr[devices.point_ptr])
    inter = np.diff(obs.inter_ptr[parts.frame_ptr])
    ghosts = _ghost_points(solver)
    record = int(solver.ops.J.shape[1])
    added = int(solver.ops.added.shape[1]) if len(solver.ops.added) else 0
    memory = (
        (seen + inter) * (RECORD + OBSERVATION + NUMBER * (record + 2 * kind.columns))
        + (points + ghosts) * POINT
        + images * NUMBER * solver.shard.start.cameras.shape[1] * 2
        + images * NUMBER * kind.columns * (kind.columns + B + 1)
        + frames * NUMBER * (ESTIMATES * (12 + ROW) + 2 * B * B + 12 * B)
        + frames * NUMBER * (B + added) * _tasks(solver)
        + _tiles(solver)
    )
    if isinstance(reduced, Deflated):
        memory = memory + _coarse(solver, reduced.space, frames)
    return [program() + int(count) for count in memory]


def program() -> int:
    """Bytes of a process that solves next to nothing."""
    from daba.backends.cpu import symbols

    return WITHOUT_NUMBA if symbols.usable() else WITH_NUMBA


def _ghost_points(solver: LevenbergMarquardt) -> np.ndarray:
    """Points of other devices that each device sees, (S,)."""
    parts, S = solver.parts, solver.parts.devices
    of = np.repeat(np.arange(parts.num_frames), np.diff(parts.obs.inter_ptr))
    pairs = distinct(parts.obs.point[parts.obs.inter_obs] * np.int64(S) + _device(solver)[of])
    return np.bincount(pairs % S, minlength=S)


def _device(solver: LevenbergMarquardt) -> np.ndarray:
    return solver.network.frame_device


def _tasks(solver: LevenbergMarquardt) -> np.ndarray:
    """Tasks of each device's points, (S,)."""
    return np.diff(solver.parts.point_tasks.device_ptr)


def _tiles(solver: LevenbergMarquardt) -> np.ndarray:
    """Of S_cc, packed and as factors, of each device, (S,)."""
    parts, reduced = solver.parts, solver.reduced
    if isinstance(reduced, Renewed):  # one device
        return np.array([_bytes_of(reduced.whole) + _bytes_of(reduced.frames)])
    plan = solver.ops.factors.plan
    rows = np.repeat(np.diff(parts.cluster_ptr), np.ones(parts.devices, int))
    of_cluster = np.repeat(np.arange(parts.devices), rows)
    of_row = np.repeat(of_cluster, np.diff(plan.cluster_ptr))
    tiles = np.bincount(of_row[plan.level_row], minlength=parts.devices)
    diagonal = np.bincount(of_row, minlength=parts.devices)
    side = solver.parts.kind.block * plan.size
    packed = int(solver.ops.factors.packed.shape[1]) * plan.size**2
    return np.asarray(NUMBER * (tiles * (packed + side * side) + diagonal * side * side))


def _bytes_of(factors: Any) -> int:
    return int(factors.packed.nbytes + factors.tiles.nbytes + factors.inverses.nbytes)


def _coarse(solver: LevenbergMarquardt, space: CoarseSpace, frames: np.ndarray) -> np.ndarray:
    """Of each device, (S,): Y, Z, its part of E for each task, and all of E."""
    width = space.width
    entries = np.diff(space.blocks.ptr[solver.shard.devices.point_ptr])
    pairs = np.diff(space.pair_begin)
    dense, each = space.size <= DENSE, space.everywhere * width**2
    whole = each * (solver.parts.devices * NUMBER + ENTRY * (1 if dense else solver.parts.devices))
    whole += 4 * NUMBER * space.size**2 if dense else 0
    return np.asarray(
        entries * (3 * NUMBER * width + 2 * 4)
        + frames * NUMBER * solver.parts.kind.block * space.modes * 2
        + _tasks(solver) * pairs * width**2 * NUMBER
        + whole
    )
