"""The coarse space and the eigenmodes that go with a backend's operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daba.core.types import Int32
from daba.distributed.lm_shard import LmShard
from daba.solver.lm.coarse import CoarseSpace
from daba.solver.lm.network import Network

if TYPE_CHECKING:
    from daba.solver.lm.eigenmodes import Eigenmodes


def make_space(
    shard: LmShard, ops: Any, network: Network, cluster: Int32, clusters: int
) -> CoarseSpace:
    """As `CoarseSpace`."""
    if not ops.on_gpu:
        return CoarseSpace(shard, ops, network, cluster, clusters)
    from daba.solver.lm.on_gpu import GpuCoarseSpace

    return GpuCoarseSpace(shard, ops, network, cluster, clusters)


def make_eigenmodes(shard: LmShard, ops: Any) -> Eigenmodes:
    """As `Eigenmodes`."""
    if not ops.on_gpu:
        from daba.solver.lm.eigenmodes import Eigenmodes

        return Eigenmodes(shard, ops)
    from daba.solver.lm.on_gpu import GpuEigenmodes

    return GpuEigenmodes(shard, ops)
