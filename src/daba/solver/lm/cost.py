"""How fast backends are at factoring S, so that they can choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from daba.solver.elimination import Cost


class Speed(NamedTuple):
    """Seconds; only their ratios matter."""

    pair: float
    """To add a block to S."""
    flop: float
    """In factoring it."""
    observation: float
    """All of conjugate gradients with clusters instead, the coarse space included, …"""
    least: float
    """… and at least."""
    product: float
    """One iteration of conjugate gradients, for each observation; 0: factors of an earlier system
    are not used again; …"""
    byte: float
    """… for each byte of factors, …"""
    call: float
    """… and for what it calls."""
    most_frames: int
    """Of a device: beyond this its S_αα is not considered."""
    cluster: float
    """Frames of a cluster, where S is not factored whole; more …"""
    most_clusters: float
    """… where there would be more than so many."""

    def direct(self, cost: Cost) -> float:
        """To form S and factor it."""
        return self.pair * cost.pairs + self.flop * cost.factor_flops

    def worth(self, cost: Cost, observations: float) -> float:
        """Iterations of conjugate gradients with factors at hand that take as long as making
        others; 0 if they are always made."""
        if not self.product:
            return 0.0
        iteration = self.product * observations + self.byte * cost.bytes + self.call
        return self.direct(cost) / iteration


CPU = Speed(
    pair=24e-9, flop=2e-11, observation=2e-6, least=1e-3, product=16e-9, byte=5e-11,
    call=3e-4, most_frames=6000, cluster=125.0, most_clusters=float("inf"),
)  # fmt: skip
"""Of one thread of a current CPU; conjugate gradients as a chain of frames has them, with
eigenmodes: cup-362 takes 0.9 s directly, 1.9 s with them, and 0.5 s with factors that are used
again. The plan alone is quadratic in frames. With clusters of 15, 60, 125 and 250 frames a city of
1,000 cameras is at 1.001 times its optimum after 5.7, 4.5, 3.2 and 5.7 s of CPU; one of 1,723 with
15, 125 and 250 after 156 s not yet, after 8.3 and after 7.3 s; one of 3,000 with 15, 60 and 125
after 35, 18 and 19 s."""
GPU = Speed(
    pair=3.5e-10, flop=6e-14, observation=5e-9, least=15e-3, product=0.0, byte=0.0,
    call=0.0, most_frames=2500, cluster=15.0, most_clusters=400.0,
)  # fmt: skip
"""Of an H200: notredame-692, 16 million pairs and 6,228 rows, is formed in 5.6 ms and factored in
4.5; conjugate gradients take 16 ms for it, 14 to 30 for a city of 1,723 cameras, 25 to 60 for
5 million observations. Clusters of 15 and of 60 frames are equally good; the coarse space is dense,
and with more clusters would outgrow everything else."""
