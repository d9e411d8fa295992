"""Exact block updates on the true objective, as in `backends/cpu/kernels/refine.py`.

`records` hold all observations, intra and inter, of the points or cameras of the boundary.
"""

import triton.language as tl

from daba.backends.gpu.kernels import decisions, formulas, row
from daba.backends.gpu.kernels.blocks import joined9, nothing9, sum9
from daba.backends.gpu.kernels.exact import penalty
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.known import prior_of, prior_term
from daba.backends.gpu.kernels.pcg import inverse
from daba.backends.gpu.kernels.rows import camera_rows, observe, one_camera, record, row16, spots
from daba.backends.gpu.kernels.slices import head, joined, member, smallest
from daba.backends.gpu.kernels.step import pick, place_camera, row_of, turned

normal_basis = formulas.normal_basis
derivative_row = formulas.derivative_row
inverse_symmetric3 = formulas.inverse_symmetric3
point_block = formulas.point_block
DAMPING = decisions.REFINE_DAMPING
GROWTH = decisions.REFINE_GROWTH
TRIES = decisions.REFINE_TRIES


@jit
def point_terms(
    records, start, width, lane, cameras, l, KIND: tl.constexpr, RADIUS: tl.constexpr,
    T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Σ F_ij over the observations of each lane's point, if it were at l."""
    total = tl.zeros([B], tl.float64)
    for slot in range(width):
        ux, uy, weight, i = record(records, start + slot * B + lane, T)
        c, t = camera_rows(cameras, i, T)
        ex, ey, ez, _, _, _, _, _, _, _, _ = observe(c, t, l, ux, uy, weight, T)
        f, _, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        total += f.to(tl.float64)
    return total


@jit
def refine_points(
    records, heads, members, cameras, points, held, known_rows, known, table, S, partial,
    CONSTRAINED: tl.constexpr, KNOWN_KIND: tl.constexpr, KNOWN_RADIUS: tl.constexpr,
    AGAIN: tl.constexpr, KIND: tl.constexpr, RADIUS: tl.constexpr, T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Move each point of the boundary to lower Σ F_ij; by slice the change of F. CONSTRAINED: there
    are constraints; points may be held, and have priors."""
    n = tl.program_id(0)
    if tl.load(table + S * row.STATUS) != row.DONE:
        return
    lane = tl.arange(0, B)
    start, width, _device, shared = head(heads, n)
    j, own = member(members, n * B + lane)
    l = spots(points, j)
    o = tl.zeros([B], T)
    sums = nothing9(o)
    before = tl.zeros([B], tl.float64)
    near = tl.full([B], float("inf"), T)
    for slot in range(width):
        ux, uy, weight, i = record(records, start + slot * B + lane, T)
        c, t = camera_rows(cameras, i, T)
        ex, ey, ez, lam, dx, dy, dz, _, _, _, _ = observe(c, t, l, ux, uy, weight, T)
        f, w, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        before += f.to(tl.float64)
        d2 = dx * dx + dy * dy + dz * dz
        near = tl.where(weight > 0, tl.minimum(near, d2), near)
        sums = sum9(sums, point_block(w, lam, dx, dy, dz, ex, ey, ez))
    v0, v1, v2, v3, v4, v5, g0, g1, g2 = joined9(shared, sums)
    before = joined(shared, before)
    waiting = tl.full([B], 1, tl.int32)
    if CONSTRAINED:
        waiting = 1 - tl.load(held + j)
        term, A, g = prior_of(known_rows, known, j, l[0], l[1], l[2], KNOWN_KIND, KNOWN_RADIUS)
        before += term
        v0, v1, v2, v3, v4, v5, g0, g1, g2 = sum9(
            (v0, v1, v2, v3, v4, v5, g0, g1, g2),
            (A[0].to(T), A[1].to(T), A[2].to(T), A[3].to(T), A[4].to(T), A[5].to(T), g[0].to(T),
             g[1].to(T), g[2].to(T)),
        )  # fmt: skip
    bound = tl.sqrt(smallest(shared, near)) * decisions.STEP_BOUND
    floor = decisions.REFINE_FLOOR * tl.maximum(v0, tl.maximum(v3, v5))
    mu = tl.sum(o, axis=0) + DAMPING
    change = tl.zeros([B], tl.float64)
    bx = l[0]
    by = l[1]
    bz = l[2]
    for _ in range(TRIES):
        if tl.sum(waiting, axis=0) > 0:
            i0, i1, i2, i3, i4, i5 = inverse_symmetric3(
                v0 + mu * tl.maximum(v0, floor), v1, v2, v3 + mu * tl.maximum(v3, floor), v4,
                v5 + mu * tl.maximum(v5, floor),
            )  # fmt: skip
            x = i0 * g0 + i1 * g1 + i2 * g2
            y = i1 * g0 + i3 * g1 + i4 * g2
            z = i2 * g0 + i4 * g1 + i5 * g2
            length = tl.sqrt(x * x + y * y + z * z)
            clip = tl.where(length > bound, bound / length, 1.0)
            nx = l[0] - clip * x
            ny = l[1] - clip * y
            nz = l[2] - clip * z
            after = point_terms(
                records, start, width, lane, cameras, (nx, ny, nz), KIND, RADIUS, T, B
            )
            after = joined(shared, after)
            if CONSTRAINED:
                after += prior_term(known_rows, known, j, nx, ny, nz, KNOWN_KIND, KNOWN_RADIUS)
            good = (waiting > 0) & (after < before)
            change = tl.where(good, after - before, change)
            bx = tl.where(good, nx, bx)
            by = tl.where(good, ny, by)
            bz = tl.where(good, nz, bz)
            waiting = tl.where(good, 0, waiting)
        mu = mu * GROWTH
    tl.store(points + 4 * j, bx, mask=own)
    tl.store(points + 4 * j + 1, by, mask=own)
    tl.store(points + 4 * j + 2, bz, mask=own)
    total = tl.sum(tl.where(own, change, 0.0), axis=0)
    if AGAIN:
        total += tl.load(partial + n)
    tl.store(partial + n, total)


@jit
def camera_terms(
    records, first, last, c, t, points, KIND: tl.constexpr, RADIUS: tl.constexpr,
    T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Σ F_ij over the observations of the program's camera, if it were c at t."""
    lane = tl.arange(0, B)
    total = tl.zeros([B], tl.float64)
    for n in range(first, last, B):
        ux, uy, weight, j = record(records, tl.minimum(n + lane, last - 1), T)
        weight = tl.where(n + lane < last, weight, 0.0)
        l = spots(points, j)
        ex, ey, ez, _, _, _, _, _, _, _, _ = observe(c, t, l, ux, uy, weight, T)
        f, _, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        total += f.to(tl.float64)
    return tl.sum(total, axis=0)


@jit
def camera_priors(
    c, i, position_rows, positions, intrinsics_rows, intrinsics,
    P_KIND: tl.constexpr, P_RADIUS: tl.constexpr, D_KIND: tl.constexpr, D_RADIUS: tl.constexpr,
):  # fmt: skip
    """What a camera's priors add to its system, as a tile (16, 16) with the gradient in column
    9."""
    a = tl.arange(0, 16)
    _, A, g = prior_of(position_rows, positions, i, c[9], c[10], c[11], P_KIND, P_RADIUS)
    _, D, h = prior_of(intrinsics_rows, intrinsics, i, c[12], c[13], c[14], D_KIND, D_RADIUS)
    return corner(A, g, a, 3) + corner(D, h, a, 6)


@jit
def corner(A, g, a, at: tl.constexpr):
    """A symmetric 3×3 matrix at (at, at) of a tile, and a vector beside it in column 9."""
    x = a[:, None] - at
    y = a[None, :] - at
    low = tl.minimum(x, y)
    high = tl.maximum(x, y)
    out = tl.where((low == 0) & (high == 0), A[0], 0.0)
    out += tl.where((low == 0) & (high == 1), A[1], tl.where((low == 0) & (high == 2), A[2], 0.0))
    out += tl.where((low == 1) & (high == 1), A[3], tl.where((low == 1) & (high == 2), A[4], 0.0))
    out += tl.where((low == 2) & (high == 2), A[5], 0.0)
    beside = tl.where(x == 0, g[0], tl.where(x == 1, g[1], tl.where(x == 2, g[2], 0.0)))
    return out + tl.where(a[None, :] == 9, beside, 0.0)


@jit
def refine_cameras(
    records, begins, cameras, points, alone, position_rows, positions, intrinsics_rows, intrinsics,
    table, S, partial, CONSTRAINED: tl.constexpr, P_KIND: tl.constexpr, P_RADIUS: tl.constexpr,
    D_KIND: tl.constexpr, D_RADIUS: tl.constexpr,
    KIND: tl.constexpr, RADIUS: tl.constexpr, T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Move each camera of the boundary to lower its Σ F_ij, points held; by camera the change.
    CONSTRAINED: there are constraints; only what it has `alone` moves, and there are priors."""
    i = tl.program_id(0)
    if tl.load(table + S * row.STATUS) != row.DONE:
        return
    first = tl.load(begins + i)
    last = tl.load(begins + i + 1)
    if first == last:
        return
    lane = tl.arange(0, B)
    c, t = one_camera(cameras, i * 16, T)
    tile = tl.zeros([16, 16], T)
    before = tl.zeros([B], tl.float64)
    for n in range(first, last, B):
        ux, uy, weight, j = record(records, tl.minimum(n + lane, last - 1), T)
        weight = tl.where(n + lane < last, weight, 0.0)
        l = spots(points, j)
        ex, ey, ez, lam, dx, dy, dz, qx, qy, qz, s = observe(c, t, l, ux, uy, weight, T)
        f, w, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        before += f.to(tl.float64)
        root = tl.sqrt(w)
        ax, ay, az, bx, by, bz = normal_basis(dx, dy, dz)
        J = derivative_row(c, lam, qx, qy, qz, root * ax, root * ay, root * az)
        r = root * (ax * ex + ay * ey + az * ez)
        A = row16(J[0], J[1], J[2], J[3], J[4], J[5], J[6], s * J[6], s * s * J[6], r)
        tile = tl.dot(tl.trans(A), A, tile, input_precision="ieee", out_dtype=T)
        J = derivative_row(c, lam, qx, qy, qz, root * bx, root * by, root * bz)
        r = root * (bx * ex + by * ey + bz * ez)
        A = row16(J[0], J[1], J[2], J[3], J[4], J[5], J[6], s * J[6], s * s * J[6], r)
        tile = tl.dot(tl.trans(A), A, tile, input_precision="ieee", out_dtype=T)
    start = tl.sum(before, axis=0)
    a = tl.arange(0, 16)
    tile = tile.to(tl.float64)
    old = row_of(cameras, i)
    if CONSTRAINED:
        start += prior_term(position_rows, positions, i, old[9], old[10], old[11], P_KIND, P_RADIUS)
        start += prior_term(
            intrinsics_rows, intrinsics, i, old[12], old[13], old[14], D_KIND, D_RADIUS
        )
        more = camera_priors(
            old, i, position_rows, positions, intrinsics_rows, intrinsics, P_KIND, P_RADIUS,
            D_KIND, D_RADIUS,
        )  # fmt: skip
        moves = tl.load(alone + i * 16 + a) != 0
        tile = tl.where(moves[:, None] & (moves[None, :] | (a[None, :] == 9)), tile + more, 0.0)
    g = tl.sum(tl.where(a[None, :] == 9, tile, 0.0), axis=1)
    g = tl.where(a < 9, g, 0.0)
    U = tl.where((a[:, None] < 9) & (a[None, :] < 9), tile, 0.0)
    on = (a[:, None] == a[None, :]) & (a[:, None] < 9)
    mu = start * 0.0 + DAMPING
    change = start * 0.0
    waiting = start == start
    for _ in range(TRIES):
        if waiting:
            damped = tl.where(on, U + mu * tl.maximum(U, decisions.DIAGONAL_FLOOR), U)
            x = -tl.sum(inverse(damped, 1e-14) * g[None, :], axis=1)
            s9 = (
                pick(x, a, 0), pick(x, a, 1), pick(x, a, 2), pick(x, a, 3), pick(x, a, 4),
                pick(x, a, 5), pick(x, a, 6), pick(x, a, 7), pick(x, a, 8),
            )  # fmt: skip
            R = turned(old, s9)
            new = (
                R[0].to(T), R[1].to(T), R[2].to(T), R[3].to(T), R[4].to(T), R[5].to(T),
                R[6].to(T), R[7].to(T), R[8].to(T), 0.0, 0.0, 0.0,
                (old[12] + s9[6]).to(T), (old[13] + s9[7]).to(T), (old[14] + s9[8]).to(T),
            )  # fmt: skip
            t_new = (old[9] + s9[3], old[10] + s9[4], old[11] + s9[5])
            after = camera_terms(records, first, last, new, t_new, points, KIND, RADIUS, T, B)
            if CONSTRAINED:
                after += prior_term(
                    position_rows, positions, i, t_new[0], t_new[1], t_new[2], P_KIND, P_RADIUS
                )
                after += prior_term(
                    intrinsics_rows, intrinsics, i, old[12] + s9[6], old[13] + s9[7],
                    old[14] + s9[8], D_KIND, D_RADIUS,
                )  # fmt: skip
            if after < start:
                change = after - start
                place_camera(old, s9, cameras, i)
                waiting = start != start
        mu = mu * GROWTH
    tl.store(partial + i, change)
