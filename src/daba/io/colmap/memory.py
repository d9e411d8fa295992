"""A `pycolmap.Reconstruction` as a problem, and results put back into it, without any file."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.types import distinct
from daba.io.colmap.parts import Camera, Frames, Images, Points, Rig
from daba.io.colmap.reading import Rigs, problem_of
from daba.io.colmap.rigs import Links, links, with_moved
from daba.io.colmap.solution import check_same
from daba.io.colmap.theirs import pycolmap
from daba.problem.problem import Floats, Problem

NOWHERE = np.empty(0, np.int64)
"""Where parts are in files; here there are none."""


def is_reconstruction(given: object) -> bool:
    """Whether something is a `pycolmap.Reconstruction`."""
    kind = type(given)
    return kind.__name__ == "Reconstruction" and kind.__module__.startswith("pycolmap")


def load_reconstruction(reconstruction: Any, rigs: Rigs = "keep") -> Problem:
    """The problem of a reconstruction, which stays as it is until `update`."""
    parts = Reconstruction(reconstruction)
    problem = problem_of(parts, "reconstruction", {"kind": "memory", "rigs": rigs})
    problem.info["keys"] = parts.keys
    return problem


def update(reconstruction: Any, problem: Problem) -> None:
    """Put cameras, poses, sensors and points of a problem into the reconstruction it came from, and
    take out the observations that a filter has dropped. What has not moved stays as it is."""
    if problem.info.get("colmap", {}).get("kind") != "memory":
        raise DabaError(f"'{problem.name}' did not come from a pycolmap.Reconstruction")
    parts = Reconstruction(reconstruction, observations=False)
    check_same(problem, parts, "this reconstruction")
    for number, params in problem.camera_params.items():
        if not np.array_equal(params, reconstruction.cameras[number].params):
            reconstruction.cameras[number].params = params
    if problem.optics.rigs:
        _update_rigs(reconstruction, parts, problem)
    else:
        _update_images(reconstruction, problem)
    moved = np.flatnonzero((parts.points.xyz != problem.points).any(axis=1))
    points, ids = reconstruction.points3D, parts.points.ids
    for j in moved.tolist():
        points[int(ids[j])].xyz = problem.points[j]
    for image, key in np.asarray(problem.info.get("dropped", np.empty((0, 2), int))).tolist():
        number = int(problem.image_ids[image])
        if reconstruction.images[number].points2D[key].has_point3D():  # not with its point already
            reconstruction.delete_observation(number, key)
    reconstruction.update_point_3d_errors()


def _update_images(reconstruction: Any, problem: Problem) -> None:
    images = [reconstruction.images[int(number)] for number in problem.image_ids]
    start = np.array([_pose(image.cam_from_world()) for image in images])
    new = with_moved(start, problem.poses)
    for i in np.flatnonzero((new != start).any(axis=1)).tolist():
        frame = reconstruction.frames[images[i].frame_id]
        frame.set_cam_from_world(images[i].camera_id, _rigid(new[i]))


def _update_rigs(reconstruction: Any, parts: Reconstruction, problem: Problem) -> None:
    tied = links(parts)
    assert isinstance(tied, Links)
    optics = problem.optics
    assert optics.frames is not None
    assert optics.sensors is not None
    number = distinct(tied.of_images(np.asarray(problem.info["registered"]))[0])
    frames = with_moved(tied.frames[number], optics.frames)
    for row, pose in zip(number.tolist(), frames, strict=True):
        if not np.array_equal(pose, tied.frames[row]):
            reconstruction.frames[int(parts.frames.ids[row])].rig_from_world = _rigid(pose)
    sensors = with_moved(tied.poses, optics.sensors)
    for n, (rig, camera) in enumerate(tied.keys, start=1):
        if not np.array_equal(sensors[n], tied.poses[n]):
            sensor = reconstruction.cameras[camera].sensor_id
            reconstruction.rigs[rig].set_sensor_from_rig(sensor, _rigid(sensors[n]))


class Reconstruction:
    """The parts of a reconstruction, as `problem_of` takes them. Of 2D points, only those that see
    a 3D point, or none at all without `observations`."""

    folder = "the reconstruction"
    has_rigs = True

    def __init__(self, theirs: Any, observations: bool = True) -> None:
        self._theirs, self._observations = theirs, observations

    def where(self, part: str) -> str:
        return f"{part} of the reconstruction"

    @cached_property
    def _registered(self) -> list[Any]:
        images = self._theirs.images
        return [images[number] for number in sorted(self._theirs.reg_image_ids())]

    @cached_property
    def keys(self) -> np.ndarray:
        """Number in its image of each 2D point, (N,)."""
        found = [image.get_observation_point2D_idxs() for image in self._registered]
        return np.concatenate([NOWHERE, *found]).astype(np.int32)

    @cached_property
    def images(self) -> Images:
        registered = self._registered
        seeing = registered if self._observations else []
        lists = [image.get_observation_points2D() for image in seeing]
        seen = list(chain.from_iterable(lists))
        return Images(
            ids=np.array([image.image_id for image in registered], np.int64),
            poses=np.full((len(registered), 7), np.nan),
            camera_ids=np.array([image.camera_id for image in registered], np.int64),
            names=[image.name for image in registered],
            xy=np.array([point.xy for point in seen]).reshape(-1, 2),
            points=np.array([point.point3D_id for point in seen], np.int64),
            ptr=np.cumsum([0, *map(len, lists)]),
            at=NOWHERE,
            rows_at=NOWHERE,
        )

    @cached_property
    def points(self) -> Points:
        points = list(self._theirs.points3D.items())
        return Points(
            ids=np.array([number for number, _ in points], np.int64),
            xyz=np.array([point.xyz for _, point in points]).reshape(-1, 3),
            colours=np.array([point.color for _, point in points], np.uint8).reshape(-1, 3),
            errors=np.array([point.error for _, point in points]),
            tracks=np.array([point.track.length() for _, point in points], np.int64),
            at=NOWHERE,
        )

    @cached_property
    def camera_by_id(self) -> dict[int, Camera]:
        return {
            number: Camera(number, camera.model.name, camera.width, camera.height, camera.params)
            for number, camera in self._theirs.cameras.items()
        }

    @cached_property
    def rigs(self) -> list[Rig]:
        kind = pycolmap().SensorType.CAMERA
        return [
            Rig(
                number,
                rig.ref_sensor_id.id if rig.ref_sensor_id.type == kind else None,
                {
                    sensor.id: None if pose is None else _pose(pose)
                    for sensor, pose in rig.non_ref_sensors.items()
                    if sensor.type == kind
                },
            )
            for number, rig in self._theirs.rigs.items()
        ]

    @cached_property
    def frames(self) -> Frames:
        kind = pycolmap().SensorType.CAMERA
        frames = sorted(self._theirs.frames.items())
        return Frames(
            ids=np.array([number for number, _ in frames], np.int64),
            rigs=np.array([frame.rig_id for _, frame in frames], np.int64),
            poses=np.array(
                [
                    _pose(frame.rig_from_world) if frame.has_pose() else np.full(7, np.nan)
                    for _, frame in frames
                ]
            ).reshape(-1, 7),
            images=[
                [(d.sensor_id.id, d.id) for d in frame.data_ids if d.sensor_id.type == kind]
                for _, frame in frames
            ],
            at=NOWHERE,
        )


def _pose(rigid: Any) -> Floats:
    """Quaternion, w first, and translation, (7,)."""
    x, y, z, w = rigid.rotation.quat
    return np.array([w, x, y, z, *rigid.translation])


def _rigid(pose: Floats) -> Any:
    colmap = pycolmap()
    return colmap.Rigid3d(colmap.Rotation3d(np.roll(pose[:4], -1)), pose[4:])
