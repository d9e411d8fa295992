"""From a COLMAP model to a problem.

What a solve needs of the files is small: poses, cameras, points, and which 2D points see them. In
`problem.info` stays what it takes to find where results belong:

    colmap       {"path", "kind", "rigs"}: the folder, and how it was read
    registered   (C,) row in images of each camera's image, of `cameras_in_file`
    keys         (K,) number of each observation's 2D point in its image
    image_ids, camera_ids, point3D_ids   COLMAP's, of images (C,), cameras (N,) and points (P,)
    colors, images   colours of points and names of images
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from daba.core.camera_models import MODELS, PARAMETERS
from daba.core.errors import DabaError
from daba.io.colmap.model import Model, Origin, resolved
from daba.io.colmap.parts import Camera, Parts
from daba.io.colmap.poses import from_colmap
from daba.io.colmap.rigs import image_poses, links
from daba.io.files import PathLike
from daba.problem.optics import Optics
from daba.problem.problem import Floats, Ints, Problem

Rigs = Literal["keep", "free"]


def load(path: PathLike, rigs: Rigs = "keep") -> Problem:
    """Read a folder with a COLMAP model.

    rigs   "keep" keeps images of one frame of a rig where they are relative to each other; "free"
           takes each image for itself, and a model that is written from the solution has no rigs
           any more
    """
    model = Model(path)
    about = {"path": resolved(path), "kind": model.kind, "rigs": rigs}
    try:
        problem = problem_of(model, name_of(path), about)
        problem.info["colmap"] = Origin(about, model)
        return problem
    except DabaError as error:
        where = str(model.folder)
        raise (error if where in str(error) else DabaError(f"{path}: {error}")) from error


def problem_of(model: Parts, name: str, about: dict[str, str]) -> Problem:
    """The problem that a model describes; what `about` says is kept with it."""
    if about["rigs"] not in ("keep", "free"):
        raise DabaError(f"rigs must be 'keep' or 'free', not {about['rigs']!r}")
    tied = links(model)
    poses = image_poses(model, tied)
    registered = np.flatnonzero(np.isfinite(poses).all(axis=1))
    _check_content(model, registered)
    row, image, point = observations(model, registered)
    cameras, camera = used_cameras(model, registered)
    R, centers = from_colmap(poses[registered])
    at = np.hstack([R.reshape(-1, 9), centers])
    optics = optics_of(cameras, camera, model.images.xy[row])
    if about["rigs"] == "keep" and tied is not None:
        optics = tied.with_rigs(optics, registered)
        at = optics.image_poses() if optics.rigs else at
    images = model.images
    info: dict[str, Any] = {
        "source": name,
        "colmap": about,
        "registered": registered,
        "cameras_in_file": len(images.ids),
        "keys": (row - images.ptr[registered[image]]).astype(np.int32),
        "image_ids": images.ids[registered],
        "camera_ids": np.array([camera.id for camera in cameras]),
        "point3D_ids": model.points.ids,
        "colors": model.points.colours,
        "images": images.names,
    }
    return Problem.from_optics(
        optics,
        at,
        model.points.xyz.copy(),
        camera_index=image,
        point_index=point,
        name=name,
        info=info,
        shared=camera,
    ).validated()


def optics_of(cameras: list[Camera], camera: Ints, pixels: Floats) -> Optics:
    """The optics of images with these cameras (N), and which each has, (C,); COLMAP's defaults say
    what is refined."""
    params = np.zeros((len(cameras), PARAMETERS))
    for row, one in zip(params, cameras, strict=True):
        row[: len(one.params)] = one.params
    model = np.array([MODELS[one.model].id for one in cameras], np.int32)
    return Optics(camera, model, params, np.zeros(params.shape, bool), pixels).with_refined()


def observations(model: Parts, registered: np.ndarray) -> tuple[np.ndarray, Ints, Ints]:
    """Row in images of each 2D point that sees a 3D point, number of its image among the
    registered, and of its point."""
    images, points = model.images, model.points
    sees = images.points >= 0
    row = np.flatnonzero(sees)
    number = np.full(len(images.ids), -1, np.int32)
    number[registered] = np.arange(len(registered))
    where = np.repeat(np.arange(len(images.ids)), np.diff(images.ptr))[row]
    image = number[where]
    if (image < 0).any():
        bad = where[np.flatnonzero(image < 0)[0]]
        raise DabaError(
            f"{model.where('images')}: image {images.ids[bad]} ({images.names[bad]}) sees 3D "
            "points but has no pose"
        )
    seen = images.points[row]
    point = _numbers_of(points.ids, seen)
    wrong = np.flatnonzero(points.ids[point] != seen)
    if len(wrong):
        bad = where[wrong[0]]
        raise DabaError(
            f"{model.where('images')}: image {images.ids[bad]} ({images.names[bad]}) sees 3D point "
            f"{seen[wrong[0]]}, which {model.where('points3D')} does not have"
        )
    return row, image, point


def _numbers_of(ids: np.ndarray, wanted: np.ndarray) -> Ints:
    """Where ids are that are wanted; anywhere if they are not there."""
    most = int(ids.max())
    if most < 4 * len(ids) + len(wanted):  # a table is quicker than a search
        table = np.zeros(most + 1, np.int32)
        table[ids] = np.arange(len(ids), dtype=np.int32)
        return table[np.minimum(wanted, most)]
    order = np.argsort(ids)
    found = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(order) - 1)
    return order[found].astype(np.int32)


def used_cameras(model: Parts, registered: np.ndarray) -> tuple[list[Camera], Ints]:
    """The cameras of registered images, and which of them each image has."""
    ids, shared = np.unique(model.images.camera_ids[registered], return_inverse=True)
    missing = [number for number in ids.tolist() if number not in model.camera_by_id]
    if missing:
        raise DabaError(
            f"{model.where('images')}: an image has camera {missing[0]}, which "
            f"{model.where('cameras')} does not have"
        )
    return [model.camera_by_id[number] for number in ids.tolist()], shared.astype(np.int32)


def name_of(path: PathLike) -> str:
    """'sparse/0' of a folder of reconstructions, else the folder's own name."""
    folder = Path(resolved(path))
    return f"{folder.parent.name}/{folder.name}" if folder.name.isdigit() else folder.name


def _check_content(model: Parts, registered: np.ndarray) -> None:
    if not len(registered):
        raise DabaError(f"{model.folder}: no image of this model has a pose")
    if not len(model.points.ids):
        raise DabaError(
            f"{model.folder}: this model has no 3D points, so there is nothing to adjust"
        )
    if (worst := int(model.points.ids.min())) < 0:
        raise DabaError(f"{model.where('points3D')}: {worst} is no id of a 3D point")
    seen, tracks = int((model.images.points >= 0).sum()), int(model.points.tracks.sum())
    if not seen:
        raise DabaError(f"{model.folder}: no image of this model sees a 3D point")
    if seen != tracks:
        raise DabaError(
            f"{model.folder}: the model contradicts itself: its images see 3D points {seen} times, "
            f"the tracks of its points say {tracks}"
        )
