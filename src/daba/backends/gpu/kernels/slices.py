"""Slices: how a pass over points is cut.

A slice is one program's work on one device. Either each lane has a point of its own, and the
observations lie slot after slot, lane beside lane; or, for a point with many observations, all
lanes share it. `heads` holds start, width (slots), device and whether the point is shared;
`members` the point of each lane, or −1 − point where the lane only helps or is idle.
"""

import triton.language as tl

from daba.backends.gpu.kernels.jit import jit


@jit
def head(heads, n):
    """Start, width, device, shared."""
    start = tl.load(heads + 4 * n)
    width = tl.load(heads + 4 * n + 1).to(tl.int32)
    device = tl.load(heads + 4 * n + 2).to(tl.int32)
    return start, width, device, tl.load(heads + 4 * n + 3)


@jit
def member(members, at):
    """Each lane's point, and whether the lane answers for it."""
    point = tl.load(members + at)
    return tl.where(point < 0, -1 - point, point), point >= 0


@jit
def joined(shared, x):
    """x, or its sum over the lanes of a shared point on each of them."""
    if shared != 0:
        x = tl.zeros_like(x) + tl.sum(x, axis=0)
    return x


@jit
def smallest(shared, x):
    """x, or its minimum over the lanes of a shared point."""
    if shared != 0:
        x = tl.zeros_like(x) + tl.min(x, axis=0)
    return x


@jit
def add9(a0, a1, a2, a3, a4, a5, a6, a7, a8, b0, b1, b2, b3, b4, b5, b6, b7, b8):
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3, a4 + b4, a5 + b5, a6 + b6, a7 + b7, a8 + b8
