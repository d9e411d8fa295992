"""How many numbers of memory go with a block of B×B (`blocks.py`)."""

from __future__ import annotations


def lanes(B: int) -> int:
    """Numbers in a padded row of B."""
    return -(-B // 4) * 4


def packed(B: int) -> int:
    """Numbers in a packed block."""
    return -(-81 // 8) * 8 if B == 9 else B * lanes(B)


def record(B: int) -> int:
    """Numbers in a record of derivatives: two rows of B, the residual, and room to read beyond,
    which blocks of 9 need none of."""
    return 2 * B + 2 if B == 9 else max(2 * B + 2, B + lanes(B))


def added(B: int) -> int:
    """Numbers that observations add up to for a frame: a packed block, g, and a distance."""
    return -(-(packed(B) + B + 1) // 8) * 8
