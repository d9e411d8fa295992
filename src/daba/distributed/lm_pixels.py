"""A shard of the pixel error as Levenberg–Marquardt takes it: its images' rows say what their
frames, cameras and sensors are (`problem/image_rows.py`)."""

from __future__ import annotations

import numpy as np

from daba.core.camera_models import BUNDLER, BY_ID, PARAMETERS, CameraModel
from daba.core.lm import ROW, Kind
from daba.core.types import Floats, Int32, frozen
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_rays import fixed_points, image_priors, point_priors
from daba.distributed.lm_shard import NO_IMAGE_PRIORS, ImagePriors, LmInput
from daba.distributed.shard import Shard
from daba.problem import image_rows as row


@frozen
class Tables:
    """What images have in common, the same on every process."""

    models: list[CameraModel]
    refined: tuple[tuple[int, ...], ...]
    """Of each model the parameters that any of its cameras refines."""
    number: Int32
    """Numbers of the cameras that several frames have, ascending; of all where none is refined."""
    params: Floats
    """Theirs, (·, ROW)."""
    free: np.ndarray
    """Which of their refined parameters may change, (·, width)."""
    alone: bool
    """Whether there are cameras of one frame only, as part of its block."""
    sensors: Floats
    moves: np.ndarray

    @property
    def width(self) -> int:
        return max(len(refined) for refined in self.refined)


def pixel_input(shard: Shard, comm: Communicator) -> LmInput:
    """A camera that one frame alone has is part of that frame's block; others are shared."""
    rows = shard.start.cameras[: shard.num_cameras]
    tables = _tables(rows, comm)
    kind = _kind(tables)
    begins = np.diff(rows[:, row.FRAME], prepend=-1.0) != 0
    frame = (np.cumsum(begins) - 1).astype(np.int32)
    number = rows[:, row.CAMERA].astype(np.int32)
    shared = np.full(len(rows), -1, np.int32)
    if len(tables.number):
        at = np.minimum(np.searchsorted(tables.number, number), len(tables.number) - 1)
        shared = np.where(tables.number[at] == number, at, -1).astype(np.int32)
    fixed = _fixed(shard, rows, frame, shared, tables, kind)
    own = _params(rows[begins], tables.models)
    return LmInput(
        kind=kind,
        frame=frame,
        poses=np.ascontiguousarray(rows[begins, row.POSE]),
        sensor=rows[:, row.SENSOR].astype(np.int32),
        camera=shared,
        params=own if kind.own else own[:0],
        fixed=fixed if comm.any(bool(fixed.any())) else fixed[:0],
        shared_params=tables.params,
        shared_free=tables.free[:, : kind.shared],
        sensors=tables.sensors,
        free_sensors=tables.moves,
        fixed_points=fixed_points(shard),
        point_priors=point_priors(shard),
        centre_priors=image_priors(shard, "positions"),
        parameter_priors=_focal_priors(shard, rows, tables, kind),
    )


def _kind(tables: Tables) -> Kind:
    width, rigs = tables.width, len(tables.sensors) > 1
    moving = bool(tables.moves.any())
    return Kind(
        "pixel",
        tuple(model.name for model in tables.models),
        tables.refined,
        own=width if tables.alone else 0,
        shared=width if len(tables.number) else 0,
        sensors="refined" if moving else "fixed" if rigs else "none",
    )


def _tables(rows: Floats, comm: Communicator) -> Tables:
    """Of the images of all processes."""
    _, first = np.unique(rows[:, [row.CAMERA, row.FRAME]], axis=0, return_index=True)
    _, seat = np.unique(rows[:, row.SENSOR], return_index=True)
    told = comm.collect((rows[first, : row.MOVES], rows[seat]))
    made = None
    if comm.rank == 0:
        cameras, sensors = (np.concatenate(part) for part in zip(*told, strict=True))
        made = _tables_of(cameras, sensors)
    found: Tables = comm.broadcast(made)
    return found


def _tables_of(cameras: Floats, sensors: Floats) -> Tables:
    """From one row for each frame and camera, and for each sensor (one or more)."""
    number, first, frames = np.unique(cameras[:, row.CAMERA], return_index=True, return_counts=True)
    one = cameras[first]
    may = row.refined(one)
    numbers, model = np.unique(one[:, row.MODEL], return_inverse=True)
    models = [BUNDLER if n == BUNDLER.id else BY_ID[int(n)] for n in numbers]
    refined = tuple(
        tuple(np.flatnonzero(may[model == m].any(axis=0)).tolist()) for m in range(len(models))
    )
    width = max(len(r) for r in refined)
    common = np.flatnonzero((frames > 1) | (width == 0))
    places, at = np.unique(sensors[:, row.SENSOR], return_index=True)
    place = np.tile(np.zeros(12), (int(places.max()) + 1, 1))
    moves = np.zeros(len(place), bool)
    place[places.astype(int)] = sensors[at, row.PLACE]
    moves[places.astype(int)] = sensors[at, row.MOVES] > 0
    return Tables(
        models, refined, number[common].astype(np.int32), _params(one[common], models),
        _free(may[common], model[common], refined, width), len(common) < len(frames), place, moves,
    )  # fmt: skip


def _params(rows: Floats, models: list[CameraModel]) -> Floats:
    """Cameras as kernels take them, (n, ROW)."""
    out = np.zeros((len(rows), ROW))
    out[:, :PARAMETERS] = rows[:, row.PARAMS]
    numbers = np.array([model.id for model in models])
    out[:, PARAMETERS] = np.searchsorted(numbers, rows[:, row.MODEL])
    return out


def _free(
    may: np.ndarray, model: np.ndarray, refined: tuple[tuple[int, ...], ...], width: int
) -> np.ndarray:
    """Which of the parameters that a model refines a camera may change, (n, width)."""
    free = np.zeros((len(may), width), bool)
    for m, parameters in enumerate(refined):
        of = np.flatnonzero(model == m)
        free[of[:, None], np.arange(len(parameters))] = may[of][:, list(parameters)]
    return free


def _fixed(
    shard: Shard, rows: Floats, frame: Int32, shared: Int32, tables: Tables, kind: Kind
) -> np.ndarray:
    """What of each frame's block stays."""
    fixed = np.zeros((int(frame[-1]) + 1 if len(frame) else 0, kind.block), bool)
    asked = shard.constraints
    if asked is not None and asked.free_cameras is not None:
        np.logical_or.at(fixed[:, :6], frame, ~asked.free_cameras[:, :6])
    if kind.own:
        fixed[:, 6:] = True
        mine = np.flatnonzero(shared < 0)
        model = _params(rows[mine], tables.models)[:, PARAMETERS].astype(int)
        free = _free(row.refined(rows[mine]), model, tables.refined, kind.own)
        fixed[frame[mine], 6:] = ~free
    return fixed


def _focal_priors(shard: Shard, rows: Floats, tables: Tables, kind: Kind) -> ImagePriors:
    """Of focal lengths, whose targets are given as shares of those at the start."""
    of_rays = image_priors(shard, "intrinsics")
    if not len(of_rays.image) or not tables.width:
        return NO_IMAGE_PRIORS
    image, width = of_rays.image, tables.width
    params = _params(rows[image], tables.models)
    target, information = np.zeros((len(image), width)), np.zeros((len(image), width, width))
    for m, refined in enumerate(tables.refined):
        of = np.flatnonzero(params[:, PARAMETERS] == m)
        for column, parameter in enumerate(refined):
            if parameter < tables.models[m].focals:
                f = params[of, parameter]
                target[of, column] = f * of_rays.target[of, 0]
                information[of, column, column] = of_rays.information[of, 0, 0] / f**2
    known = information.any(axis=(1, 2))
    return ImagePriors(image[known], target[known], information[known], of_rays.loss)
