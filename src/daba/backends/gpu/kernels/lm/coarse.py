"""Kernels of the coarse space and of local eigenmodes, as in `backends/cpu/lm/coarse.py`.

An entry is a point and a block that sees it; its Y is (3, w), w numbers for each coordinate of the
point.
"""

import triton.language as tl

from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.lm.products import (
    by_point,
    inverse_symmetric3,
    one_symmetric,
    rows_at,
    symmetric,
    times,
)
from daba.backends.gpu.kernels.rows import spots

RIDGE = tl.constexpr(1e-9)
"""Of V_c, relative to its largest diagonal entry."""


@jit
def coarse_rows(
    J, size, ends, begins, slots, block, clusters, Z, Y, modes, width, B: tl.constexpr,
    G: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Y of each entry, from the observations at its slots: Zᵀ W of a cluster of frames, J_gᵀ J_l of
    a group of images."""
    y = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, W)
    first = tl.load(begins + y)
    last = tl.load(begins + y + 1)
    of_group = tl.load(block + y) >= clusters
    y0 = tl.zeros([W], tl.float64)
    y1 = y0
    y2 = y0
    for n in range(first, last):
        at = tl.load(slots + n).to(tl.int64)
        p = tl.zeros([W], tl.float64)
        q = p
        if of_group:
            if G > 0:
                p = tl.load(J + (2 * B + column) * size + at, mask=column < G, other=0.0)
                q = tl.load(J + (2 * B + G + column) * size + at, mask=column < G, other=0.0)
        else:
            i = tl.load(ends + 4 * at)
            for b in tl.static_range(B):
                z = tl.load(Z + (i * B + b) * modes + column, mask=column < modes, other=0.0)
                p += tl.load(J + b * size + at) * z
                q += tl.load(J + (B + b) * size + at) * z
        y0 -= p * tl.load(J + 3 * size + at) + q * tl.load(J + (B + 3) * size + at)
        y1 -= p * tl.load(J + 4 * size + at) + q * tl.load(J + (B + 4) * size + at)
        y2 -= p * tl.load(J + 5 * size + at) + q * tl.load(J + (B + 5) * size + at)
    to = Y + y * 3 * width + column
    tl.store(to, y0, mask=column < width)
    tl.store(to + width, y1, mask=column < width)
    tl.store(to + 2 * width, y2, mask=column < width)


@jit
def entry(Y, y, column, width, some):
    """Y of entries, one tile for each coordinate."""
    to = Y + y[:, None] * (3 * width) + column[None, :]
    mask = some[:, None] & (column < width)[None, :]
    return (
        tl.load(to, mask=mask, other=0.0),
        tl.load(to + width, mask=mask, other=0.0),
        tl.load(to + 2 * width, mask=mask, other=0.0),
    )


@jit
def coarse_matrix(Y, width, begins, left, right, owner, V_inv, out, W: tl.constexpr):
    """Σ Y_q V'⁻¹ Y_rᵀ over the pairs of entries of each program; `owner` is an entry's point. Pair
    by pair: as products of matrices it takes nearly twice as long."""
    t = tl.program_id(0)
    row = tl.arange(0, W)[:, None]
    col = tl.arange(0, W)[None, :]
    tile = tl.zeros([W, W], tl.float64)
    for n in range(tl.load(begins + t), tl.load(begins + t + 1)):
        q = tl.load(left + n).to(tl.int64)
        V = one_symmetric(V_inv, tl.load(owner + q))
        x = Y + q * (3 * width) + row
        y = Y + tl.load(right + n).to(tl.int64) * (3 * width) + col
        a = tl.load(x, mask=row < width, other=0.0)
        b = tl.load(x + width, mask=row < width, other=0.0)
        c = tl.load(x + 2 * width, mask=row < width, other=0.0)
        d = tl.load(y, mask=col < width, other=0.0)
        e = tl.load(y + width, mask=col < width, other=0.0)
        f = tl.load(y + 2 * width, mask=col < width, other=0.0)
        a, b, c = times(V, a, b, c)
        tile += a * d + b * e + c * f
    cell = out + t * width * width + row * width + col
    tl.store(cell, tile, mask=(row < width) & (col < width))


@jit
def coarse_dots(Y, width, begins, entries, owner, h, out, W: tl.constexpr, L: tl.constexpr):
    """Σ Y h over the entries of each program."""
    t = tl.program_id(0)
    first = tl.load(begins + t)
    last = tl.load(begins + t + 1)
    lane = tl.arange(0, L)
    column = tl.arange(0, W)
    sums = tl.zeros([L, W], tl.float64)
    for n in range(first, last, L):
        some = n + lane < last
        y = tl.load(entries + tl.minimum(n + lane, last - 1)).to(tl.int64)
        a, b, c = entry(Y, y, column, width, some)
        x = spots(h, tl.load(owner + y))
        sums += a * x[0][:, None] + b * x[1][:, None] + c * x[2][:, None]
    tl.store(out + t * width + column, tl.sum(sums, axis=0), mask=column < width)


@jit
def coarse_correct(Y, width, begins, block, c, V_inv, h, P, W: tl.constexpr, L: tl.constexpr):
    """h −= V'⁻¹ Σ Yᵀ c of points; c is by block, (blocks, w)."""
    j = tl.program_id(0) * L + tl.arange(0, L)
    some = j < P
    j = tl.minimum(j, P - 1)
    column = tl.arange(0, W)
    first = tl.load(begins + j)
    count = tl.where(some, tl.load(begins + j + 1) - first, 0)
    x = tl.zeros([L], tl.float64)
    y = x
    z = x
    for n in range(tl.max(count, axis=0)):
        here = n < count
        at = tl.where(here, first + n, 0)
        e0, e1, e2 = entry(Y, at, column, width, here)
        q = tl.load(block + at)
        mask = here[:, None] & (column < width)[None, :]
        w = tl.load(c + q[:, None] * width + column[None, :], mask=mask, other=0.0)
        x += tl.sum(e0 * w, axis=1)
        y += tl.sum(e1 * w, axis=1)
        z += tl.sum(e2 * w, axis=1)
    x, y, z = times(symmetric(V_inv, j), x, y, z)
    a, b, d = spots(h, j)
    tl.store(h + 4 * j, a - x, mask=some)
    tl.store(h + 4 * j + 1, b - y, mask=some)
    tl.store(h + 4 * j + 2, d - z, mask=some)


@jit
def gap_runs(J, begins, rows, run_point, V_inv, K, runs, B: tl.constexpr, L: tl.constexpr):
    """K = V_c⁻¹ − V'⁻¹ of each run: V_c is V of the run's observations alone, of one point by the
    frames of one cluster. A ridge keeps it regular where they do not determine the point."""
    r = tl.program_id(0) * L + tl.arange(0, L)
    some = r < runs
    r = tl.minimum(r, runs - 1)
    first = tl.load(begins + r)
    count = tl.load(begins + r + 1) - first
    a = tl.zeros([L], tl.float64)
    b = a
    c = a
    d = a
    e = a
    f = a
    for n in range(tl.max(count, axis=0)):
        here = n < count
        t = by_point(J, tl.load(rows + tl.where(here, first + n, 0)), B)
        a += tl.where(here, t[0] * t[0] + t[3] * t[3], 0.0)
        b += tl.where(here, t[0] * t[1] + t[3] * t[4], 0.0)
        c += tl.where(here, t[0] * t[2] + t[3] * t[5], 0.0)
        d += tl.where(here, t[1] * t[1] + t[4] * t[4], 0.0)
        e += tl.where(here, t[1] * t[2] + t[4] * t[5], 0.0)
        f += tl.where(here, t[2] * t[2] + t[5] * t[5], 0.0)
    ridge = tl.maximum(a, tl.maximum(d, f)) * RIDGE
    V = symmetric(V_inv, tl.load(run_point + r))
    good = (ridge > 0.0) & (V[0] > 0.0)
    one = tl.where(good, 0.0, 1.0)
    i = inverse_symmetric3(
        tl.where(good, a + ridge, one), b, c, tl.where(good, d + ridge, one), e,
        tl.where(good, f + ridge, one),
    )  # fmt: skip
    for n in tl.static_range(6):
        tl.store(K + 8 * r + n, tl.where(good, i[n] - V[n], 0.0), mask=some)


@jit
def gap_pull(J, begins, rows, frame, K, X, q, w, B: tl.constexpr, W: tl.constexpr):
    """q = K W_cᵀ X of each run, (3, w), for the motions X of frames, (F, B, w)."""
    r = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, W)
    inside = column < w
    x = tl.zeros([W], tl.float64)
    y = x
    z = x
    for n in range(tl.load(begins + r), tl.load(begins + r + 1)):
        k = tl.load(rows + n).to(tl.int64)
        i = tl.load(frame + k)
        g = tl.zeros([W], tl.float64)
        h = g
        for b in tl.static_range(B):
            m = tl.load(X + (i * B + b) * w + column, mask=inside, other=0.0)
            g += tl.load(J + k * (2 * B) + b) * m
            h += tl.load(J + k * (2 * B) + B + b) * m
        t = by_point(J, k, B)
        x -= t[0] * g + t[3] * h
        y -= t[1] * g + t[4] * h
        z -= t[2] * g + t[5] * h
    at = K + 8 * r
    V = (
        tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3), tl.load(at + 4),
        tl.load(at + 5),
    )  # fmt: skip
    x, y, z = times(V, x, y, z)
    to = q + r * 3 * w + column
    tl.store(to, x, mask=inside)
    tl.store(to + w, y, mask=inside)
    tl.store(to + 2 * w, z, mask=inside)


@jit
def push_columns(
    J, begins, number, q, w, out, B: tl.constexpr, WB: tl.constexpr, W: tl.constexpr,
    L: tl.constexpr,
):  # fmt: skip
    """Σ W_c q of each frame, (B, w); `number` is the row of q of each observation, −1 for none."""
    i = tl.program_id(0)
    lane = tl.arange(0, L)
    row = tl.arange(0, WB)
    column = tl.arange(0, W)
    first = tl.load(begins + i)
    last = tl.load(begins + i + 1)
    tile = tl.zeros([WB, W], tl.float64)
    for n in range(first, last, L):
        at = tl.minimum(n + lane, last - 1)
        r = tl.load(number + at).to(tl.int64)
        some = (n + lane < last) & (r >= 0)
        a, b = rows_at(J, at, row, some, B)
        x, y, z = entry(q, tl.maximum(r, 0), column, w, some)
        t = by_point(J, at, B)
        g = t[0][:, None] * x + t[1][:, None] * y + t[2][:, None] * z
        h = t[3][:, None] * x + t[4][:, None] * y + t[5][:, None] * z
        a = tl.sum(a[:, :, None], axis=2)  # see `kernels/rows.row16`
        b = tl.sum(b[:, :, None], axis=2)
        g = tl.sum(g[:, :, None], axis=2)
        h = tl.sum(h[:, :, None], axis=2)
        tile = tl.dot(tl.trans(a), g, tile, input_precision="ieee", out_dtype=tl.float64)
        tile = tl.dot(tl.trans(b), h, tile, input_precision="ieee", out_dtype=tl.float64)
    cell = out + (i * B + row[:, None]) * w + column[None, :]
    tl.store(cell, -tile, mask=(row < B)[:, None] & (column < w)[None, :])
