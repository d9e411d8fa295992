"""Intrinsics that cameras share, as conjugate gradients meet them: x and p are kept as they act on
cameras, r and S p as sums over the cameras of a device that share d, at the first of them.

And the quadratic in d that the observations of a camera make, its pose and points held: see
`backends/cpu/kernels/sharing.py`.
"""

import triton.language as tl

from daba.backends.gpu.kernels import row
from daba.backends.gpu.kernels.exact import penalty
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.rows import observe, one_camera, record, spots
from daba.backends.gpu.kernels.schur import diagonal_block


@jit
def diagonal_blocks(owner, system, tiles, blocks, raw, table, S):
    """S's diagonal block of each camera and, as its tenth column, the right-hand side, which is
    also kept as it is."""
    i = tl.program_id(0)
    device = tl.load(owner + i)
    if tl.load(table + S * row.TRYING + device) == 0.0:
        return
    a = tl.arange(0, 16)
    M, b = diagonal_block(system, tiles, i, 1.0 / tl.load(table + S * row.RADIUS + device))
    M = tl.where(a[None, :] == 9, b[:, None], M)
    tl.store(blocks + i * 256 + a[:, None] * 16 + a[None, :], M)
    tl.store(raw + i * 16 + a, b)


@jit
def sum_blocks(begins, members, owner, blocks, table, S, B: tl.constexpr):
    """The first camera of each group gets the sum of its cameras' blocks along d, and of their
    right-hand sides."""
    n = tl.program_id(0)
    first = tl.load(begins + n)
    last = tl.load(begins + n + 1)
    representative = tl.load(members + first)
    if tl.load(table + S * row.TRYING + tl.load(owner + representative)) == 0.0:
        return
    a = tl.arange(0, 4)
    cell = (6 + a[:, None]) * 16 + 6 + a[None, :]
    inside = a[:, None] < 3
    sums = tl.zeros([4, 4], tl.float64)
    for m in range(first, last, B):
        k = m + tl.arange(0, B)
        i = tl.load(members + k, mask=k < last, other=0)
        here = blocks + i[:, None, None] * 256 + cell[None, :, :]
        known = (k < last)[:, None, None] & inside[None, :, :]
        sums += tl.sum(tl.load(here, mask=known, other=0.0), axis=0)
    tl.store(blocks + representative * 256 + cell, sums, mask=inside)


@jit
def collect(begins, members, owner, v, table, S, ROW: tl.constexpr, B: tl.constexpr):
    """The first camera of each group gets the sum along d over its cameras, where the table's row
    ROW is set. What is left of the others nobody looks at."""
    n = tl.program_id(0)
    first = tl.load(begins + n)
    last = tl.load(begins + n + 1)
    representative = tl.load(members + first)
    if tl.load(table + S * ROW + tl.load(owner + representative)) == 0.0:
        return
    a = tl.arange(0, 4)
    sums = tl.zeros([4], tl.float64)
    for m in range(first, last, B):
        k = m + tl.arange(0, B)
        i = tl.load(members + k, mask=k < last, other=0)
        known = (k < last)[:, None] & (a < 3)[None, :]
        found = tl.load(v + i[:, None] * 16 + 6 + a[None, :], mask=known, other=0.0)
        sums += tl.sum(found.to(tl.float64), axis=0)
    tl.store(v + representative * 16 + 6 + a, sums, mask=a < 3)


@jit
def intrinsics(
    records, begins, chosen, cameras, points, out, KIND: tl.constexpr, RADIUS: tl.constexpr,
    T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Add Σ w|n|² φφᵀ (upper triangle, 6), Σ w (n·e) φ (3) and Σ F_ij of each chosen camera to a
    row of sixteen."""
    n = tl.program_id(0)
    i = tl.load(chosen + n)
    lane = tl.arange(0, B)
    c, t = one_camera(cameras, i * 16, T)
    first = tl.load(begins + i)
    last = tl.load(begins + i + 1)
    a = tl.arange(0, 16)
    total = tl.load(out + n * 16 + a)
    for m in range(first, last, B):
        ux, uy, weight, j = record(records, tl.minimum(m + lane, last - 1), T)
        weight = tl.where(m + lane < last, weight, 0.0)
        l = spots(points, j)
        ex, ey, ez, _, dx, dy, dz, _, _, _, s = observe(c, t, l, ux, uy, weight, T)
        f, w, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        along = c[2] * dx + c[5] * dy + c[8] * dz
        H = w * tl.maximum(1.0 - along * along / (dx * dx + dy * dy + dz * dz), 0.0)
        g = w * (c[2] * ex + c[5] * ey + c[8] * ez)
        total += row_of_sums(H, g, f, s, a)
    tl.store(out + n * 16 + a, total)


@jit
def row_of_sums(H, g, f, s, a):
    H = H.to(tl.float64)
    g = g.to(tl.float64)
    s = s.to(tl.float64)
    total = tl.where(a == 0, tl.sum(H, axis=0), 0.0)
    H *= s
    total += tl.where(a == 1, tl.sum(H, axis=0), 0.0)
    H *= s
    total += tl.where((a == 2) | (a == 3), tl.sum(H, axis=0), 0.0)
    H *= s
    total += tl.where(a == 4, tl.sum(H, axis=0), 0.0)
    H *= s
    total += tl.where(a == 5, tl.sum(H, axis=0), 0.0)
    total += tl.where(a == 6, tl.sum(g, axis=0), 0.0)
    g *= s
    total += tl.where(a == 7, tl.sum(g, axis=0), 0.0)
    g *= s
    total += tl.where(a == 8, tl.sum(g, axis=0), 0.0)
    return total + tl.where(a == 9, tl.sum(f.to(tl.float64), axis=0), 0.0)
