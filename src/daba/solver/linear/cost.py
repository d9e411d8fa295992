"""What a direct solution takes, in time against conjugate gradients and in memory."""

from __future__ import annotations

from daba.solver.elimination import Cost

MOST_CAMERAS_FOR_PLAN = 6000
"""Beyond this no direct solution is considered: the plan alone is quadratic in cameras."""
SECONDS_PER_PAIR = 30e-9
"""To add a block to S, by one thread of a current CPU; only the ratio to the next two matters."""
SECONDS_PER_FLOP = 2e-11
"""In factoring S."""
SECONDS_PER_PRODUCT = 11e-9
"""Of one observation in one S·v."""
EXPECTED_PCG_ITERATIONS = 30
BYTES_PER_OBSERVATION = 196
"""What an observation and its derivatives take. Where cameras are copied, to any device that sees
one of their points, factors may take no more: they would be most of what the device holds."""
ALWAYS_QUICK = 1e-3
"""Seconds that a direct solution may always take."""


def direct_pays(cost: Cost, observations: float, copies: bool = False) -> bool:
    """Whether a direct solution is the quicker one, and fits."""
    direct = SECONDS_PER_PAIR * cost.pairs + SECONDS_PER_FLOP * cost.factor_flops
    iterative = SECONDS_PER_PRODUCT * observations * EXPECTED_PCG_ITERATIONS
    fits = cost.fits(observations)
    if copies:
        fits = cost.bytes < BYTES_PER_OBSERVATION * observations
    return direct < max(iterative, ALWAYS_QUICK) and fits
