"""Passes over the intra observations: objective, and the Gauss–Newton system by point and by
camera."""

import triton.language as tl

from daba.backends.gpu.kernels import formulas
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
from daba.backends.gpu.kernels.rows import camera_rows, observe, one_camera, record, spots
from daba.backends.gpu.kernels.slices import head, joined, member, smallest

normal_basis = formulas.normal_basis
derivative_row = formulas.derivative_row
camera_pull = formulas.camera_pull
REACH = tl.constexpr(0.5)
"""As in `kernels/cpu/objective.py`."""


@jit
def linearize_points(
    records, heads, members, cameras, points, V, g, P,
    KIND: tl.constexpr, RADIUS: tl.constexpr, T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """V (6) and reach of each point, rows of (7, P), and g_l, rows of (3, P): V = Σ w λ² P with the
    projection P = I − δδᵀ/|δ|², g_l = −Σ w λ e."""
    n = tl.program_id(0)
    lane = tl.arange(0, B)
    start, width, _device, shared = head(heads, n)
    j, own = member(members, n * B + lane)
    l = spots(points, j)
    v0 = tl.zeros([B], T)
    v1 = tl.zeros([B], T)
    v2 = tl.zeros([B], T)
    v3 = tl.zeros([B], T)
    v4 = tl.zeros([B], T)
    v5 = tl.zeros([B], T)
    g0 = tl.zeros([B], T)
    g1 = tl.zeros([B], T)
    g2 = tl.zeros([B], T)
    near = tl.full([B], float("inf"), T)
    for slot in range(width):
        ux, uy, weight, i = record(records, start + slot * B + lane, T)
        c, t = camera_rows(cameras, i, T)
        ex, ey, ez, lam, dx, dy, dz, _, _, _, _ = observe(c, t, l, ux, uy, weight, T)
        _, w, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        d2 = dx * dx + dy * dy + dz * dz
        near = tl.where(weight > 0, tl.minimum(near, d2), near)
        x = w * lam
        g0 -= x * ex
        g1 -= x * ey
        g2 -= x * ez
        x = x * lam
        y = x / d2
        v0 += x - y * dx * dx
        v1 -= y * dx * dy
        v2 -= y * dx * dz
        v3 += x - y * dy * dy
        v4 -= y * dy * dz
        v5 += x - y * dz * dz
    tl.store(V + j, joined(shared, v0), mask=own)
    tl.store(V + P + j, joined(shared, v1), mask=own)
    tl.store(V + 2 * P + j, joined(shared, v2), mask=own)
    tl.store(V + 3 * P + j, joined(shared, v3), mask=own)
    tl.store(V + 4 * P + j, joined(shared, v4), mask=own)
    tl.store(V + 5 * P + j, joined(shared, v5), mask=own)
    tl.store(V + 6 * P + j, tl.sqrt(smallest(shared, near)) * REACH, mask=own)
    tl.store(g + j, joined(shared, g0), mask=own)
    tl.store(g + P + j, joined(shared, g1), mask=own)
    tl.store(g + 2 * P + j, joined(shared, g2), mask=own)


@jit
def linearize_cameras(
    records, begins, cameras, points, U, reach,
    KIND: tl.constexpr, RADIUS: tl.constexpr, T: tl.constexpr, W: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """U = JᵀJ of each camera and, as its tenth column, g_c = Jᵀr, as a tile (16, 16). And its
    reach: REACH × its mean distance to the points it sees."""
    i = tl.program_id(0)
    lane = tl.arange(0, B)
    c, t = one_camera(cameras, i * 16, T)
    first = tl.load(begins + i)
    last = tl.load(begins + i + 1)
    third = (
        0.0,
        0.0,
        c[2].to(W),
        0.0,
        0.0,
        c[5].to(W),
        0.0,
        0.0,
        c[8].to(W),
    )  # R₃, all that counts
    block = empty_block(tl.zeros([B], W))
    g = nothing9(tl.zeros([B], T))
    away = tl.zeros([B], T)
    for n in range(first, last, B):
        ux, uy, weight, j = record(records, tl.minimum(n + lane, last - 1), T)
        weight = tl.where(n + lane < last, weight, 0.0)
        l = spots(points, j)
        ex, ey, ez, lam, dx, dy, dz, qx, qy, qz, s = observe(c, t, l, ux, uy, weight, T)
        _, w, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        away += tl.where(weight > 0, tl.sqrt(dx * dx + dy * dy + dz * dz), 0.0)
        g = plus9(g, w, camera_pull(c, lam, qx, qy, qz, s, ex, ey, ez))
        ax, ay, az, bx, by, bz = normal_basis(dx.to(W), dy.to(W), dz.to(W))
        w = w.to(W)
        s = s.to(W)
        lam = lam.to(W)
        qx = qx.to(W)
        qy = qy.to(W)
        qz = qz.to(W)
        J = whole_row(derivative_row(third, lam, qx, qy, qz, ax, ay, az), s)
        block = add_block(block, times9(w, J), J)
        J = whole_row(derivative_row(third, lam, qx, qy, qz, bx, by, bz), s)
        block = add_block(block, times9(w, J), J)
    store_block(U + i * 256, block, g)
    seen = (last - first).to(T)
    total = tl.sum(away, axis=0)
    tl.store(reach + i, tl.where(seen > 0, total * REACH / tl.maximum(seen, 1.0), float("inf")))


@jit
def objective(
    records, begins, owner, cameras, points, book, GUARD: tl.constexpr, S, partial, C,
    KIND: tl.constexpr, RADIUS: tl.constexpr, T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """F and squared pixel error of each camera's observations, rows of (2, C), where the book's
    row GUARD is set."""
    i = tl.program_id(0)
    if tl.load(book + S * GUARD + tl.load(owner + i)) == 0.0:
        return
    lane = tl.arange(0, B)
    c, t = one_camera(cameras, i * 16, T)
    first = tl.load(begins + i)
    last = tl.load(begins + i + 1)
    f_sum = tl.zeros([B], tl.float64)
    s_sum = tl.zeros([B], tl.float64)
    for n in range(first, last, B):
        ux, uy, weight, j = record(records, tl.minimum(n + lane, last - 1), T)
        weight = tl.where(n + lane < last, weight, 0.0)
        l = spots(points, j)
        ex, ey, ez, _, _, _, _, _, _, _, _ = observe(c, t, l, ux, uy, weight, T)
        f, _, square = penalty(KIND, RADIUS, weight, ex, ey, ez)
        f_sum += f.to(tl.float64)
        s_sum += square.to(tl.float64)
    tl.store(partial + i, tl.sum(f_sum, axis=0))
    tl.store(partial + C + i, tl.sum(s_sum, axis=0))
