"""Bounds of the trust region, and which devices begin with care."""

from __future__ import annotations

import numpy as np

from daba.core.decisions import FEW_OBSERVATIONS
from daba.core.options import Options
from daba.core.types import Bools
from daba.distributed.shard import Shard


def careful(shard: Shard, options: Options) -> Bools:
    """Devices with a badly observed camera, where momentum is not kept in check by sweeps."""
    out = np.zeros(shard.num_devices, dtype=bool)
    if options.judged:
        seen = np.diff(shard.intra.camera_ptr) + np.diff(shard.inter.camera_ptr)
        few = np.flatnonzero((seen > 0) & (seen < FEW_OBSERVATIONS))
        out[np.searchsorted(shard.devices.camera_ptr, few, side="right") - 1] = True
    return out
