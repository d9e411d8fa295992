"""From a COLMAP model to a problem.

What a solve needs of the files is small: poses, intrinsics, points, and which 2D points see them.
In `problem.info` stays what it takes to find where results belong:

    colmap       {"path", "kind", "rigs"}: the folder, and how it was read
    registered   (C,) row in images of each camera's image, of `cameras_in_file`
    keys         (K,) number of each observation's 2D point in its image
    lens_ids     (G,) COLMAP's id of each group of cameras (`problem.shared`)
    lens, lens_rays  (G,6) and (G,3): the lenses with which u was made, and their d
    colors, images   colours of points and names of images
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.io.colmap import optics
from daba.io.colmap.model import Model, resolved
from daba.io.colmap.parts import Camera
from daba.io.colmap.poses import from_colmap
from daba.io.colmap.rigs import image_poses
from daba.io.files import PathLike
from daba.io.info import own_errors
from daba.problem.problem import Ints, Problem, camera_records

Rigs = Literal["keep", "free"]


def load(path: PathLike, rigs: Rigs = "keep") -> Problem:
    """Read a folder with a COLMAP model.

    rigs   "keep" refuses a model in which several images have the pose of one rig, since a solve
           would move them apart; "free" takes each image for itself, and a model that is written
           from the solution has no rigs any more
    """
    model = Model(path)
    poses = image_poses(model, rigs)
    registered = np.flatnonzero(np.isfinite(poses).all(axis=1))
    _check_content(model, registered)
    row, image, point = observations(model, registered)
    cameras, shared = used_cameras(model, registered)
    lenses = np.array([optics.lens(camera) for camera in cameras])
    with np.errstate(all="ignore"):
        found = optics.rays(cameras, lenses, shared[image], model.images.xy[row])
    seen = np.isfinite(found.u).all(axis=1) & np.isfinite(found.weights)
    if not seen.all():
        _warn_of_unseen(model, registered[image[np.flatnonzero(~seen)[0]]], int((~seen).sum()))
    R, centers = from_colmap(poses[registered])
    images = model.images
    info: dict[str, Any] = {
        "source": Path(path).name,
        "colmap": {"path": resolved(path), "kind": model.kind, "rigs": rigs},
        "registered": registered,
        "cameras_in_file": len(images.ids),
        "keys": (row - images.ptr[registered[image]])[seen].astype(np.int32),
        "lens_ids": np.array([camera.id for camera in cameras]),
        "lens": lenses,
        "lens_rays": found.d,
        "colors": model.points.colours,
        "images": images.names,
        "intrinsics_fit": found.fit,
    }
    free = np.ones((len(registered), 9), bool)
    fixed = (False, False, False)
    free[:, 6:] = np.array([optics.NATIVE.get(camera.model, fixed) for camera in cameras])[shared]
    try:
        return Problem(
            cameras=camera_records(R, centers, found.d[shared]),
            points=model.points.xyz.copy(),
            camera_index=image[seen],
            point_index=point[seen],
            u=np.ascontiguousarray(found.u[seen]),
            weights=found.weights[seen],
            focal=found.focal[shared],
            name=name_of(path),
            info=info,
            shared=shared,
            free_cameras=free,
            own_errors=own_errors(info),
        ).validated()
    except DabaError as error:
        raise DabaError(f"{path}: {error}") from error


def observations(model: Model, registered: np.ndarray) -> tuple[np.ndarray, Ints, Ints]:
    """Row in images of each 2D point that sees a 3D point, number of its image among the
    registered, and of its point."""
    images, points = model.images, model.points
    row = np.flatnonzero(images.points >= 0)
    number = np.full(len(images.ids), -1, np.int32)
    number[registered] = np.arange(len(registered))
    where = np.searchsorted(images.ptr, row, side="right") - 1
    image = number[where]
    if (image < 0).any():
        bad = where[np.flatnonzero(image < 0)[0]]
        raise DabaError(
            f"{model.path('images')}: image {images.ids[bad]} ({images.names[bad]}) sees 3D points "
            "but has no pose"
        )
    order = np.argsort(points.ids)
    found_at = np.minimum(
        np.searchsorted(points.ids, images.points[row], sorter=order), len(order) - 1
    )
    point = order[found_at].astype(np.int32)
    wrong = np.flatnonzero(points.ids[point] != images.points[row])
    if len(wrong):
        bad = where[wrong[0]]
        raise DabaError(
            f"{model.path('images')}: image {images.ids[bad]} ({images.names[bad]}) sees 3D point "
            f"{images.points[row[wrong[0]]]}, which {model.path('points3D').name} does not have"
        )
    return row, image, point


def used_cameras(model: Model, registered: np.ndarray) -> tuple[list[Camera], Ints]:
    """The cameras of registered images, and which of them each image has."""
    ids, shared = np.unique(model.images.camera_ids[registered], return_inverse=True)
    missing = [number for number in ids.tolist() if number not in model.camera_by_id]
    if missing:
        raise DabaError(
            f"{model.path('images')}: an image has camera {missing[0]}, which "
            f"{model.path('cameras').name} does not have"
        )
    return [model.camera_by_id[number] for number in ids.tolist()], shared.astype(np.int32)


def name_of(path: PathLike) -> str:
    """'sparse/0' of a folder of reconstructions, else the folder's own name."""
    folder = Path(resolved(path))
    return f"{folder.parent.name}/{folder.name}" if folder.name.isdigit() else folder.name


def _check_content(model: Model, registered: np.ndarray) -> None:
    if not len(registered):
        raise DabaError(f"{model.folder}: no image of this model has a pose")
    if not len(model.points.ids):
        raise DabaError(
            f"{model.folder}: this model has no 3D points, so there is nothing to adjust"
        )
    seen, tracks = int((model.images.points >= 0).sum()), int(model.points.tracks.sum())
    if not seen:
        raise DabaError(f"{model.folder}: no image of this model sees a 3D point")
    if seen != tracks:
        raise DabaError(
            f"{model.folder}: the model contradicts itself: its images see 3D points {seen} times, "
            f"the tracks of its points say {tracks}"
        )


def _warn_of_unseen(model: Model, row: int, count: int) -> None:
    images = model.images
    warnings.warn(
        f"{model.folder}: {count} observations are left out, because no ray has its image there "
        f"(the first in image {images.ids[row]}, {images.names[row]}); they stay in the model",
        DabaWarning,
        stacklevel=3,
    )
