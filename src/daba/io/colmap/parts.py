"""What the files of a COLMAP model hold, as arrays; `binary` and `text` read and rewrite them.

Files are never written from these arrays alone: what is read here is little, and whatever else a
file holds stays in it because only the numbers that changed are replaced.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daba.problem.problem import Floats

Longs = np.ndarray
"""int64; COLMAP's ids."""

NO_POINT = -1
"""The id of the 3D point of a 2D point that has none."""

MODELS = {
    "SIMPLE_PINHOLE": (0, 3),
    "PINHOLE": (1, 4),
    "SIMPLE_RADIAL": (2, 4),
    "RADIAL": (3, 5),
    "OPENCV": (4, 8),
    "OPENCV_FISHEYE": (5, 8),
    "FULL_OPENCV": (6, 12),
    "FOV": (7, 5),
    "SIMPLE_RADIAL_FISHEYE": (8, 4),
    "RADIAL_FISHEYE": (9, 5),
    "THIN_PRISM_FISHEYE": (10, 12),
    "RAD_TAN_THIN_PRISM_FISHEYE": (11, 16),
    "SIMPLE_DIVISION": (12, 4),
    "DIVISION": (13, 5),
    "SIMPLE_FISHEYE": (14, 3),
    "FISHEYE": (15, 4),
    "EUCM": (16, 6),
    "EQUIRECTANGULAR": (17, 2),
}
"""Number of each camera model in binary files, and of its parameters."""


class Camera(NamedTuple):
    """One set of intrinsics, shared by any number of images."""

    id: int
    model: str
    width: int
    height: int
    params: Floats


class Cameras(NamedTuple):
    all: list[Camera]
    at: Longs
    """Where each one's parameters are: byte or line, as in the other parts."""


class Images(NamedTuple):
    """Images, and the 2D points of all of them one after the other."""

    ids: Longs
    poses: Floats
    """(I,7): quaternion w x y z and translation, world to camera; NaN without a pose."""
    camera_ids: Longs
    names: list[str]
    xy: Floats
    """(N,2), pixels."""
    points: Longs
    """(N,), the 3D point's id or NO_POINT."""
    ptr: Longs
    """(I+1,), where the 2D points of each image begin."""
    at: Longs
    rows_at: Longs
    """Where the 2D points of each image are."""


class Points(NamedTuple):
    ids: Longs
    xyz: Floats
    colours: np.ndarray
    """(P,3), 0 to 255."""
    errors: Floats
    tracks: Longs
    """Length of each track."""
    at: Longs


class Frames(NamedTuple):
    """Poses of rigs; the images taken at one moment have one frame."""

    ids: Longs
    rigs: Longs
    poses: Floats
    """(F,7), world to rig."""
    images: list[list[tuple[int, int]]]
    """(camera id, image id) of each image of a frame."""
    at: Longs


class Rig(NamedTuple):
    """Sensors fixed to each other."""

    id: int
    reference: int | None
    """Camera id of the sensor that is the rig's own frame."""
    others: dict[int, Floats | None]
    """Camera id and pose (7,), rig to sensor, of the others."""


class Edits(NamedTuple):
    """What changes in a model; None is no change."""

    params: dict[int, Floats]
    """New parameters of cameras, by camera id."""
    poses: Floats
    """New poses of all images, (I,7)."""
    frames: Floats | None
    """New poses of all frames, (F,7)."""
    xyz: Floats
    errors: Floats
    dropped: np.ndarray
    """(N,) bool: 2D points that lose their 3D point."""
    removed: np.ndarray
    """(P,) bool: 3D points that are no more."""
