"""A problem for the pixel error, image by image: all that its frame, camera and sensor are, in one
row of numbers, so that a process needs nothing but the rows of its own images.

Rows take the place of camera records, and pixels the place of rays; everything that lays out,
scatters, stores and gathers problems works on them as it does on records.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from daba.core.camera_models import BUNDLER, MODELS, PARAMETERS
from daba.problem.optics import IDENTITY, Optics, compose

if TYPE_CHECKING:
    from daba.problem.constraints import Constraints
    from daba.problem.problem import Floats

POSE = slice(0, 12)
"""R, row by row, and centre of the image's frame, rig to world."""
PARAMS = slice(12, 12 + PARAMETERS)
"""Parameters of its camera, in COLMAP's order."""
MODEL = PARAMS.stop
"""COLMAP's number of the camera's model, or that of Bundler's."""
CAMERA = MODEL + 1
FRAME = MODEL + 2
SENSOR = MODEL + 3
"""Numbers of its camera, frame and sensor in the whole problem."""
REFINED = MODEL + 4
"""Which parameters may change: bit n says it of parameter n."""
MOVES = MODEL + 5
"""Whether the sensor may move in its rig."""
PLACE = slice(MODEL + 6, MODEL + 18)
"""R and centre of the sensor, camera to rig."""
WIDTH = PLACE.stop

BITS = 2.0 ** np.arange(PARAMETERS)


def of_focal_lengths(constraints: Constraints | None, d1: Floats) -> Constraints | None:
    """With priors of d, of which d1 scales the focal length, as priors of that: targets are shares
    of what it is at the start, where the cameras have `d1`. Of d2 and d3 pixels know nothing."""
    priors = None if constraints is None else constraints.priors
    if constraints is None or priors is None or not len(priors.intrinsics):
        return constraints
    of = priors.intrinsics
    start = d1[of.index]
    target, information = np.zeros_like(of.target), np.zeros_like(of.information)
    target[:, 0] = of.target[:, 0] / start
    information[:, 0, 0] = of.information[:, 0, 0] * start**2
    shares = replace(of, target=target, information=information)
    return replace(constraints, priors=replace(priors, intrinsics=shares))


def image_rows(optics: Optics, poses: Floats, image: np.ndarray | slice = slice(None)) -> Floats:
    """Of some images, (n, WIDTH), given the poses (n, 12) of those that have no rig."""
    camera = optics.camera[image]
    rows = np.zeros((len(camera), WIDTH))
    rows[:, PARAMS] = optics.params[camera]
    rows[:, MODEL] = BUNDLER.id if optics.bundler else optics.model[camera]
    rows[:, CAMERA], rows[:, REFINED] = camera, optics.refined[camera] @ BITS
    if optics.frame is None:
        rows[:, POSE], rows[:, PLACE] = poses, IDENTITY
        rows[:, FRAME] = np.arange(len(optics.camera))[image]
        return rows
    frame, sensor = optics.frame[image], optics.sensor[image]  # type: ignore[index]
    rows[:, POSE], rows[:, FRAME] = optics.frames[frame], frame  # type: ignore[index]
    rows[:, SENSOR], rows[:, PLACE] = sensor, optics.sensors[sensor]  # type: ignore[index]
    rows[:, MOVES] = optics.refined_sensors[sensor]  # type: ignore[index]
    return rows


def optics_of(optics: Optics, rows: Floats, image: np.ndarray | slice = slice(None)) -> Optics:
    """Optics with what the rows of some images say."""
    params = optics.params.copy()
    params[optics.camera[image]] = rows[:, PARAMS]
    if optics.frame is None:
        return replace(optics, params=params)
    frames, sensors = optics.frames.copy(), optics.sensors.copy()  # type: ignore[union-attr]
    frames[optics.frame[image]] = rows[:, POSE]
    sensors[optics.sensor[image]] = rows[:, PLACE]  # type: ignore[index]
    return replace(optics, params=params, frames=frames, sensors=sensors)


def images_alone(rows: Floats, pixels: Floats) -> Optics:
    """Optics of the images of some rows, each with a camera and a place of its own, and of the
    pixels that they observe."""
    bundler = bool(len(rows)) and rows[0, MODEL] == BUNDLER.id
    model = np.full(len(rows), MODELS["RADIAL"].id) if bundler else rows[:, MODEL]
    return Optics(
        camera=np.arange(len(rows), dtype=np.int32),
        model=model.astype(np.int32),
        params=np.ascontiguousarray(rows[:, PARAMS]),
        refined=refined(rows),
        pixels=pixels,
        bundler=bundler,
    )


def poses(rows: Floats) -> Floats:
    """R and centre of each image, camera to world, (n, 12)."""
    moved = np.flatnonzero(rows[:, SENSOR] > 0)
    out = rows[:, POSE].copy()
    out[moved] = compose(rows[moved, POSE], rows[moved, PLACE])
    return out


def refined(rows: Floats) -> np.ndarray:
    """Which parameters of each image's camera may change, (n, PARAMETERS)."""
    return (rows[:, REFINED, None].astype(np.int64) >> np.arange(PARAMETERS)) & 1 == 1
