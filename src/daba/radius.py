"""Bounds of the trust region, and which devices begin with care."""

from __future__ import annotations

import numpy as np

from daba.kernels.cpu.types import Bools
from daba.options import Options
from daba.shard import Shard

SMALLEST_RADIUS, LARGEST_RADIUS = 1e-32, 1e10
CAREFUL_RADIUS, RELAXATION, FEW = 1e4, 1.003, 200
"""In the paper's method E^α follows its model well even where momentum carries a badly observed
camera away: the radius would grow without end, and F with it. So a device with a camera of fewer
than FEW observations begins with a limit, which it relaxes slowly."""


def careful(shard: Shard, options: Options) -> Bools:
    """Devices with a badly observed camera, where momentum is not kept in check by refinement."""
    out = np.zeros(shard.num_devices, dtype=bool)
    if options.method == "daba" and options.refine == "none" and not options.centralized:
        seen = np.diff(shard.intra.camera_ptr) + np.diff(shard.inter.camera_ptr)
        few = np.flatnonzero((seen > 0) & (seen < FEW))
        out[np.searchsorted(shard.devices.camera_ptr, few, side="right") - 1] = True
    return out
