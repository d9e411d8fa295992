"""Moving the estimate: Nesterov extrapolation, and taking what a step has found."""

import triton.language as tl

from daba.backends.gpu.kernels import decisions, formulas, row
from daba.backends.gpu.kernels.exact import double
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.rows import quad, spots, store_quad
from daba.backends.gpu.kernels.slices import head, member

polar_step = formulas.polar_step


@jit
def extrapolate_cameras(cameras, last, s, out, C, B: tl.constexpr):
    """x̄ = Proj(x + γ (x − x_last)), γ by camera; s ← s⁺. Seven steps bring any such matrix, whose
    singular values are at most 3, to a rotation within rounding."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < C
    i = tl.minimum(i, C - 1)
    now = tl.load(s + i)
    gamma, after = decisions.nesterov(now)
    a0, a1, a2, a3 = ahead(cameras, last, 16 * i, gamma)
    a4, a5, a6, a7 = ahead(cameras, last, 16 * i + 4, gamma)
    a8, t0, t1, t2 = ahead(cameras, last, 16 * i + 8, gamma)
    d0, d1, d2, _ = ahead(cameras, last, 16 * i + 12, gamma)
    R = (a0, a1, a2, a3, a4, a5, a6, a7, a8)
    for _ in tl.static_range(7):
        R = polar_step(R)
    tl.store(s + i, after, mask=inside)
    store_quad(out, 16 * i, R[0], R[1], R[2], R[3], inside)
    store_quad(out, 16 * i + 4, R[4], R[5], R[6], R[7], inside)
    store_quad(out, 16 * i + 8, R[8], t0, t1, t2, inside)
    store_quad(out, 16 * i + 12, d0, d1, d2, tl.full([B], 1.0, tl.float64), inside)


@jit
def ahead(x, last, at, gamma):
    a0, a1, a2, a3 = quad(x, at)
    b0, b1, b2, b3 = quad(last, at)
    return (
        a0 + gamma * (a0 - b0), a1 + gamma * (a1 - b1), a2 + gamma * (a2 - b2),
        a3 + gamma * (a3 - b3),
    )  # fmt: skip


@jit
def extrapolate_points(
    points, last, centroid, table, S, out, P, CLIP: tl.constexpr, CLIPPED: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    """l̄ = l + γ (l − l_last), no further than CLIP × the distance from l to the
    centroid of its cameras."""
    j = tl.program_id(0) * B + tl.arange(0, B)
    inside = j < P
    j = tl.minimum(j, P - 1)
    gamma = tl.load(table + S * row.GAMMA)
    l = spots(points, j)
    old = spots(last, j)
    x = gamma * (l[0] - old[0])
    y = gamma * (l[1] - old[1])
    z = gamma * (l[2] - old[2])
    if CLIPPED:
        m = spots(centroid, j)
        clip = double(CLIP)
        u = clip * (l[0] - m[0])
        v = clip * (l[1] - m[1])
        w = clip * (l[2] - m[2])
        bound = u * u + v * v + w * w
        length = x * x + y * y + z * z
        cut = tl.where(length > bound, tl.sqrt(bound / length), 1.0)
        x *= cut
        y *= cut
        z *= cut
    store_quad(out, 4 * j, l[0] + x, l[1] + y, l[2] + z, tl.zeros_like(x), inside)


@jit
def settle_cameras(owner, cameras, new, table, S):
    """x⁺ ← x on devices that found no step."""
    i = tl.program_id(0)
    if tl.load(table + S * row.STATUS) != row.DONE:
        return
    if tl.load(table + S * row.MOVED + tl.load(owner + i)) != 0.0:
        return
    a = tl.arange(0, 16)
    tl.store(new + i * 16 + a, tl.load(cameras + i * 16 + a))


@jit
def settle_points(heads, members, points, new, table, S, B: tl.constexpr):
    """The same for points."""
    n = tl.program_id(0)
    if tl.load(table + S * row.STATUS) != row.DONE:
        return
    _, _, device, _ = head(heads, n)
    if tl.load(table + S * row.MOVED + device) != 0.0:
        return
    j, own = member(members, n * B + tl.arange(0, B))
    l = spots(points, j)
    tl.store(new + 4 * j, l[0], mask=own)
    tl.store(new + 4 * j + 1, l[1], mask=own)
    tl.store(new + 4 * j + 2, l[2], mask=own)


@jit
def shift(x, last, new, count, table, S, LAST: tl.constexpr, B: tl.constexpr):
    """x_last ← x, x ← x⁺."""
    if tl.load(table + S * row.STATUS) != row.DONE:
        return
    o = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    if LAST:
        tl.store(last + o, tl.load(x + o, mask=o < count), mask=o < count)
    tl.store(x + o, tl.load(new + o, mask=o < count), mask=o < count)


@jit
def reset_momentum(x_bar, new, cameras, distance, s, C, table, S, B: tl.constexpr):
    """s ← 1 for each camera that went back on its momentum."""
    if tl.load(table + S * row.STATUS) != row.DONE:
        return
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < C
    turn = tl.zeros([B], tl.float64)
    move = tl.zeros([B], tl.float64)
    for a in tl.static_range(9):
        turn += back(x_bar, new, cameras, i * 16 + a, inside)
    for a in tl.static_range(9, 12):
        move += back(x_bar, new, cameras, i * 16 + a, inside)
    zoom = back(x_bar, new, cameras, i * 16 + 12, inside)
    far = tl.load(distance + i, mask=inside, other=1.0)
    tl.store(s + i, 1.0, mask=inside & decisions.goes_back(turn, move, zoom, far))


@jit
def back(x_bar, new, x, at, inside):
    """(x̄ − x⁺)(x⁺ − x) of one number."""
    here = tl.load(new + at, mask=inside, other=0.0)
    ahead_of = tl.load(x_bar + at, mask=inside, other=0.0) - here
    return ahead_of * (here - tl.load(x + at, mask=inside, other=0.0))
