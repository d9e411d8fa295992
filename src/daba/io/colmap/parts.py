"""What the files of a COLMAP model hold, as arrays; `binary` and `text` read and rewrite them.

Files are never written from these arrays alone: what is read here is little, and whatever else a
file holds stays in it because only the numbers that changed are replaced.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from daba.core import camera_models
from daba.problem.problem import Floats

Longs = np.ndarray
"""int64; COLMAP's ids."""

NO_POINT = -1
"""The id of the 3D point of a 2D point that has none."""

MODELS = {model.name: (model.id, model.count) for model in camera_models.MODELS.values()}
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


class Parts(Protocol):
    """All parts of a model, wherever they come from."""

    @property
    def folder(self) -> object:
        """What errors call the model."""

    @property
    def has_rigs(self) -> bool: ...
    @property
    def images(self) -> Images: ...
    @property
    def points(self) -> Points: ...
    @property
    def rigs(self) -> list[Rig]: ...
    @property
    def frames(self) -> Frames: ...
    @property
    def camera_by_id(self) -> dict[int, Camera]: ...

    def where(self, part: str) -> str:
        """What errors call a part of it."""


class Edits(NamedTuple):
    """What changes in a model; None is no change."""

    params: dict[int, Floats]
    """New parameters of cameras, by camera id."""
    poses: Floats
    """New poses of all images, (I,7)."""
    frames: Floats | None
    """New poses of all frames, (F,7)."""
    sensors: dict[tuple[int, int], Floats]
    """New poses (7,), rig to sensor, by rig id and camera id."""
    xyz: Floats
    errors: Floats
    dropped: np.ndarray
    """(N,) bool: 2D points that lose their 3D point."""
    removed: np.ndarray
    """(P,) bool: 3D points that are no more."""
