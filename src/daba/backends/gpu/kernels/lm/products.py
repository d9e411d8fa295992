"""Kernels on stored derivatives: elimination of points, products with S, and diagonal blocks of S.

    S = U' − W V'⁻¹ Wᵀ,  W = J_cᵀ J_l per observation, J_l = −J_t

By point, derivatives lie column after column over slots (`passes.linearize_points`); by frame they
lie row after row, 2 B numbers for each observation (`passes.linearize_images`). Rows of points have
4 numbers, or 8 for symmetric matrices (upper triangle).
"""

import triton.language as tl

from daba.backends.gpu.kernels import decisions, formulas
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.rows import quad, spots
from daba.backends.gpu.kernels.slices import head, joined, member

inverse_symmetric3 = formulas.inverse_symmetric3


@jit
def symmetric(rows, j):
    """The six numbers of each lane's matrix."""
    a, b, c, d = quad(rows, 8 * j)
    e, f, _, _ = quad(rows, 8 * j + 4)
    return a, b, c, d, e, f


@jit
def times(V, x, y, z):
    return (
        V[0] * x + V[1] * y + V[2] * z,
        V[1] * x + V[3] * y + V[4] * z,
        V[2] * x + V[4] * y + V[5] * z,
    )


@jit
def damp_points(V, g, fixed, mu, V_inv, z, P, L: tl.constexpr):
    """V'⁻¹ and z = V'⁻¹ g; zeros for points that stay: they are not eliminated."""
    j = tl.program_id(0) * L + tl.arange(0, L)
    some = j < P
    j = tl.minimum(j, P - 1)
    v0, v1, v2, v3, v4, v5 = symmetric(V, j)
    m = tl.load(mu)
    F: tl.constexpr = decisions.LEAST_DIAGONAL
    i = inverse_symmetric3(
        v0 + m * tl.maximum(v0, F), v1, v2, v3 + m * tl.maximum(v3, F), v4,
        v5 + m * tl.maximum(v5, F),
    )  # fmt: skip
    free = tl.load(fixed + j) == 0
    i = (
        tl.where(free, i[0], 0.0), tl.where(free, i[1], 0.0), tl.where(free, i[2], 0.0),
        tl.where(free, i[3], 0.0), tl.where(free, i[4], 0.0), tl.where(free, i[5], 0.0),
    )  # fmt: skip
    for n in tl.static_range(6):
        tl.store(V_inv + 8 * j + n, i[n], mask=some)
    x = times(i, *spots(g, j))
    for n in tl.static_range(3):
        tl.store(z + 4 * j + n, x[n], mask=some)


@jit
def along(J, size, ends, at, v, v_s, B: tl.constexpr, G: tl.constexpr):
    """Both rows of J_c v + J_g v_s of the observations at these slots."""
    i, _, _, image = quad(ends, 4 * at)
    p = tl.zeros_like(at).to(tl.float64)
    q = p
    for n in tl.static_range(B):
        x = tl.load(v + i * B + n)
        p += tl.load(J + n * size + at) * x
        q += tl.load(J + (B + n) * size + at) * x
    for n in tl.static_range(G):
        x = tl.load(v_s + image * G + n)
        p += tl.load(J + (2 * B + n) * size + at) * x
        q += tl.load(J + (2 * B + G + n) * size + at) * x
    return p, q


@jit
def pulled(
    J, size, ends, start, width, lane, shared, v, v_s, B: tl.constexpr, G: tl.constexpr,
    L: tl.constexpr,
):  # fmt: skip
    """Wᵀ v of each lane's point."""
    x = tl.zeros([L], tl.float64)
    y = x
    z = x
    for slot in range(width):
        at = start + slot * L + lane
        p, q = along(J, size, ends, at, v, v_s, B, G)
        x -= tl.load(J + 3 * size + at) * p + tl.load(J + (B + 3) * size + at) * q
        y -= tl.load(J + 4 * size + at) * p + tl.load(J + (B + 4) * size + at) * q
        z -= tl.load(J + 5 * size + at) * p + tl.load(J + (B + 5) * size + at) * q
    return joined(shared, x), joined(shared, y), joined(shared, z)


@jit
def pull(
    J, size, ends, heads, members, v, v_s, V_inv, h, B: tl.constexpr, G: tl.constexpr,
    L: tl.constexpr,
):  # fmt: skip
    """h = V'⁻¹ Wᵀ v of each point."""
    n = tl.program_id(0)
    lane = tl.arange(0, L)
    start, width, _device, shared = head(heads, n)
    j, own = member(members, n * L + lane)
    x, y, z = pulled(J, size, ends, start, width, lane, shared, v, v_s, B, G, L)
    x, y, z = times(symmetric(V_inv, j), x, y, z)
    tl.store(h + 4 * j, x, mask=own)
    tl.store(h + 4 * j + 1, y, mask=own)
    tl.store(h + 4 * j + 2, z, mask=own)


@jit
def back_substitute(
    J, size, ends, heads, members, v, v_s, V, V_inv, g, bound, step, partial, B: tl.constexpr,
    G: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """step = −V'⁻¹ (g + Wᵀ v) of points, no longer than their bound; and what the model says they
    lower, −(g + Wᵀ v)·δ − ½ δᵀVδ, by slice."""
    n = tl.program_id(0)
    lane = tl.arange(0, L)
    start, width, _device, shared = head(heads, n)
    j, own = member(members, n * L + lane)
    x, y, z = pulled(J, size, ends, start, width, lane, shared, v, v_s, B, G, L)
    a, b, c = spots(g, j)
    a += x
    b += y
    c += z
    x, y, z = times(symmetric(V_inv, j), -a, -b, -c)
    length = tl.sqrt(x * x + y * y + z * z)
    reach = tl.load(bound + j)
    clip = tl.where(length > reach, reach / length, 1.0)
    x *= clip
    y *= clip
    z *= clip
    tl.store(step + 4 * j, x, mask=own)
    tl.store(step + 4 * j + 1, y, mask=own)
    tl.store(step + 4 * j + 2, z, mask=own)
    p, q, r = times(symmetric(V, j), x, y, z)
    lowered = -(a * x + b * y + c * z) - 0.5 * (p * x + q * y + r * z)
    tl.store(partial + n, tl.sum(tl.where(own, lowered, 0.0), axis=0))


@jit
def rows_at(J, at, column, some, B: tl.constexpr):
    """Both rows of J_c of the observations at `at`, as tiles."""
    to = J + at[:, None] * (2 * B) + column[None, :]
    mask = some[:, None] & (column < B)[None, :]
    return tl.load(to, mask=mask, other=0.0), tl.load(to + B, mask=mask, other=0.0)


@jit
def by_point(J, at, B: tl.constexpr):
    """J_t of both rows, as numbers of each lane; J_l is its negative."""
    to = J + at * (2 * B)
    return (
        tl.load(to + 3), tl.load(to + 4), tl.load(to + 5), tl.load(to + B + 3),
        tl.load(to + B + 4), tl.load(to + B + 5),
    )  # fmt: skip


@jit
def push(
    J, begins, point, h, D, v, X, v_s, image_begins, g, free, out, PRODUCT: tl.constexpr,
    B: tl.constexpr, G: tl.constexpr, WG: tl.constexpr, W: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """Of each frame S v = D v + X v_s − W h, or with PRODUCT = 0, W h − g."""
    i = tl.program_id(0)
    first = tl.load(begins + i)
    last = tl.load(begins + i + 1)
    lane = tl.arange(0, L)
    column = tl.arange(0, W)
    sums = tl.zeros([L, W], tl.float64)
    for n in range(first, last, L):
        some = n + lane < last
        at = tl.minimum(n + lane, last - 1)
        a, b = rows_at(J, at, column, some, B)
        x, y, z = spots(h, tl.load(point + at))
        t = by_point(J, at, B)
        p = t[0] * x + t[1] * y + t[2] * z
        q = t[3] * x + t[4] * y + t[5] * z
        sums += a * p[:, None] + b * q[:, None]
    Wh = -tl.sum(sums, axis=0)
    inside = column < B
    if PRODUCT:
        cell = D + (i * B + column[:, None]) * B + column[None, :]
        tile = tl.load(cell, mask=inside[:, None] & inside[None, :], other=0.0)
        total = tl.sum(tile * tl.load(v + i * B + column, mask=inside, other=0.0)[None, :], axis=1)
        if G > 0:
            other = tl.arange(0, WG)
            for m in range(tl.load(image_begins + i), tl.load(image_begins + i + 1)):
                cell = X + (m * B + column[:, None]) * G + other[None, :]
                tile = tl.load(cell, mask=inside[:, None] & (other < G)[None, :], other=0.0)
                x = tl.load(v_s + m * G + other, mask=other < G, other=0.0)
                total += tl.sum(tile * x[None, :], axis=1)
        total -= Wh
    else:
        total = Wh - tl.load(g + i * B + column, mask=inside, other=0.0)
    total *= tl.load(free + i * B + column, mask=inside, other=0.0)
    tl.store(out + i * B + column, total, mask=inside)


@jit
def one_symmetric(rows, j):
    """The six numbers of one matrix."""
    at = rows + 8 * j
    return (
        tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3), tl.load(at + 4),
        tl.load(at + 5),
    )  # fmt: skip


@jit
def core(k, m, V):
    """J_l V'⁻¹ J_lᵀ (2×2) of two observations of one point."""
    a, b, c = times(V, k[0], k[1], k[2])
    d, e, f = times(V, k[3], k[4], k[5])
    return (
        a * m[0] + b * m[1] + c * m[2],
        a * m[3] + b * m[4] + c * m[5],
        d * m[0] + e * m[1] + f * m[2],
        d * m[3] + e * m[4] + f * m[5],
    )


@jit
def form(
    J, begins, blocks, left, right, point, V_inv, D, free, matrices, rows_of_S, B: tl.constexpr,
    W: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """The blocks of S between frames of one cluster, in its lower triangle. Each is summed over
    the pairs of observations `left`, `right` of a common point. `blocks` are frame, frame, and
    where the block begins in S; rows of what is fixed become the unit's."""
    b = tl.program_id(0)
    first = tl.load(begins + b)
    last = tl.load(begins + b + 1)
    i = tl.load(blocks + 4 * b)
    k = tl.load(blocks + 4 * b + 1)
    to = tl.load(blocks + 4 * b + 2)
    lane = tl.arange(0, L)
    column = tl.arange(0, W)
    inside = column < B
    both = inside[:, None] & inside[None, :]
    tile = tl.zeros([W, W], tl.float64)
    for at in range(first, last, L):
        some = at + lane < last
        pair = tl.minimum(at + lane, last - 1)
        x = tl.load(left + pair)
        y = tl.load(right + pair)
        p, q, r, s = core(
            by_point(J, x, B), by_point(J, y, B), symmetric(V_inv, tl.load(point + x))
        )
        a, c = rows_at(J, x, column, some, B)
        e, f = rows_at(J, y, column, some, B)
        u = tl.sum((a * p[:, None] + c * r[:, None])[:, :, None], axis=2)
        w = tl.sum((a * q[:, None] + c * s[:, None])[:, :, None], axis=2)
        e = tl.sum(e[:, :, None], axis=2)
        f = tl.sum(f[:, :, None], axis=2)
        tile = tl.dot(tl.trans(u), e, tile, input_precision="ieee", out_dtype=tl.float64)
        tile = tl.dot(tl.trans(w), f, tile, input_precision="ieee", out_dtype=tl.float64)
    row = tl.load(free + i * B + column, mask=inside, other=0.0)
    col = tl.load(free + k * B + column, mask=inside, other=0.0)
    if i == k:
        cell = D + (i * B + column[:, None]) * B + column[None, :]
        tile = tl.load(cell, mask=both, other=0.0) - tile
        tile = tile * row[:, None] * col[None, :]
        held = (column[:, None] == column[None, :]) & (row == 0.0)[:, None]
        tile = tl.where(held, 1.0, tile)
    else:
        tile = -tile * row[:, None] * col[None, :]
    tl.store(matrices + to + column[:, None] * rows_of_S + column[None, :], tile, mask=both)


@jit
def add_rows(
    values, begins, index, out, stride, columns, CHOSEN: tl.constexpr, WIDE: tl.constexpr,
    L: tl.constexpr,
):  # fmt: skip
    """out[s] = Σ values[n] over begins[s] ≤ n < begins[s+1], in a fixed order; with CHOSEN, of
    values[index[n]]."""
    s = tl.program_id(0)
    column = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    lane = tl.arange(0, L)
    first = tl.load(begins + s)
    last = tl.load(begins + s + 1)
    sums = tl.zeros([L, WIDE], tl.float64)
    for n in range(first, last, L):
        some = n + lane < last
        at = tl.minimum(n + lane, last - 1)
        if CHOSEN:
            at = tl.load(index + at).to(tl.int64)
        cell = values + at[:, None] * stride + column[None, :]
        sums += tl.load(cell, mask=some[:, None] & (column < columns)[None, :], other=0.0)
    tl.store(out + s * columns + column, tl.sum(sums, axis=0), mask=column < columns)
