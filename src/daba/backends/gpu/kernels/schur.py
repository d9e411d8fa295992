"""Elimination of points: damping, the reduced right-hand side, S's diagonal, S·v.

    S = U' − W V'⁻¹ Wᵀ

Nothing of an observation is stored: its derivatives are computed anew in every product, from
records of cameras (R, t, d and v) and points (l and y) in the linear solver's precision.
Coordinates in these records are counted from the centroid of the device's cameras.
"""

import triton.language as tl

from daba.backends.gpu.kernels import decisions, formulas, row
from daba.backends.gpu.kernels.blocks import (
    add_block,
    empty_block,
    nothing9,
    plus9,
    store_block,
    times9,
    whole_row,
)
from daba.backends.gpu.kernels.exact import penalty
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.rows import observe, one_camera, quad, record, spots, store_quad
from daba.backends.gpu.kernels.slices import add9, head, joined, member

normal_basis = formulas.normal_basis
derivative_row = formulas.derivative_row
across = formulas.across
along_camera = formulas.along_camera
camera_pull = formulas.camera_pull
inverse_symmetric3 = formulas.inverse_symmetric3
DIAGONAL_FLOOR = decisions.DIAGONAL_FLOOR


@jit
def slot_of(a):
    """Where the linear solver's record of a camera keeps entry a of v: the first eight behind R, t
    and d, and the ninth between."""
    return tl.where(a < 8, 16 + a, 15)


@jit
def fill_cameras(cameras, owner, centroid, record_c, C, STRIDE: tl.constexpr, B: tl.constexpr):
    """R, t, d of the linear solver's records."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    i = at // 16
    a = at % 16
    mask = (i < C) & (a < 15)
    device = tl.load(owner + i, mask=mask, other=0)
    shift = tl.load(centroid + 3 * device + a - 9, mask=mask & (a >= 9) & (a < 12), other=0.0)
    value = tl.load(cameras + at, mask=mask, other=0.0) - shift
    tl.store(record_c + i * STRIDE + a, value, mask=mask)


@jit
def point_system(V, g, points, base, moments, j, P, SURROGATE: tl.constexpr, XI: tl.constexpr):
    """V and g_l of E^α at each lane's point: of intra observations, of Q_j and of ½ξ|l − l̂|²."""
    v0 = tl.load(V + j)
    v1 = tl.load(V + P + j)
    v2 = tl.load(V + 2 * P + j)
    v3 = tl.load(V + 3 * P + j)
    v4 = tl.load(V + 4 * P + j)
    v5 = tl.load(V + 5 * P + j)
    g0 = tl.load(g + j)
    g1 = tl.load(g + P + j)
    g2 = tl.load(g + 2 * P + j)
    if SURROGATE:
        T: tl.constexpr = V.dtype.element_ty
        A, b0, b1, b2 = quad(moments, 4 * j)
        l = spots(points, j)
        hat = spots(base, j)
        curvature = 2.0 * A + XI
        v0 += curvature.to(T)
        v3 += curvature.to(T)
        v5 += curvature.to(T)
        g0 += curvature * (l[0] - hat[0]) - 2.0 * b0
        g1 += curvature * (l[1] - hat[1]) - 2.0 * b1
        g2 += curvature * (l[2] - hat[2]) - 2.0 * b2
    return (v0, v1, v2, v3, v4, v5), (g0, g1, g2)


@jit
def damp_points(
    heads, members, V, g, points, base, moments, centroid, v_inv, record_l, held, table, S, P,
    CONSTRAINED: tl.constexpr, SURROGATE: tl.constexpr, XI: tl.constexpr, LEAST: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    """V'⁻¹ of each point, rows of (P, 8); and its record, with z = V'⁻¹ g_l for y. CONSTRAINED:
    there are constraints, and points that are held are not eliminated."""
    n = tl.program_id(0)
    _, _, device, _ = head(heads, n)
    if tl.load(table + S * row.TRYING + device) == 0.0:
        return
    j, own = member(members, n * B + tl.arange(0, B))
    v, g3 = point_system(V, g, points, base, moments, j, P, SURROGATE, XI)
    W: tl.constexpr = record_l.dtype.element_ty
    i0, i1, i2, i3, i4, i5 = damped_inverse(v, tl.load(table + S * row.RADIUS + device), LEAST)
    if CONSTRAINED:
        moves = tl.load(held + j) == 0
        i0, i1, i2, i3, i4, i5 = where6(moves, i0, i1, i2, i3, i4, i5)
    o = tl.zeros([B], W)
    store_quad(v_inv, 8 * j, i0.to(W), i1.to(W), i2.to(W), i3.to(W), own)
    store_quad(v_inv, 8 * j + 4, i4.to(W), i5.to(W), o, o, own)
    l = spots(points, j)
    centroid += 3 * device
    x = (l[0] - tl.load(centroid)).to(W)
    y = (l[1] - tl.load(centroid + 1)).to(W)
    z = (l[2] - tl.load(centroid + 2)).to(W)
    store_quad(record_l, 8 * j, x, y, z, o, own)
    x = (i0 * g3[0] + i1 * g3[1] + i2 * g3[2]).to(W)
    y = (i1 * g3[0] + i3 * g3[1] + i4 * g3[2]).to(W)
    z = (i2 * g3[0] + i4 * g3[1] + i5 * g3[2]).to(W)
    store_quad(record_l, 8 * j + 4, x, y, z, o, own)


@jit
def damped_inverse(v, radius, LEAST: tl.constexpr):
    """V'⁻¹, with the digits of V: a distant point has hardly any curvature along its depth."""
    mu = tl.maximum(1.0 / radius, LEAST).to(v[0].dtype)
    return inverse_symmetric3(
        v[0] + mu * tl.maximum(v[0], DIAGONAL_FLOOR), v[1], v[2],
        v[3] + mu * tl.maximum(v[3], DIAGONAL_FLOOR), v[4],
        v[5] + mu * tl.maximum(v[5], DIAGONAL_FLOOR),
    )  # fmt: skip


@jit
def where6(moves, i0, i1, i2, i3, i4, i5):
    return (
        tl.where(moves, i0, 0.0), tl.where(moves, i1, 0.0), tl.where(moves, i2, 0.0),
        tl.where(moves, i3, 0.0), tl.where(moves, i4, 0.0), tl.where(moves, i5, 0.0),
    )  # fmt: skip


@jit
def eliminate(
    records, begins, owner, record_c, record_l, v_inv, tiles, table, S,
    KIND: tl.constexpr, RADIUS: tl.constexpr, STRIDE: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Of each camera the diagonal block of W V'⁻¹ Wᵀ and, as its tenth column, W z."""
    i = tl.program_id(0)
    if tl.load(table + S * row.TRYING + tl.load(owner + i)) == 0.0:
        return
    W: tl.constexpr = record_c.dtype.element_ty
    lane = tl.arange(0, B)
    c, t = one_camera(record_c, i * STRIDE, W)
    first = tl.load(begins + i)
    last = tl.load(begins + i + 1)
    block = empty_block(tl.zeros([B], W))
    Wz = nothing9(tl.zeros([B], W))
    for n in range(first, last, B):
        ux, uy, weight, j = record(records, tl.minimum(n + lane, last - 1), W)
        weight = tl.where(n + lane < last, weight, 0.0)
        lx, ly, lz, _ = quad(record_l, j * 8)
        zx, zy, zz, _ = quad(record_l, j * 8 + 4)
        i0, i1, i2, i3 = quad(v_inv, j * 8)
        i4, i5, _, _ = quad(v_inv, j * 8 + 4)
        ex, ey, ez, lam, dx, dy, dz, qx, qy, qz, s = observe(c, t, (lx, ly, lz), ux, uy, weight, W)
        _, w, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        zx, zy, zz = across(dx, dy, dz, zx, zy, zz)
        x = -w * lam
        Wz = plus9(Wz, x, camera_pull(c, lam, qx, qy, qz, s, zx, zy, zz))
        ax, ay, az, bx, by, bz = normal_basis(dx, dy, dz)
        # w² λ² times b V'⁻¹ b, 2×2
        x = x * x
        vx = i0 * ax + i1 * ay + i2 * az
        vy = i1 * ax + i3 * ay + i4 * az
        vz = i2 * ax + i4 * ay + i5 * az
        aa = x * (vx * ax + vy * ay + vz * az)
        ab = x * (vx * bx + vy * by + vz * bz)
        bb = x * (
            bx * (i0 * bx + i1 * by + i2 * bz)
            + by * (i1 * bx + i3 * by + i4 * bz)
            + bz * (i2 * bx + i4 * by + i5 * bz)
        )
        J = whole_row(derivative_row(c, lam, qx, qy, qz, ax, ay, az), s)
        K = whole_row(derivative_row(c, lam, qx, qy, qz, bx, by, bz), s)
        block = add_block(block, plus9(times9(aa, J), ab, K), J)
        block = add_block(block, plus9(times9(ab, J), bb, K), K)
    store_block(tiles + i * 256, block, Wz)


@jit
def gather_product(records, at, record_c, l, STRIDE: tl.constexpr, KIND: tl.constexpr,
                   RADIUS: tl.constexpr, W: tl.constexpr):  # fmt: skip
    """J_lᵀ J_c v of one observation of each lane, v from the camera's record."""
    ux, uy, weight, i = record(records, at, W)
    at = i * STRIDE
    a0, a1, a2, a3 = quad(record_c, at)
    a4, a5, a6, a7 = quad(record_c, at + 4)
    a8, tx, ty, tz = quad(record_c, at + 8)
    d0, d1, d2, v8 = quad(record_c, at + 12)
    v0, v1, v2, v3 = quad(record_c, at + 16)
    v4, v5, v6, v7 = quad(record_c, at + 20)
    c = (a0, a1, a2, a3, a4, a5, a6, a7, a8, 0.0, 0.0, 0.0, d0, d1, d2)
    ex, ey, ez, lam, dx, dy, dz, qx, qy, qz, s = observe(c, (tx, ty, tz), l, ux, uy, weight, W)
    _, w, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
    x, y, z = along_camera(c, lam, qx, qy, qz, s, (v0, v1, v2, v3, v4, v5, v6, v7, v8))
    x, y, z = across(dx, dy, dz, x, y, z)
    w = -w * lam
    return w * x, w * y, w * z


@jit
def product_points(
    records, heads, members, record_c, record_l, v_inv, table, S, PARITY: tl.constexpr,
    KIND: tl.constexpr, RADIUS: tl.constexpr, STRIDE: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """y = V'⁻¹ Wᵀ v of each point whose device is running."""
    n = tl.program_id(0)
    start, width, device, shared = head(heads, n)
    if tl.load(table + S * (row.RUN + PARITY) + device) == 0.0:
        return
    W: tl.constexpr = record_l.dtype.element_ty
    lane = tl.arange(0, B)
    j, own = member(members, n * B + lane)
    lx, ly, lz, _ = quad(record_l, j * 8)
    s0 = tl.zeros([B], W)
    s1 = tl.zeros([B], W)
    s2 = tl.zeros([B], W)
    for slot in range(width):
        x, y, z = gather_product(
            records, start + slot * B + lane, record_c, (lx, ly, lz), STRIDE, KIND, RADIUS, W
        )
        s0 += x
        s1 += y
        s2 += z
    s0 = joined(shared, s0)
    s1 = joined(shared, s1)
    s2 = joined(shared, s2)
    i0, i1, i2, i3 = quad(v_inv, j * 8)
    i4, i5, _, _ = quad(v_inv, j * 8 + 4)
    x = i0 * s0 + i1 * s1 + i2 * s2
    y = i1 * s0 + i3 * s1 + i4 * s2
    z = i2 * s0 + i4 * s1 + i5 * s2
    store_quad(record_l, 8 * j + 4, x, y, z, tl.zeros_like(x), own)


@jit
def damped(system, i, mu):
    """U' of a camera: its tile (16, 16) with damping on the diagonal; zero beyond nine."""
    a = tl.arange(0, 16)
    inside = (a[:, None] < 9) & (a[None, :] < 9)
    U = tl.load(system + i * 256 + a[:, None] * 16 + a[None, :], mask=inside, other=0.0)
    on = inside & (a[:, None] == a[None, :])
    return tl.where(on, U + mu * tl.maximum(U, DIAGONAL_FLOOR), U)


@jit
def diagonal_block(system, tiles, i, mu):
    """S's diagonal block of a camera, and rhs = −g_c + W z."""
    a = tl.arange(0, 16)
    cell = a[:, None] * 16 + a[None, :]
    inside = (a[:, None] < 9) & (a[None, :] < 9)
    E = tl.load(tiles + i * 256 + cell, mask=inside, other=0.0).to(tl.float64)
    E = 0.5 * (E + tl.trans(E))
    g = tl.load(system + i * 256 + a * 16 + 9, mask=a < 9, other=0.0)
    b = tl.load(tiles + i * 256 + a * 16 + 9, mask=a < 9, other=0.0).to(tl.float64) - g
    return damped(system, i, mu) - E, b


@jit
def product_cameras(
    records, begins, owner, record_c, record_l, system, Sp, partial, table, S,
    PARITY: tl.constexpr, KIND: tl.constexpr, RADIUS: tl.constexpr, STRIDE: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    """Sp = U' v − W y of each camera whose device is running, and by camera v·Sp."""
    i = tl.program_id(0)
    device = tl.load(owner + i)
    if tl.load(table + S * (row.RUN + PARITY) + device) == 0.0:
        return
    W: tl.constexpr = record_c.dtype.element_ty
    lane = tl.arange(0, B)
    c, t = one_camera(record_c, i * STRIDE, W)
    first = tl.load(begins + i)
    last = tl.load(begins + i + 1)
    o = tl.zeros([B], W)
    p0, p1, p2, p3, p4, p5, p6, p7, p8 = o, o, o, o, o, o, o, o, o
    for n in range(first, last, B):
        ux, uy, weight, j = record(records, tl.minimum(n + lane, last - 1), W)
        weight = tl.where(n + lane < last, weight, 0.0)
        lx, ly, lz, _ = quad(record_l, j * 8)
        yx, yy, yz, _ = quad(record_l, j * 8 + 4)
        ex, ey, ez, lam, dx, dy, dz, qx, qy, qz, s = observe(c, t, (lx, ly, lz), ux, uy, weight, W)
        _, w, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        x, y, z = across(dx, dy, dz, yx, yy, yz)
        w = w * lam  # −W y: the sign of J_l = −J_t turns round once more
        r = camera_pull(c, lam, qx, qy, qz, s, w * x, w * y, w * z)
        p0 += r[0]
        p1 += r[1]
        p2 += r[2]
        p3 += r[3]
        p4 += r[4]
        p5 += r[5]
        p6 += r[6]
        p7 += r[7]
        p8 += r[8]
    p0, p1, p2, p3, p4, p5, p6, p7, p8 = tl.reduce((p0, p1, p2, p3, p4, p5, p6, p7, p8), 0, add9)
    a = tl.arange(0, 16)
    v = tl.load(record_c + i * STRIDE + slot_of(a), mask=a < 9, other=0.0).to(tl.float64)
    U = damped(system, i, 1.0 / tl.load(table + S * row.RADIUS + device))
    out = tl.sum(U * v[None, :], axis=1)
    out += tl.where(a == 0, p0, tl.where(a == 1, p1, tl.where(a == 2, p2, 0.0)))
    out += tl.where(a == 3, p3, tl.where(a == 4, p4, tl.where(a == 5, p5, 0.0)))
    out += tl.where(a == 6, p6, tl.where(a == 7, p7, tl.where(a == 8, p8, 0.0)))
    tl.store(Sp + i * 16 + a, out)
    tl.store(partial + i, tl.sum(v * out, axis=0))
