"""Passes over the intra observations: objective, and the Gauss–Newton system by point and by
camera."""

import triton.language as tl

from daba.backends.gpu.kernels import decisions, formulas
from daba.backends.gpu.kernels.blocks import (
    add_block,
    empty_block,
    joined9,
    nothing9,
    plus9,
    store_block,
    sum9,
    times9,
    whole_row,
)
from daba.backends.gpu.kernels.exact import penalty
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.rows import camera_rows, observe, one_camera, record, spots
from daba.backends.gpu.kernels.slices import head, member, smallest

normal_basis = formulas.normal_basis
derivative_row = formulas.derivative_row
camera_pull = formulas.camera_pull
point_block = formulas.point_block
STEP_BOUND = decisions.STEP_BOUND


@jit
def linearize_points(
    records, heads, members, cameras, points, V, g, P,
    KIND: tl.constexpr, RADIUS: tl.constexpr, T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """V (6) and step bound of each point, rows of (7, P), and g_l, rows of (3, P)."""
    n = tl.program_id(0)
    lane = tl.arange(0, B)
    start, width, _device, shared = head(heads, n)
    j, own = member(members, n * B + lane)
    l = spots(points, j)
    sums = nothing9(tl.zeros([B], T))
    near = tl.full([B], float("inf"), T)
    for slot in range(width):
        ux, uy, weight, i = record(records, start + slot * B + lane, T)
        c, t = camera_rows(cameras, i, T)
        ex, ey, ez, lam, dx, dy, dz, _, _, _, _ = observe(c, t, l, ux, uy, weight, T)
        _, w, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        d2 = dx * dx + dy * dy + dz * dz
        near = tl.where(weight > 0, tl.minimum(near, d2), near)
        sums = sum9(sums, point_block(w, lam, dx, dy, dz, ex, ey, ez))
    sums = joined9(shared, sums)
    tl.store(V + j, sums[0], mask=own)
    tl.store(V + P + j, sums[1], mask=own)
    tl.store(V + 2 * P + j, sums[2], mask=own)
    tl.store(V + 3 * P + j, sums[3], mask=own)
    tl.store(V + 4 * P + j, sums[4], mask=own)
    tl.store(V + 5 * P + j, sums[5], mask=own)
    tl.store(V + 6 * P + j, tl.sqrt(smallest(shared, near)) * STEP_BOUND, mask=own)
    tl.store(g + j, sums[6], mask=own)
    tl.store(g + P + j, sums[7], mask=own)
    tl.store(g + 2 * P + j, sums[8], mask=own)


@jit
def linearize_cameras(
    records, begins, cameras, points, U, bound,
    KIND: tl.constexpr, RADIUS: tl.constexpr, T: tl.constexpr, W: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """U = JᵀJ of each camera and, as its tenth column, g_c = Jᵀr, as a tile (16, 16). And its
    step bound: STEP_BOUND × its mean distance to the points it sees."""
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
    tl.store(
        bound + i, tl.where(seen > 0, total * STEP_BOUND / tl.maximum(seen, 1.0), float("inf"))
    )


@jit
def objective(
    records, begins, owner, cameras, points, table, GUARD: tl.constexpr, S, partial, C,
    KIND: tl.constexpr, RADIUS: tl.constexpr, T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """F and squared pixel error of each camera's observations, rows of (2, C), where the table's
    row GUARD is set."""
    i = tl.program_id(0)
    if tl.load(table + S * GUARD + tl.load(owner + i)) == 0.0:
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
