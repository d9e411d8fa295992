"""What the direct linear solver will hold, added to the prediction of `partition.memory_model`."""

from __future__ import annotations

from collections.abc import Iterable

from daba.distributed.shard import join
from daba.partition.ordering import DeviceBlock, DeviceRanges
from daba.solver.elimination import MOST_CAMERAS_FOR_PLAN, Cost, direct_pays, make_plan


def with_factors(
    memory: list[int], blocks: Iterable[DeviceBlock], ranges: DeviceRanges, copies: bool = False
) -> list[int]:
    """Add the factors of each device, if the direct solver is what `auto` will choose: that is told
    by the plan of each device's factorization, made here as it is made for a solve."""
    if ranges.cameras > MOST_CAMERAS_FOR_PLAN:
        return memory
    costs, observations = [], 0
    for device, block in enumerate(blocks):
        shard = join([block], device, ranges)
        costs.append(make_plan(shard.intra, shard.devices, ranges.largest)[1])
        observations += len(shard.intra.camera)
    total = Cost(*map(sum, zip(*costs, strict=True)))
    if not direct_pays(total, observations, copies):
        return memory
    return [count + int(cost.bytes) for count, cost in zip(memory, costs, strict=True)]
