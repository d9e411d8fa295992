"""Bounds of the trust region, and which devices begin with care."""

from __future__ import annotations

import numpy as np

from daba.core.options import Options
from daba.core.types import Bools
from daba.distributed.shard import Shard

SMALLEST_RADIUS, LARGEST_RADIUS = 1e-32, 1e10
CAREFUL_RADIUS, RISE, RELAXATION, FEW = 7e3, 0.02, 1.003, 300
"""In the paper's method, and where only points are refined, a step is judged twice: by E^α at once,
and by F^α when the neighbours have moved, too. The first sets the radius, the second its limit: E^α
follows its model well even where momentum carries a camera away, and the radius would grow without
end, and F with it. A device is careful once its F^α has risen by more than RISE, as long as it is
negative (only the sum of all F^α is F), and from the start if it has a camera of fewer than FEW
observations; it relaxes slowly. Sweeps do without: they move cameras by F itself."""


def careful(shard: Shard, options: Options) -> Bools:
    """Devices with a badly observed camera, where momentum is not kept in check by sweeps."""
    out = np.zeros(shard.num_devices, dtype=bool)
    if options.judged:
        seen = np.diff(shard.intra.camera_ptr) + np.diff(shard.inter.camera_ptr)
        few = np.flatnonzero((seen > 0) & (seen < FEW))
        out[np.searchsorted(shard.devices.camera_ptr, few, side="right") - 1] = True
    return out
