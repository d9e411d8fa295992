"""What momentum is reset and clipped by: how far cameras are from what they see, and where a
point's cameras are, at the start."""

from __future__ import annotations

import numpy as np

from daba.core.types import Floats, State
from daba.distributed.shard import Shard


def extrapolation_scales(shard: Shard, x: State) -> tuple[Floats, Floats]:
    """Mean distance from each camera to its points, and mean centre of each point's cameras, at
    the start; rows of ghosts are for their owners to fill."""
    C, P = len(x.cameras), len(x.points)
    distance, center = np.zeros(C), np.zeros((P, 3))
    seen_c, seen_l = np.zeros(C), np.zeros(P)
    for obs in (shard.intra, shard.inter):
        by_camera = obs.camera_obs  # in the order of all devices, whoever owns the points
        seen_c += np.bincount(obs.camera, minlength=C)
        away = np.linalg.norm(
            x.cameras[obs.camera[by_camera], 9:12] - x.points[obs.point[by_camera]], axis=1
        )
        distance += np.bincount(obs.camera[by_camera], weights=away, minlength=C)
        seen_l += np.bincount(obs.point, minlength=P)
        for a in range(3):
            t = x.cameras[obs.camera, 9 + a]
            center[:, a] += np.bincount(obs.point, weights=t, minlength=P)
    distance = np.where(distance > 0, distance / np.maximum(seen_c, 1), 1.0)
    center = np.where(seen_l[:, None] > 0, center / np.maximum(seen_l, 1)[:, None], x.points)
    return distance[:, None], center
