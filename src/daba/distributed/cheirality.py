"""Points of a shard that lie behind a camera, brought in front: each process moves its own, and
finds what one that holds the whole problem would find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard, State
from daba.problem.cheirality import bring_to_front, count_distances
from daba.problem.problem import Problem


def start_in_front(shard: Shard, x: State, comm: Communicator) -> tuple[Shard, int]:
    """The shard with such an estimate as its start, corrected, and how many points were moved by
    all processes."""
    comm.exchange(shard).update(x, "both")
    part = _part(shard, x)
    distances = comm.sum(count_distances(part).astype(np.float64))
    found, moved = bring_to_front(part, distances)
    points = np.concatenate([found.points, x.points[shard.num_points :]])
    count = comm.sum(np.array([float(len(moved))]))
    return replace(shard, start=State(x.cameras, points)), int(count[0])


def some_hidden(shard: Shard, comm: Communicator) -> bool:
    """Whether there are points, of any process, that a camera does not see, in pixels."""
    from daba.problem.image_rows import images_alone, poses
    from daba.problem.optics import well_seen

    x = shard.state()
    comm.exchange(shard).update(x, "both")
    camera, point, pixels, _ = _seen(shard)
    optics = images_alone(x.cameras, pixels)
    if optics.bundler:
        return False
    part = Problem.from_optics(
        optics, poses(x.cameras), x.points, camera_index=camera, point_index=point
    )
    return bool(comm.any(not well_seen(part).all()))


def joined(shard: Shard, by_device: dict[int, State]) -> State:
    """The reverse of `Shard.by_device`; ghosts are not known yet."""
    x, devices = shard.state(), sorted(by_device)
    x.cameras[: shard.num_cameras] = np.concatenate([by_device[a].cameras for a in devices])
    x.points[: shard.num_points] = np.concatenate([by_device[a].points for a in devices])
    return x


def _seen(shard: Shard) -> tuple[np.ndarray, ...]:
    """Camera, point, u and weight of all that is seen of the points owned here."""
    parts, shard = [], shard.on_host()
    for obs in (shard.intra, shard.inter):
        own = slice(0, int(obs.point_ptr[-1]))  # those of own points come first
        parts.append((obs.camera[own], obs.point[own], obs.u[own], obs.weight[own]))
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def _part(shard: Shard, x: State) -> Problem:
    """The points owned here and all that is seen of them."""
    camera, point, u, weights = _seen(shard)
    fixed = None if shard.constraints is None else shard.constraints.free_points
    return Problem(
        cameras=x.cameras,
        points=x.points[: shard.num_points],
        camera_index=camera,
        point_index=point,
        u=u,
        weights=weights,
        focal=np.ones(len(x.cameras)),
        free_points=fixed,
    )
