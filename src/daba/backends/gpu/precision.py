"""Which numbers are kept and computed with how many digits."""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl

from daba.core.types import frozen


@frozen
class Precision:
    """The estimate, sums, costs and metrics are always double."""

    records: torch.dtype
    """Of observations as stored."""
    terms: Any
    """Of F_ij, its gradient and the surrogate's moments as computed."""
    points: torch.dtype
    """Of V, as the terms."""
    linear: torch.dtype
    """Of the linear solver."""
    tiny: float
    """Share of a diagonal block's entry below which a pivot is taken for rounding."""
    epsilon: float
    """Share of E^α below which a promised decrease is none."""
    damping: float
    """Least damping of points: in single precision S is noise where V' is worse conditioned."""


PRECISIONS = {
    "float64": Precision(
        torch.float64, tl.float64, torch.float64, torch.float64, 1e-14, 1e-16, 0.0
    ),
    "mixed": Precision(torch.float32, tl.float64, torch.float64, torch.float32, 1e-6, 1e-16, 1e-6),
    "float32": Precision(torch.float32, tl.float32, torch.float32, torch.float32, 1e-6, 1e-9, 1e-5),
}

SMALL = 3_000_000
"""Observations up to which double precision costs little: launches and latency take the time."""


def precision_of(name: str, observations: int) -> Precision:
    """What an option means; `auto` looks at the size of the whole problem."""
    if name == "auto":
        name = "float64" if observations <= SMALL else "mixed"
    return PRECISIONS[name]
