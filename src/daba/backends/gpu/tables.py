"""Z and ∂Z of a camera as tables: every entry is nothing, or ±1 times two numbers of its row.

Z = [R₁, R₂, d1 R₃, d2 R₃, d3 R₃, t], and number 15 of a row is 1.
"""

from __future__ import annotations

import numpy as np

ONE = 15
"""Where a camera's record has a 1."""


def _entry(x: int, a: int) -> tuple[int, int]:
    """Which two numbers make Z[x, a]."""
    if a < 2:
        return 3 * x + a, ONE
    if a < 5:
        return 3 * x + 2, 10 + a
    return 9 + x, ONE


def zeta() -> np.ndarray:
    """Z as (3 + 1, 6 + 2) entries of sign, left, right."""
    table = np.zeros((4, 8, 3), np.int32)
    for x in range(3):
        for a in range(6):
            table[x, a] = 1, *_entry(x, a)
    return table


def derivative() -> np.ndarray:
    """∂Z along (ω, t, d) as (9 + 7, 3 + 1, 6 + 2) entries: ω × each column but t, the unit vectors
    for t, R₃ for d."""
    table = np.zeros((16, 4, 8, 3), np.int32)
    for p in range(3):
        up, down = (p + 1) % 3, (p + 2) % 3
        for a in range(5):  # (ω × z)_up = −z_down for the unit vector ω = p, and so on
            table[p, up, a] = -1, *_entry(down, a)
            table[p, down, a] = 1, *_entry(up, a)
        table[3 + p, p, 5] = 1, ONE, ONE
        for x in range(3):
            table[6 + p, x, 2 + p] = 1, 3 * x + 2, ONE
    return table
