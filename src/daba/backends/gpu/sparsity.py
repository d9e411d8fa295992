"""Whether one GPU should factor S, by how many pairs of cameras see common points."""

from __future__ import annotations

import torch

from daba.distributed.shard import Shard

SPARSE = 0.35
"""Share of pairs of cameras with common points up to which `lm` factors S. On an H200
kitti-vo-250 (0.17) takes 4.0 ms an iteration so and 12.5 with conjugate gradients, which end 0.4 %
higher; streets of 100 and 300 cameras (0.24, 0.09) 3.3 and 6.2 ms against 6.3 and 12.9; a city of
300 (0.12) 5.0 against 4.7, and one of 800 (0.06) 12.6 against 1.8, but with as few conjugate
gradients as pay elsewhere it ends 20 % higher. Where more pairs see common points they are few:
orbits (0.42, 0.86) take 4.6 and 4.9 ms against 0.6 and 0.5, notredame-692 (0.80) 17 against 1.2,
ladybug-49 (0.84) 3.1 against 1.1."""
MOST_CAMERAS = 1000
"""… and cameras: a street of 2,000 takes 61 ms an iteration, against 4.3, and arrives later."""
POINTS = 1 << 17
"""That are looked at at a time: of 1,000 cameras 262 MB."""


def direct_pays(shard: Shard, device: torch.device) -> bool:
    """Of the only device of a problem."""
    return shard.num_cameras <= MOST_CAMERAS and density(shard, device) < SPARSE


def density(shard: Shard, device: torch.device | str) -> float:
    """Share of pairs of cameras that see common points: of so many blocks of S something is not
    zero."""
    C, P, obs = shard.num_cameras, shard.num_points, shard.intra
    camera, point = (torch.as_tensor(a, device=device).long() for a in (obs.camera, obs.point))
    common = torch.zeros((C, C), dtype=torch.bool, device=device)
    for first in range(0, P, POINTS):
        last = min(first + POINTS, P)
        some = slice(int(obs.point_ptr[first]), int(obs.point_ptr[last]))
        sees = torch.zeros((C, last - first), dtype=torch.half, device=device)
        sees[camera[some], point[some] - first] = 1.0
        common |= (sees @ sees.T) > 0
    return float(common.double().mean())
