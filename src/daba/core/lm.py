"""What Levenberg–Marquardt works on, in bundles of arrays that every backend's kernels read.

Words are COLMAP's: a *frame* is a rig at one moment and has a pose; an *image* is of one frame,
taken by one *camera* that sits on one *sensor* of the rig. Where there are no rigs, every image is
a frame. Arrays of frames and points have what a process owns first, and its ghosts behind.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np

from daba.core.camera_models import PARAMETERS
from daba.core.types import Blocks, Bools, Floats, Int32, Int64, Known, Mask, Matrix, Tasks, frozen

ROW = PARAMETERS + 1
"""Numbers of a camera: its parameters, and which of the kind's models it is."""
IndexMatrix = Annotated[Int32, 2]


@frozen
class Kind:
    """What kernels are compiled for. One of each that a problem needs is all there is."""

    error: Literal["ray", "pixel"]
    models: tuple[str, ...] = ()
    """In pixels: names of the camera models there are."""
    refined: tuple[tuple[int, ...], ...] = ()
    """Of each model the parameters that are refined."""
    own: int = 0
    """Intrinsics in a frame's own block: those of a camera that no other frame has."""
    shared: int = 0
    """Intrinsics of a camera that frames share."""
    sensors: Literal["none", "fixed", "refined"] = "none"

    @property
    def block(self) -> int:
        """B, the parameters of a frame's own block: ω, t, intrinsics."""
        return 6 + self.own

    @property
    def columns(self) -> int:
        """G, the shared parameters of an image: intrinsics, then ω and t of its sensor."""
        return self.shared + (6 if self.sensors == "refined" else 0)


class Estimate(NamedTuple):
    """x: what a solve moves."""

    frames: Matrix
    """R (rig to world, row by row) and centre t of each frame, (F, 12)."""
    sensors: Matrix
    """The same of each sensor in its rig, camera to rig, (·, 12)."""
    params: Matrix
    """Of each camera, (·, ROW): first those that belong to one frame, in the order of frames, if
    there are such; then those that are shared."""
    points: Matrix
    """(P, 3)."""

    def copy(self) -> Estimate:
        return Estimate(*(a.copy() for a in self))


class Images(NamedTuple):
    """Which frame, sensor and camera an image is of."""

    frame_ptr: Int64
    """Images of frame i are frame_ptr[i] : frame_ptr[i+1]."""
    sensor: Int32
    camera: Int32
    group: Int32
    """Images of a group have the same shared parameters."""
    index: IndexMatrix  # type: ignore[assignment]
    """Number of each shared parameter of a group among all, −1 for none, (groups, G)."""


class Observations(NamedTuple):
    """Sorted by point; those of one point in the order of frames over all devices."""

    frame: Int32
    image: Int32
    point: Int32
    xy: Matrix
    weight: Floats
    """ω; 0 for one that does not count."""
    point_ptr: Int64
    """Observations of point j, owned or ghost, are point_ptr[j] : point_ptr[j+1]."""
    frame_ptr: Int64
    frame_obs: Int32
    """Observations of frame i are frame_obs[frame_ptr[i] : frame_ptr[i+1]], in the order of points
    over all devices."""
    run_begin: Int32
    run_end: Int32
    """Of each observation, those of the same point by frames of the same cluster."""
    own_begin: Int64
    own_end: Int64
    """Of each own point, its observations by frames of its own device."""
    inter_ptr: Int64
    inter_obs: Int32
    """As frame_ptr and frame_obs, of observations whose points are of another device."""


class Buffers(NamedTuple):
    """Room for what the tasks of points add to the frames of their devices."""

    ptr: Int64
    """Rows of task t are ptr[t] : ptr[t+1], one for each frame of its device."""
    first: Int64
    """First frame of each task's device."""


class Loss(NamedTuple):
    """A robust loss as kernels take it."""

    kind: int
    radius: float


NO_PRIORS = Known(np.empty(0, np.int32), np.empty((0, 3)), np.empty((0, 3, 3)), 0, 1.0)


class CoarseBlocks(NamedTuple):
    """Which blocks of the coarse space see each point: clusters of frames, groups of images."""

    ptr: Int64
    """Entries of point j are ptr[j] : ptr[j+1]."""
    block: Int32
    local: Int32
    """The entry's block as the point's device numbers those that its points see."""
    at_cluster: Int32
    at_group: Int32
    """Entry that each observation adds to; empty without clusters, or without groups."""
    pair: Annotated[Int32, 3]
    """Number of each pair of blocks (q ≥ r) of a device that see a common point, −1 for none."""


class Plan(NamedTuple):
    """Where the blocks of S between frames of one cluster go, and in which order tiles are
    factored."""

    size: int
    """Frames on the side of a tile."""
    place: Int32
    """Row of each frame, counted in frames."""
    frame_at: Int32
    """Frame at each row, −1 for padding."""
    share_row: Int64
    """Rows of each share of the work, counted in frames."""
    share_ptr: Int64
    share_obs: Int32
    """Observations of each share, in the order of points."""
    tile: IndexMatrix
    """Index of tile (i, first[i] + j), −1 where S and its factor are zero."""
    first: Int32
    """First tile of the cluster of each tile."""
    cluster_ptr: Int64
    """Tiles of cluster c are cluster_ptr[c] : cluster_ptr[c+1]."""
    level_ptr: Int64
    level_row: Int32
    level_col: Int32
    row_ptr: Int64
    row_col: Int32
    """Columns k < j of the nonzero tiles of row j."""


__all__ = [
    "NO_PRIORS", "ROW", "Annotated", "Blocks", "Bools", "Buffers", "CoarseBlocks",
    "Estimate", "Floats", "Images",
    "Int32", "Int64", "Kind", "Known", "Loss", "Mask", "Matrix", "Observations", "Plan", "Tasks",
]  # fmt: skip
