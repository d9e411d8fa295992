"""A solution in COLMAP's own terms: parameters, poses, points and errors, for the model that the
problem was read from. What a solve has not touched is as it was in the files, to the last bit."""

from __future__ import annotations

import numpy as np

from daba.core.camera_models import MODELS
from daba.core.errors import DabaError
from daba.core.types import distinct
from daba.io.colmap.model import Model, Origin
from daba.io.colmap.parts import Edits, Parts
from daba.io.colmap.rigs import Links, frame_poses, image_poses, links, with_moved
from daba.problem.optics import Optics
from daba.problem.pixel_errors import point_errors
from daba.problem.problem import Floats, Problem


def is_colmap(problem: Problem) -> bool:
    """Whether a problem was read from a COLMAP model."""
    return "colmap" in problem.info


def model_of(problem: Problem) -> Model:
    """The model that a problem was read from, if it is still there."""
    about = problem.info["colmap"]
    model = (about if isinstance(about, Origin) else Origin(about)).model()
    check_same(problem, model, model.folder)
    return model


def check_same(problem: Problem, model: Parts, what: object) -> None:
    """Raise `DabaError` if the problem was read from something else."""
    info = problem.info
    registered = np.asarray(info["registered"])
    same = (
        len(model.images.ids) == info["cameras_in_file"]
        and np.array_equal(model.images.ids[registered], info["image_ids"])
        and np.array_equal(model.points.ids, info["point3D_ids"])
        and all(int(number) in model.camera_by_id for number in info["camera_ids"])
    )
    if not same:
        raise DabaError(f"{what} is not the model any more that '{problem.name}' came from")


def edits_of(problem: Problem, model: Parts) -> Edits:
    """What is to be written."""
    registered = np.asarray(problem.info["registered"])
    tied = links(model)
    start = image_poses(model, tied)
    poses = model.images.poses.copy()
    optics, frames = problem.optics, None
    sensors: dict[tuple[int, int], Floats] = {}
    if tied is None or problem.info["colmap"]["rigs"] == "free" or not optics.rigs:
        new = with_moved(start[registered], problem.poses)
        moved = (new != start[registered]).any(axis=1)
        poses[registered[moved]] = new[moved]
        if tied is not None and problem.info["colmap"]["rigs"] == "keep":
            changed = np.zeros(len(poses), bool)
            changed[registered[moved]] = True
            frames = frame_poses(tied, poses, changed)
    else:
        frames, sensors = _moved_rigs(tied, optics, registered)
        new = _poses_in_rigs(model, tied, frames, sensors)
        moved = (new != start).any(axis=1) & np.isfinite(new).all(axis=1)
        poses[moved] = new[moved]
    dropped = _dropped(problem, model, registered)
    seen = np.bincount(problem.point_index, minlength=problem.num_points) > 0
    return Edits(
        params=_params(problem, model),
        poses=poses,
        frames=frames,
        sensors=sensors,
        xyz=problem.points,
        errors=point_errors(problem),
        dropped=dropped,
        removed=(model.points.tracks > 0) & ~seen,
    )


def _moved_rigs(
    tied: Links, optics: Optics, registered: np.ndarray
) -> tuple[Floats, dict[tuple[int, int], Floats]]:
    """New poses of all frames, and of sensors that have moved."""
    assert optics.frame is not None
    assert optics.frames is not None
    assert optics.sensors is not None
    number = distinct(tied.of_images(registered)[0])
    frames = tied.frames.copy()
    frames[number] = with_moved(frames[number], optics.frames)
    places = with_moved(tied.poses, optics.sensors)
    moved = (places != tied.poses).any(axis=1)
    sensors = {key: places[n] for n, key in enumerate(tied.keys, start=1) if moved[n]}
    return frames, sensors


def _poses_in_rigs(
    model: Parts, tied: Links, frames: Floats, sensors: dict[tuple[int, int], Floats]
) -> Floats:
    places = tied.poses.copy()
    for n, key in enumerate(tied.keys, start=1):
        places[n] = sensors.get(key, places[n])
    there = Links(tied.frame, tied.image, tied.sensor, tied.keys, places, frames)
    return image_poses(model, there)


def _params(problem: Problem, model: Parts) -> dict[int, Floats]:
    """New parameters of cameras, by their ids."""
    optics, ids = problem.optics, model.images.camera_ids[problem.info["registered"]]
    found: dict[int, Floats] = {}
    for number, image in zip(*np.unique(ids, return_index=True), strict=True):
        row = optics.params[optics.camera[image]]
        if (optics.params[optics.camera[ids == number]] != row).any():
            raise DabaError(
                f"images that have camera {number} in {model.folder} have different intrinsics "
                "now, which a COLMAP model cannot express"
            )
        camera = model.camera_by_id[int(number)]
        new = row[: MODELS[camera.model].count]
        if not np.array_equal(new, camera.params):
            found[int(number)] = new
    return found


def _dropped(problem: Problem, model: Parts, registered: np.ndarray) -> np.ndarray:
    """Which 2D points of the model have lost their 3D point, (N,)."""
    lost = np.zeros(len(model.images.points), bool)
    gone = np.asarray(problem.info.get("dropped", np.empty((0, 2), np.int64)))
    lost[model.images.ptr[registered[gone[:, 0]]] + gone[:, 1]] = True
    return lost
