"""How fast backends are at factoring S, so that they can choose."""

from __future__ import annotations

from typing import NamedTuple


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
    most_frames: int
    """Of a device: beyond this its S_αα is not considered."""
    cluster: float
    """Frames of a cluster, where S is not factored whole; more …"""
    most_clusters: float
    """… where there would be more than so many."""


CPU = Speed(24e-9, 2e-11, 2e-6, 1e-3, most_frames=6000, cluster=15.0, most_clusters=float("inf"))
"""Of one thread of a current CPU; conjugate gradients as a chain of frames has them, with
eigenmodes: cup-362 takes 0.9 s directly, and 1.9 s with them. The plan alone is quadratic in
frames. Clusters of 10 and 20 frames are as good on notredame-150 and city-1000, 40 is slower on the
second."""
GPU = Speed(3.5e-10, 6e-14, 5e-9, 15e-3, most_frames=2500, cluster=15.0, most_clusters=400.0)
"""Of an H200: notredame-692, 16 million pairs and 6,228 rows, is formed in 5.6 ms and factored in
4.5; conjugate gradients take 16 ms for it, 14 to 30 for a city of 1,723 cameras, 25 to 60 for
5 million observations. Clusters of 15 and of 60 frames are equally good; the coarse space is dense,
and with more clusters would outgrow everything else."""
