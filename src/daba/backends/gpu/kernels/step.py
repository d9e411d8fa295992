"""From the solution of the reduced system to the estimate to be tried."""

import triton.language as tl

from daba.backends.gpu.kernels import decisions, formulas, row
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.rows import quad, spots, store_quad
from daba.backends.gpu.kernels.schur import (
    damped_inverse,
    gather_product,
    point_system,
    slot_of,
    where6,
)
from daba.backends.gpu.kernels.slices import head, joined, member

exponential = formulas.exponential
multiply3 = formulas.multiply3
polar_step = formulas.polar_step
STEP_BOUND = decisions.STEP_BOUND


@jit
def ready(table, S, device, SP: tl.constexpr):
    """Whether this device tries a step, and conjugate gradients have ended on all."""
    d = tl.arange(0, SP)
    running = tl.sum(tl.load(table + S * row.RUN + d, mask=d < S, other=0.0), axis=0)
    return (running == 0.0) & (tl.load(table + S * row.TRYING + device) > 0.0)


@jit
def pick(x, a, k):
    """Entry k of a vector."""
    return tl.sum(tl.where(a == k, x, 0.0), axis=0)


@jit
def turned(c, s):
    """exp(ω̂) R, made a rotation again. What does not turn keeps R to the bit."""
    R = multiply3(exponential(s[0], s[1], s[2]), c)
    R = polar_step(polar_step(R))  # rounding must not add up over iterations
    turns = (s[0] != 0.0) | (s[1] != 0.0) | (s[2] != 0.0)
    return (
        tl.where(turns, R[0], c[0]), tl.where(turns, R[1], c[1]), tl.where(turns, R[2], c[2]),
        tl.where(turns, R[3], c[3]), tl.where(turns, R[4], c[4]), tl.where(turns, R[5], c[5]),
        tl.where(turns, R[6], c[6]), tl.where(turns, R[7], c[7]), tl.where(turns, R[8], c[8]),
    )  # fmt: skip


@jit
def place_camera(c, s, out, i):
    """out ← c ⊕ s: R turns, t and d are added to."""
    R = turned(c, s)
    a = tl.arange(0, 16)
    numbers = tl.where(a == 0, R[0], tl.where(a == 1, R[1], tl.where(a == 2, R[2], 0.0)))
    numbers += tl.where(a == 3, R[3], tl.where(a == 4, R[4], tl.where(a == 5, R[5], 0.0)))
    numbers += tl.where(a == 6, R[6], tl.where(a == 7, R[7], tl.where(a == 8, R[8], 0.0)))
    numbers += tl.where(a == 9, c[9] + s[3], tl.where(a == 10, c[10] + s[4], 0.0))
    numbers += tl.where(a == 11, c[11] + s[5], tl.where(a == 12, c[12] + s[6], 0.0))
    numbers += tl.where(a == 13, c[13] + s[7], tl.where(a == 14, c[14] + s[8], 0.0))
    tl.store(out + i * 16 + a, tl.where(a == 15, 1.0, numbers))


@jit
def row_of(cameras, i):
    """The numbers of one camera as they are."""
    p = cameras + i * 16
    return (
        tl.load(p), tl.load(p + 1), tl.load(p + 2), tl.load(p + 3), tl.load(p + 4), tl.load(p + 5),
        tl.load(p + 6), tl.load(p + 7), tl.load(p + 8), tl.load(p + 9), tl.load(p + 10),
        tl.load(p + 11), tl.load(p + 12), tl.load(p + 13), tl.load(p + 14),
    )  # fmt: skip


@jit
def move_cameras(
    owner, cameras, origin, system, bound, x, shares, record_c, trial, table, S, partial,
    CONSTRAINED: tl.constexpr, STRIDE: tl.constexpr, SP: tl.constexpr,
):  # fmt: skip
    """The step of each camera, shortened where it would turn by more than STEP_BOUND, move beyond
    its bound, or change its focal length by more than that share; into v of its record, and applied
    to `origin` into `trial`. By camera the model's decrease −s·(g + ½ U s). CONSTRAINED: there are
    constraints, and of cameras that share d poses are shortened apart from it, and d alike."""
    i = tl.program_id(0)
    if not ready(table, S, tl.load(owner + i), SP):
        return
    a = tl.arange(0, 16)
    s = tl.load(x + i * 16 + a, mask=a < 9, other=0.0).to(tl.float64)
    turn = tl.sqrt(tl.sum(tl.where(a < 3, s * s, 0.0), axis=0))
    move = tl.sqrt(tl.sum(tl.where((a >= 3) & (a < 6), s * s, 0.0), axis=0))
    zoom = tl.abs(pick(s, a, 6))
    excess = tl.maximum(turn / STEP_BOUND, move / tl.load(bound + i))
    zoom = zoom / (tl.abs(tl.load(cameras + i * 16 + 12)) * STEP_BOUND)
    both = tl.maximum(excess, zoom)
    if CONSTRAINED:
        alike = tl.where(a < 6, excess, zoom)
        s = s / tl.maximum(tl.where(tl.load(shares + i) != 0, alike, both), 1.0)
    else:
        s = s / tl.maximum(both, 1.0)
    tl.store(record_c + i * STRIDE + slot_of(a), s, mask=a < 9)
    inside = (a[:, None] < 9) & (a[None, :] < 9)
    U = tl.load(system + i * 256 + a[:, None] * 16 + a[None, :], mask=inside, other=0.0)
    g = tl.load(system + i * 256 + a * 16 + 9, mask=a < 9, other=0.0)
    g += 0.5 * tl.sum(U * s[None, :], axis=1)
    tl.store(partial + i, -tl.sum(s * g, axis=0))
    step = (
        pick(s, a, 0), pick(s, a, 1), pick(s, a, 2), pick(s, a, 3), pick(s, a, 4),
        pick(s, a, 5), pick(s, a, 6), pick(s, a, 7), pick(s, a, 8),
    )  # fmt: skip
    place_camera(row_of(origin, i), step, trial, i)


@jit
def move_points(
    records, heads, members, V, g, points, base, moments, record_c, record_l, held, trial,
    table, S, P, partial, CONSTRAINED: tl.constexpr, FOLLOWS: tl.constexpr, SURROGATE: tl.constexpr,
    XI: tl.constexpr, LEAST: tl.constexpr, KIND: tl.constexpr, RADIUS: tl.constexpr,
    STRIDE: tl.constexpr, SP: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """The step of each point, −V'⁻¹ (g_l + Wᵀ s) and no longer than its bound, applied into
    `trial`; by slice the model's decrease. CONSTRAINED: there are constraints, and some are held.
    FOLLOWS: points only follow their cameras, from where they are in `trial`."""
    n = tl.program_id(0)
    start, width, device, shared = head(heads, n)
    if not ready(table, S, device, SP):
        return
    W: tl.constexpr = record_l.dtype.element_ty
    lane = tl.arange(0, B)
    j, own = member(members, n * B + lane)
    lx, ly, lz, _ = quad(record_l, j * 8)
    w0 = tl.zeros([B], W)
    w1 = tl.zeros([B], W)
    w2 = tl.zeros([B], W)
    for slot in range(width):
        x, y, z = gather_product(
            records, start + slot * B + lane, record_c, (lx, ly, lz), STRIDE, KIND, RADIUS, W
        )
        w0 += x
        w1 += y
        w2 += z
    v, g3 = point_system(V, g, points, base, moments, j, P, SURROGATE, XI)
    i0, i1, i2, i3, i4, i5 = damped_inverse(v, tl.load(table + S * row.RADIUS + device), LEAST)
    if CONSTRAINED:
        moves = tl.load(held + j) == 0
        i0, i1, i2, i3, i4, i5 = where6(moves, i0, i1, i2, i3, i4, i5)
    if FOLLOWS:
        g3 = (tl.zeros_like(g3[0]), tl.zeros_like(g3[1]), tl.zeros_like(g3[2]))
    h0 = g3[0] + joined(shared, w0)
    h1 = g3[1] + joined(shared, w1)
    h2 = g3[2] + joined(shared, w2)
    x = -(i0 * h0 + i1 * h1 + i2 * h2)
    y = -(i1 * h0 + i3 * h1 + i4 * h2)
    z = -(i2 * h0 + i4 * h1 + i5 * h2)
    length = tl.sqrt(x * x + y * y + z * z)
    bound = tl.load(V + 6 * P + j)
    clip = tl.where(length > bound, bound / length, 1.0)
    x *= clip
    y *= clip
    z *= clip
    square = v[0] * x * x + v[3] * y * y + v[5] * z * z
    square += 2.0 * (v[1] * x * y + v[2] * x * z + v[4] * y * z)
    decrease = -(h0 * x + h1 * y + h2 * z + 0.5 * square)
    tl.store(partial + n, tl.sum(tl.where(own, decrease, 0.0), axis=0))
    l = spots(points, j)
    if FOLLOWS:
        l = spots(trial, j)
    store_quad(trial, 4 * j, l[0] + x, l[1] + y, l[2] + z, tl.zeros_like(l[0]), own)
