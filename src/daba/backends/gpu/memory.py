"""What a solve will need of a GPU's memory, told before it starts."""

from __future__ import annotations

import numpy as np
import torch

from daba.backends.gpu.precision import precision_of
from daba.core.errors import GpuMemoryError
from daba.core.options import Options
from daba.distributed.lm_shard import LmShard
from daba.distributed.shard import Shard

SLACK = 1.05
"""Empty slots of slices, and what torch keeps for itself."""
PROGRAM = 700_000_000
"""CUDA's own, kernels and graphs."""


def needed(
    cameras: int, points: int, intra: int, inter: int, options: Options, constrained: bool = False
) -> int:
    """Bytes at most, of one process; `constrained`: there are constraints."""
    precision = precision_of(options.precision, intra + inter)
    w = 4 if precision.linear == torch.float32 else 8
    k = 16 if precision.records == torch.float32 else 32
    accelerated, refined = options.accelerated, bool(options.rounds)
    states = 4 if accelerated else 3 if options.copies else 2
    surrogates = 0 if options.centralized else 2 if accelerated else 1
    observations = 2 * k * (intra + inter) + (2 * k * (inter + intra // 2) if refined else 0)
    setting_up = (8 * 6 + 2 * k) * max(intra, inter)  # orders, and one list as it is made
    by_camera = 128 * states + 2048 * (2 + surrogates) + w * (2 * 256 + 28 + 5 * 16) + 200
    by_point = 32 * states + 32 * surrogates + 56 + 24 + 16 * w + 8 * 6
    if constrained:  # tiles and flags, and priors of everything
        by_camera, by_point = by_camera + 2 * 2048 + 600, by_point + 120
    total = observations + setting_up + by_camera * cameras + by_point * points
    return PROGRAM + int(SLACK * total)


def needed_for_lm(parts: LmShard) -> int:
    """Bytes that Levenberg–Marquardt needs at most, of one process; its clusters are those of the
    shard."""
    B, G, K = parts.kind.block, parts.kind.columns, len(parts.obs.frame)
    lengths = parts.arrays.int64(parts.obs.run_end - parts.obs.run_begin)
    pairs = int(lengths.sum())  # of observations of one point by one cluster, as a list is made
    sizes = np.bincount(parts.cluster[: parts.num_frames])
    blocks = 3 * len(sizes[sizes > 0]) * (int(sizes.max()) * B) ** 2
    by_observation = 8 * (4 * B + 2 * G + 3 * 4 + 3 * 2 + 6)
    total = by_observation * K + 60 * pairs + 8 * blocks + 8 * 60 * len(parts.x.points)
    return PROGRAM + int(SLACK * total)


def _free(need: int, device: torch.device) -> int:
    """Bytes, with what torch keeps for later given back where that matters."""
    if need > (free := torch.cuda.mem_get_info(device)[0]):
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info(device)[0]
    return int(free)


def check_lm_memory(parts: LmShard, device: torch.device) -> None:
    """Raise `GpuMemoryError` if Levenberg–Marquardt will not fit, saying what would."""
    need = needed_for_lm(parts)
    if need > (free := _free(need, device)):
        raise GpuMemoryError(
            f"too little GPU memory: {need / 1e9:.1f} GB needed and {free / 1e9:.1f} GB free; use "
            "--method daba, --backend cpu, or more processes, each with a GPU of its own"
        )


def check_memory(shard: Shard, options: Options, device: torch.device) -> None:
    """Raise `GpuMemoryError` if the shard will not fit, saying what would."""
    intra, inter = len(shard.intra.camera), len(shard.inter.camera)
    constrained = shard.constraints is not None
    need = needed(shard.num_cameras, shard.num_points, intra, inter, options, constrained)
    if need <= (free := _free(need, device)):
        return
    share = free / need
    hint = "use --backend cpu"
    if options.precision in ("auto", "float64"):
        hint = "use --precision mixed, or --backend cpu"
    if shard.num_devices > 1:
        hint += f", or start at least {int(1 / share) + 1} processes, each with a GPU of its own"
    raise GpuMemoryError(
        f"too little GPU memory: {need / 1e9:.1f} GB needed and {free / 1e9:.1f} GB free, enough "
        f"for about {int(share * (intra + inter)):,} of {intra + inter:,} observations; {hint}"
    )
