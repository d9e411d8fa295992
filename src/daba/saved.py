"""Everything that the next iteration depends on, as any solver gives and takes it."""

from __future__ import annotations

from dataclasses import dataclass

from daba.kernels.cpu.types import Floats
from daba.shard import State


@dataclass
class Saved:
    """Arrays of the shard: its own variables before its ghosts, or one number for each device."""

    x: State
    last: State
    camera_s: Floats
    """Nesterov's s of each camera."""
    s: float
    """And that of points."""
    radius: Floats
    shrink: Floats
    limit: Floats
    F: Floats
    F_bar: Floats
    E: Floats
    eta: float
