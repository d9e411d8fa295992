"""A shard of the ray error as Levenberg–Marquardt takes it: every camera is a frame, its intrinsics
are d."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from daba.core.lm import NO_PRIORS, ROW, Kind, Loss
from daba.core.types import Known
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_shard import NO_IMAGE_PRIORS, ImagePriors, LmInput
from daba.distributed.shard import Shard

if TYPE_CHECKING:
    from daba.problem.priors import Targets


def ray_input(shard: Shard, comm: Communicator) -> LmInput:
    """Cameras that share d share a camera; what is fixed is fixed."""
    C, asked = shard.num_cameras, shard.constraints
    cameras = shard.start.cameras[:C]
    free = np.ones((C, 9), bool)
    group = None
    if asked is not None:
        free = free if asked.free_cameras is None else asked.free_cameras
        group = asked.shared
    camera = np.full(C, -1, np.int32)
    common = np.empty((0, 7))
    if comm.any(group is not None):
        common, camera = _shared_groups(group, cameras, free, comm)
    refined = comm.any(bool(free[:, 6:].any()))
    private = comm.any(bool((camera < 0).any()))
    own = 3 if refined and private else 0
    kind = Kind("ray", own=own, shared=3 if refined and len(common) else 0)
    fixed = ~free[:, : kind.block]
    fixed[camera >= 0, 6:] = True  # they move with those they share them with
    params = np.zeros((C, ROW)) if private else np.zeros((0, ROW))
    if private:
        params[:, :3] = cameras[:, 12:]
    shared_params = np.zeros((len(common), ROW))
    shared_params[:, :3] = common[:, 1:4]
    return LmInput(
        kind=kind,
        frame=np.arange(C, dtype=np.int32),
        poses=cameras[:, :12],
        sensor=np.zeros(C, np.int32),
        camera=camera,
        params=params,
        fixed=fixed if comm.any(bool(fixed.any())) else np.zeros((0, kind.block), bool),
        shared_params=shared_params,
        shared_free=common[:, 4 : 4 + kind.shared] > 0,
        sensors=np.zeros((1, 12)),
        free_sensors=np.zeros(1, bool),
        fixed_points=fixed_points(shard),
        point_priors=point_priors(shard),
        centre_priors=image_priors(shard, "positions"),
        parameter_priors=image_priors(shard, "intrinsics") if refined else NO_IMAGE_PRIORS,
    )


def _shared_groups(
    group: np.ndarray | None, cameras: np.ndarray, free: np.ndarray, comm: Communicator
) -> tuple[np.ndarray, np.ndarray]:
    """Of each group with several cameras, anywhere: its number, d, and which of d may change; and
    which of these groups each camera here is of, −1 for none."""
    rows = np.empty((0, 8))
    if group is not None:
        number, first, count = np.unique(group, return_index=True, return_counts=True)
        rows = np.column_stack([number, cameras[first, 12:], free[first, 6:], count])
    told = comm.collect(rows)
    common = None
    if comm.rank == 0:
        every = np.concatenate(told)
        number, first, of = np.unique(every[:, 0], return_index=True, return_inverse=True)
        several = np.bincount(of, every[:, 7]) > 1
        common = every[first[several], :7]
    common = np.asarray(comm.broadcast(common))
    camera = np.full(len(cameras), -1, np.int32)
    if group is not None and len(common):
        at = np.minimum(np.searchsorted(common[:, 0], group), len(common) - 1)
        camera = np.where(common[at, 0] == group, at, -1).astype(np.int32)
    return common, camera


def fixed_points(shard: Shard) -> np.ndarray:
    asked = shard.constraints
    if asked is None or asked.free_points is None:
        return np.empty(0, bool)
    return ~asked.free_points


def image_priors(shard: Shard, what: Literal["positions", "intrinsics"]) -> ImagePriors:
    """Those of one kind of the cameras owned here."""
    if shard.constraints is None or (priors := shard.constraints.priors) is None:
        return NO_IMAGE_PRIORS
    targets: Targets = getattr(priors, what)
    loss = Loss(targets.loss.kind, float(targets.loss.radius))
    return ImagePriors(targets.index, targets.target, targets.information, loss)


def point_priors(shard: Shard) -> Known:
    """Those of the points owned here."""
    if shard.constraints is None or (priors := shard.constraints.priors) is None:
        return NO_PRIORS
    targets = priors.points
    if not len(targets):
        return NO_PRIORS
    row = np.full(shard.num_points, -1, np.int32)
    row[targets.index] = np.arange(len(targets), dtype=np.int32)
    loss = targets.loss
    return Known(row, targets.target, targets.information, loss.kind, float(loss.radius))
