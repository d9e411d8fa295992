"""Rigs: images whose poses are those of a frame, a rig at one moment.

A frame with one image is nothing but that image's pose, whatever sensor took it. Images that share
a frame are rigidly connected; no solver here knows that, so such a model is refused or set free.
"""

from __future__ import annotations

import numpy as np

from daba.core.errors import DabaError
from daba.io.colmap.model import Model
from daba.io.colmap.parts import Rig
from daba.io.colmap.poses import compose, inverted
from daba.problem.problem import Floats


def image_poses(model: Model, rigs: str) -> Floats:
    """Poses (I,7) of all images, world to camera; NaN where there is none."""
    if rigs not in ("keep", "free"):
        raise DabaError(f"rigs must be 'keep' or 'free', not {rigs!r}")
    if not model.has_rigs:
        return np.where(usable(model.images.poses)[:, None], model.images.poses, np.nan)
    if rigs == "keep":
        _check_alone(model)
    frame, image, sensor_from_rig = _links(model)
    of_frames = np.where(usable(model.frames.poses)[:, None], model.frames.poses, np.nan)
    poses = np.full_like(model.images.poses, np.nan)
    poses[image] = compose(of_frames[frame], sensor_from_rig)
    # the reference sensor's pose is the frame's own, to the last digit
    plain = (sensor_from_rig == IDENTITY).all(axis=1)
    poses[image[plain]] = of_frames[frame[plain]]
    return poses


def frame_poses(model: Model, poses: Floats, moved: np.ndarray) -> Floats:
    """Poses (F,7) of frames after some images, each alone in its frame, have `moved`."""
    frame, image, sensor_from_rig = _links(model)
    new = model.frames.poses.copy()
    k = moved[image]
    new[frame[k]] = compose(poses[image[k]], inverted(sensor_from_rig[k]))
    plain = k & (sensor_from_rig == IDENTITY).all(axis=1)
    new[frame[plain]] = poses[image[plain]]
    return new


IDENTITY = np.array([1.0, 0, 0, 0, 0, 0, 0])


def usable(poses: Floats) -> np.ndarray:
    """Which poses are poses: finite, with a quaternion that is not zero."""
    return np.isfinite(poses).all(axis=1) & (poses[:, :4] != 0).any(axis=1)


def _check_alone(model: Model) -> None:
    frames, known = model.frames, set(model.images.ids.tolist())
    counts = [sum(image in known for _, image in images) for images in frames.images]
    several = [k for k, count in enumerate(counts) if count > 1]
    if several:
        k = several[0]
        raise DabaError(
            f"{model.folder}: this model has a rig of several cameras: frame {frames.ids[k]} of "
            f"rig {frames.rigs[k]} has {counts[k]} images, which must keep their "
            "poses relative to each other, and that cannot be kept here yet; --rigs free adjusts "
            "every image for itself and writes a model without rigs"
        )


def _links(model: Model) -> tuple[np.ndarray, np.ndarray, Floats]:
    """Frame and image of each image that has a frame, and its pose (n,7), rig to sensor."""
    row = {number: i for i, number in enumerate(model.images.ids.tolist())}
    rigs = {rig.id: rig for rig in model.rigs}
    frame: list[int] = []
    image: list[int] = []
    sensor: list[Floats] = []
    for k, images in enumerate(model.frames.images):
        rig = rigs.get(int(model.frames.rigs[k]))
        if rig is None:
            raise DabaError(
                f"{model.path('frames')}: frame {model.frames.ids[k]} has rig "
                f"{model.frames.rigs[k]}, which {model.path('rigs').name} does not have"
            )
        for camera, number in images:
            if number not in row:
                continue  # an image that was never registered
            frame.append(k)
            image.append(row[number])
            sensor.append(IDENTITY if camera == rig.reference else _pose(model, rig, camera))
    return np.array(frame, np.int64), np.array(image, np.int64), np.array(sensor).reshape(-1, 7)


def _pose(model: Model, rig: Rig, camera: int) -> Floats:
    pose = rig.others.get(camera)
    if pose is None:
        raise DabaError(f"{model.path('rigs')}: camera {camera} has no row in rig {rig.id}")
    return pose
