"""What a network would add to a solve: a model of the time that rounds, sums and their bytes take,
for networks that are not at hand.

Each device is taken to be a process with a link of its own. In a round all of them send at once;
a sum is gathered by doubling (1, 2, 4, … neighbours), and everyone receives all of it:

    round   latency + its share of the bytes / bandwidth
    sum     ⌈log₂ devices⌉ latency + all of the bytes / bandwidth
"""

from __future__ import annotations

import math

from daba.core.types import frozen
from daba.distributed.shard import NUMBER

REPORTED = 20
"""Numbers of each device that telling F takes, roughly."""


@frozen
class NetworkModel:
    """A network between `devices` processes."""

    devices: int
    latency: float
    """Seconds until a message of no length has arrived."""
    bandwidth: float
    """Bytes a second that a process can send, and receive."""

    def seconds(
        self, rounds: float, sums: float, boundary_bytes: float, summed_bytes: float
    ) -> float:
        """For so many rounds and sums, and the bytes of all devices in them."""
        if self.devices == 1:
            return 0.0
        hops = rounds + sums * math.ceil(math.log2(self.devices))
        return hops * self.latency + (boundary_bytes / self.devices + summed_bytes) / self.bandwidth

    def report_seconds(self) -> float:
        """To tell F once."""
        return self.seconds(0, 1, 0, NUMBER * REPORTED * self.devices)
