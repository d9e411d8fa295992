"""Small problems that need everything that Levenberg–Marquardt can do, made with NumPy alone, and
each of its operations on a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scene_for_gpu import tiny_problem

import daba
from daba.core.camera_models import MODELS, PARAMETERS, project
from daba.core.lm import ROW, Kind, Loss
from daba.core.types import Known
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_shard import LmInput, LmShard, make_lm_shard
from daba.distributed.shard import Shard, make_shard
from daba.problem.optics import compose

CAMERAS = {
    "SIMPLE_RADIAL": [500.0, 320.0, 240.0, 0.05],
    "RADIAL": [500.0, 320.0, 240.0, -0.1, 0.02],
    "OPENCV_FISHEYE": [500.0, 510.0, 320.0, 240.0, 0.02, -0.01, 3e-3, -1e-3],
    "FOV": [500.0, 510.0, 320.0, 240.0, 0.8],
    "FULL_OPENCV": [500.0, 505.0, 320.0, 240.0, -0.1, 0.02, 1e-3, -1e-3, 0.01, 0.05, -0.01, 0.002],
    "EUCM": [500.0, 505.0, 320.0, 240.0, 0.6, 1.1],
    "SIMPLE_DIVISION": [500.0, 320.0, 240.0, -0.05],
    "EQUIRECTANGULAR": [1000.0, 500.0],
}
IDENTITY = np.concatenate([np.eye(3).ravel(), np.zeros(3)])


def shard_of_six(points: int = 12, devices: int = 2) -> Shard:
    """Six images, on two devices four and two."""
    problem = tiny_problem(6, points)
    device = np.array([0, 0, 0, 0, 1, 1]) % devices
    return make_shard(problem, daba.partition_from_arrays(problem, device))


def own_cameras(shard: Shard, *names: str, most: int = ROW) -> LmInput:
    """Images in turn with cameras of these models, each its own; focal lengths and distortion are
    refined, of each model so many parameters at most."""
    C = shard.num_cameras
    models = [MODELS[name] for name in names]
    refined = tuple(m.indices(focal=True, principal=False, extra=True)[:most] for m in models)
    width = max(len(r) for r in refined)
    model = np.arange(C) % len(models)
    fixed = np.zeros((C, 6 + width), bool)
    params = np.zeros((C, ROW))
    for i, m in enumerate(model):
        params[i, : models[m].count] = CAMERAS[names[m]]
        params[i, PARAMETERS] = m
        fixed[i, 6 + len(refined[m]) :] = True
    return LmInput(
        kind=Kind("pixel", names, refined, own=width),
        frame=np.arange(C, dtype=np.int32),
        poses=shard.start.cameras[:C, :12],
        sensor=np.zeros(C, np.int32),
        camera=np.full(C, -1, np.int32),
        params=params,
        fixed=fixed if fixed.any() else fixed[:0],
        shared_params=np.zeros((0, ROW)),
        shared_free=np.zeros((0, 0), bool),
        sensors=IDENTITY[None],
        free_sensors=np.zeros(1, bool),
        fixed_points=np.empty(0, bool),
    )


def rigs_that_share(shard: Shard) -> LmInput:
    """Rigs of two images, with two shared cameras of different models, a sensor that moves, a frame
    that is fixed, a point that is, and priors of points."""
    C, P = shard.num_cameras, shard.num_points
    names = ("OPENCV_FISHEYE", "SIMPLE_RADIAL")
    refined = ((0, 4), (0,))
    shared = np.zeros((2, ROW))
    for n, name in enumerate(names):
        shared[n, : MODELS[name].count] = CAMERAS[name]
        shared[n, PARAMETERS] = n
    free = np.array([[True, True], [True, False]])
    fixed = np.zeros((C // 2, 6), bool)
    fixed[0] = True
    turned = np.array([0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.3, 0.1, -0.1])
    row = np.full(P, -1, np.int32)
    row[[1, 4]] = 0, 1
    random = np.random.default_rng(0)
    target = shard.start.points[[1, 4]] + 0.1 * random.normal(size=(2, 3))
    return LmInput(
        kind=Kind("pixel", names, refined, shared=2, sensors="refined"),
        frame=(np.arange(C) // 2).astype(np.int32),
        poses=shard.start.cameras[:C:2, :12],
        sensor=(np.arange(C) % 2).astype(np.int32),
        camera=(np.arange(C) // 2 % 2).astype(np.int32),
        params=np.zeros((0, ROW)),
        fixed=fixed,
        shared_params=shared,
        shared_free=free,
        sensors=np.stack([IDENTITY, turned]),
        free_sensors=np.array([False, True]),
        fixed_points=np.arange(P) == 2,
        point_priors=Known(row, target, np.tile(40.0 * np.eye(3), (2, 1, 1)), 1, 0.5),
    )


def parts_of(shard: Shard, given: LmInput, cluster: np.ndarray | None = None) -> LmShard:
    """With observations near where the cameras see the points."""
    parts = make_lm_shard(shard, given, Communicator(), cluster)
    if given.kind.error == "ray":
        return parts
    obs, images, x = parts.obs, parts.images, parts.x
    poses = compose(x.frames[obs.frame], x.sensors[images.sensor[obs.image]])
    δ = x.points[obs.point] - poses[:, 9:]
    seen = np.einsum("kji,kj->ki", poses[:, :9].reshape(-1, 3, 3), δ)
    params = x.params[images.camera[obs.image]]
    xy = np.random.default_rng(1).normal(size=(len(seen), 2))
    for m, name in enumerate(given.kind.models):
        k = np.flatnonzero(params[:, PARAMETERS] == m)
        xy[k] += project(MODELS[name], params[k, : MODELS[name].count], seen[k]).pixels
    return replace(parts, obs=obs._replace(xy=xy))


def every_operation() -> None:
    """Call each operation of the GPU once, so that each kernel is launched."""
    from daba.backends.gpu.lm.operations import GpuOperations
    from daba.solver.lm.coarse import make_eigenmodes, make_space
    from daba.solver.lm.network import Network

    shard = shard_of_six()
    parts = parts_of(shard, rigs_that_share(shard))
    ops = GpuOperations(parts, Loss(1, 2.0), device="cpu")
    ops.plan(parts.cluster[: parts.num_frames])
    x = ops.upload(parts.x)
    ops.visible(x)
    ops.objective(x)
    ops.linearize(x)
    ops.hold()
    _, z = ops.damp(1e-3)
    ops.right_hand_side()
    ops.factor()
    v, v_s = ops.zeros((parts.num_frames, 6)), ops.zeros((6, parts.kind.columns))
    h = ops.pull(v, v_s)
    ops.push(v, v_s, h)
    space = make_space(parts, ops, Network(parts, Communicator()), parts.cluster, 2)
    space.linearized(parts.x.frames)
    space.assemble(1e-3, z)
    ops.coarse_correct(space.blocks, space.Y, space.by_block(ops.zeros(space.size)), h)
    modes = make_eigenmodes(parts, ops)
    K = ops.gap_matrices(modes.runs)
    ops.gap(modes.runs, modes.run_at, K, ops.zeros((parts.num_frames, 6, 30)))
    points, _ = ops.back_substitute(v, v_s)
    ops.second_order(x, x, x, 1.0)
    ops.settle_points(x._replace(points=x.points + points), x.points, 3)
