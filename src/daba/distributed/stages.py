"""The parts of a store between two stages of a solve: rays with intrinsics held, then pixels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daba.core.types import Floats
from daba.distributed.shard import Shard, State
from daba.problem.constraints import CAMERA_PARAMETERS, Constraints
from daba.problem.image_rows import POSE
from daba.problem.optics import Optics


def with_intrinsics_held(shard: Shard) -> Shard:
    """As a whole problem would be whose intrinsics are fixed."""
    asked = shard.constraints or Constraints()
    free = np.ones((shard.num_cameras, CAMERA_PARAMETERS), bool)
    if asked.free_cameras is not None:
        free[:] = asked.free_cameras
    free[:, 6:] = False
    return replace(shard, constraints=replace(asked, free_cameras=free))


def in_pixels(pixels: Shard, optics: Optics, x: State) -> Shard:
    """A shard of the pixel error where a solve of the same part on rays has come to; `optics` is
    that of the whole problem."""
    own = pixels.num_cameras
    rows = pixels.start.cameras.copy()
    rows[:own, POSE] = _frames(optics, pixels.camera_order, x.cameras[:own, :12])
    return replace(pixels, start=State(rows, x.points))


def _frames(optics: Optics, images: np.ndarray, poses: Floats) -> Floats:
    """Of some images, which are all of their frames, given where the images are now."""
    if not optics.rigs:
        return poses
    every = optics.image_poses()
    every[images] = poses
    moved = optics.with_images_at(every)
    assert moved.frame is not None
    assert moved.frames is not None
    return np.asarray(moved.frames[moved.frame[images]])
