"""Rigs: images whose poses are those of a frame, a rig at one moment.

A frame with one image is nothing but that image's pose, whatever sensor took it. Images that share
a frame keep their places relative to each other: the sensors' on the rig.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daba.core.errors import DabaError
from daba.core.types import frozen
from daba.io.colmap.parts import Parts, Rig
from daba.io.colmap.poses import compose, from_colmap, inverted, to_colmap
from daba.problem.optics import Optics
from daba.problem.problem import Floats

IDENTITY = np.array([1.0, 0, 0, 0, 0, 0, 0])


@frozen
class Links:
    """Which image of a model is in which frame, and on which sensor; n images that have a frame."""

    frame: np.ndarray
    """Row in frames, (n,)."""
    image: np.ndarray
    """Row in images, (n,)."""
    sensor: np.ndarray
    """Number of its sensor, (n,); 0 is the place of the rig itself."""
    keys: list[tuple[int, int]]
    """Rig and camera id of each other sensor, from 1 on."""
    poses: Floats
    """Rig to sensor, of each sensor, (M, 7)."""
    frames: Floats
    """World to rig, of every frame, (F, 7); NaN where it has none."""

    def with_rigs(self, optics: Optics, registered: np.ndarray) -> Optics:
        """The optics of registered images with frames and sensors, if some frame has several."""
        frame, sensor = self.of_images(registered)
        number, of = np.unique(frame, return_inverse=True)
        if len(number) == len(frame):
            return optics
        optics = replace(
            optics,
            frame=of.reshape(-1).astype(np.int32),
            frames=_records(self.frames[number]),
            sensor=sensor.astype(np.int32),
            sensors=_records(self.poses),
        )
        return optics.with_refined()

    def of_images(self, registered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row of the frame, and number of the sensor, of each registered image."""
        row = np.full((2, int(registered.max()) + 1), -1)
        known = self.image <= registered.max()
        row[:, self.image[known]] = self.frame[known], self.sensor[known]
        frame, sensor = row[:, registered]
        return frame, sensor


def links(model: Parts) -> Links | None:
    """None for a model that has no frames."""
    if not model.has_rigs:
        return None
    row = {number: i for i, number in enumerate(model.images.ids.tolist())}
    rigs = {rig.id: rig for rig in model.rigs}
    frame: list[int] = []
    image: list[int] = []
    sensor: list[int] = []
    numbers: dict[tuple[int, int], int] = {}
    poses = [IDENTITY]
    for k, images in enumerate(model.frames.images):
        rig = rigs.get(int(model.frames.rigs[k]))
        if rig is None:
            raise DabaError(
                f"{model.where('frames')}: frame {model.frames.ids[k]} has rig "
                f"{model.frames.rigs[k]}, which the rigs do not have"
            )
        for camera, number in images:
            if number not in row:
                continue  # an image that was never registered
            key = rig.id, camera
            if camera != rig.reference and key not in numbers:
                numbers[key] = len(poses)
                poses.append(_pose(model, rig, camera))
            frame.append(k)
            image.append(row[number])
            sensor.append(0 if camera == rig.reference else numbers[key])
    return Links(
        np.array(frame, np.int64),
        np.array(image, np.int64),
        np.array(sensor, np.int64),
        list(numbers),
        np.array(poses),
        np.where(usable(model.frames.poses)[:, None], model.frames.poses, np.nan),
    )


def image_poses(model: Parts, tied: Links | None) -> Floats:
    """Poses (I,7) of all images, world to camera; NaN where there is none."""
    if tied is None:
        return np.where(usable(model.images.poses)[:, None], model.images.poses, np.nan)
    poses = np.full_like(model.images.poses, np.nan)
    poses[tied.image] = compose(tied.frames[tied.frame], tied.poses[tied.sensor])
    # the reference sensor's pose is the frame's own, to the last digit
    plain = (tied.poses == IDENTITY).all(axis=1)[tied.sensor]
    poses[tied.image[plain]] = tied.frames[tied.frame[plain]]
    return poses


def frame_poses(tied: Links, poses: Floats, moved: np.ndarray) -> Floats:
    """Poses (F,7) of frames after some images, each alone in its frame, have `moved`."""
    new = tied.frames.copy()
    k = moved[tied.image]
    sensor = tied.poses[tied.sensor]
    new[tied.frame[k]] = compose(poses[tied.image[k]], inverted(sensor[k]))
    plain = k & (sensor == IDENTITY).all(axis=1)
    new[tied.frame[plain]] = poses[tied.image[plain]]
    return new


def with_moved(start: Floats, records: Floats) -> Floats:
    """Poses (n,7) with those replaced whose record (n,12) is another than their own."""
    changed = (_records(start) != records).any(axis=1)
    new = start.copy()
    R, t = records[changed, :9].reshape(-1, 3, 3), records[changed, 9:]
    new[changed] = to_colmap(R, t, start[changed])
    return new


def usable(poses: Floats) -> np.ndarray:
    """Which poses are poses: finite, with a quaternion that is not zero."""
    return np.isfinite(poses).all(axis=1) & (poses[:, :4] != 0).any(axis=1)


def _records(poses: Floats) -> Floats:
    """R row by row, and centre, (n,12), in the other direction."""
    R, t = from_colmap(poses)
    return np.hstack([R.reshape(-1, 9), t])


def _pose(model: Parts, rig: Rig, camera: int) -> Floats:
    pose = rig.others.get(camera)
    if pose is None:
        raise DabaError(f"{model.where('rigs')}: camera {camera} has no pose in rig {rig.id}")
    return pose
