"""The surrogate by moments, as in `backends/cpu/kernels/moments.py`.

Q_j is kept as a row (A, b); P_i as a tile (16, 16) whose rows 0…5 hold M in columns 0…5 and Gᵀ in
columns 6…8. Both without their constants: these add up to the value at the base, which is in the
device table.
"""

import triton.language as tl

from daba.backends.gpu.kernels import row
from daba.backends.gpu.kernels.exact import double, majorizer, penalty
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.rows import (
    camera_rows,
    observe,
    one_camera,
    quad,
    record,
    row16,
    spots,
    store_quad,
)
from daba.backends.gpu.kernels.slices import head, joined, member


@jit
def gap_of(
    f, c, t, l, last_c, last_t, last_l, ux, uy, weight,
    KIND: tl.constexpr, RADIUS: tl.constexpr, THETA: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """F_ij − P_ij − Q_ij at (c, l) for the base before, both centres counted from the old one: what
    is common to both does not matter."""
    seen = weight > 0
    now = (
        c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8],
        (t[0] - last_t[0]).to(T), (t[1] - last_t[1]).to(T), (t[2] - last_t[2]).to(T),
        c[12], c[13], c[14],
    )  # fmt: skip
    l_now = (
        tl.where(seen, (l[0] - last_t[0]).to(T), 1.0),
        tl.where(seen, (l[1] - last_t[1]).to(T), 1.0),
        tl.where(seen, (l[2] - last_t[2]).to(T), 1.0),
    )
    l_last = (
        tl.where(seen, (last_l[0] - last_t[0]).to(T), 1.0),
        tl.where(seen, (last_l[1] - last_t[1]).to(T), 1.0),
        tl.where(seen, (last_l[2] - last_t[2]).to(T), 1.0),
    )
    bound = majorizer(KIND, RADIUS, THETA, weight, ux, uy, now, l_now, last_c, l_last)
    return tl.where(seen, f - bound, 0.0).to(tl.float64)


@jit
def build_points(
    records, heads, members, cameras, points, last_cameras, last_points, moments,
    table, S, partial, N, GUARDED: tl.constexpr, GAP: tl.constexpr, KIND: tl.constexpr,
    RADIUS: tl.constexpr, THETA: tl.constexpr, T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """A = Σ w λ²/(2(1−θ)) and b = Σ ½ w λ e of each point of the boundary; by slice Σ F_ij and,
    with GAP, the slack Σ (F_ij − P_ij − Q_ij) for the base before."""
    n = tl.program_id(0)
    if GUARDED and tl.load(table + S * row.STATUS) != row.DONE:
        return
    lane = tl.arange(0, B)
    start, width, _device, shared = head(heads, n)
    j, own = member(members, n * B + lane)
    l = spots(points, j)
    last_l = l
    if GAP:
        last_l = spots(last_points, j)
    A = tl.zeros([B], T)
    b0 = tl.zeros([B], T)
    b1 = tl.zeros([B], T)
    b2 = tl.zeros([B], T)
    f_sum = tl.zeros([B], tl.float64)
    gap = tl.zeros([B], tl.float64)
    for slot in range(width):
        ux, uy, weight, i = record(records, start + slot * B + lane, T)
        c, t = camera_rows(cameras, i, T)
        ex, ey, ez, lam, _, _, _, _, _, _, _ = observe(c, t, l, ux, uy, weight, T)
        f, w, _ = penalty(KIND, RADIUS, weight, ex, ey, ez)
        f_sum += f.to(tl.float64)
        if GAP:
            last_c, last_t = camera_rows(last_cameras, i, T)
            gap += gap_of(
                f, c, t, l, last_c, last_t, last_l, ux, uy, weight, KIND, RADIUS, THETA, T
            )
        A += w * lam * lam
        x = 0.5 * w * lam
        b0 += x * ex
        b1 += x * ey
        b2 += x * ez
    A = (0.5 * joined(shared, A) / (1.0 - double(THETA))).to(tl.float64)
    b0 = joined(shared, b0).to(tl.float64)
    b1 = joined(shared, b1).to(tl.float64)
    b2 = joined(shared, b2).to(tl.float64)
    store_quad(moments, 4 * j, A, b0, b1, b2, own)
    tl.store(partial + n, tl.sum(f_sum, axis=0))
    if GAP:
        tl.store(partial + N + n, tl.sum(gap, axis=0))


@jit
def build_cameras(
    records, begins, cameras, points, last_cameras, last_points, moments,
    table, S, partial, C, GUARDED: tl.constexpr, GAP: tl.constexpr, KIND: tl.constexpr,
    RADIUS: tl.constexpr, THETA: tl.constexpr, T: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """M = Σ w/(2θ) m mᵀ and G = Σ ½ w e mᵀ of each camera; by camera Σ F_ij, squared pixel error
    and, with GAP, the slack."""
    i = tl.program_id(0)
    if GUARDED and tl.load(table + S * row.STATUS) != row.DONE:
        return
    first = tl.load(begins + i)
    last = tl.load(begins + i + 1)
    if first == last:
        return  # never anything but zero
    lane = tl.arange(0, B)
    c, t = one_camera(cameras, i * 16, T)
    last_c = c
    last_t = t
    if GAP:
        last_c, last_t = one_camera(last_cameras, i * 16, T)
    tile = tl.zeros([16, 16], T)
    f_sum = tl.zeros([B], tl.float64)
    s_sum = tl.zeros([B], tl.float64)
    gap = tl.zeros([B], tl.float64)
    for n in range(first, last, B):
        ux, uy, weight, j = record(records, tl.minimum(n + lane, last - 1), T)
        weight = tl.where(n + lane < last, weight, 0.0)
        l = spots(points, j)
        ex, ey, ez, lam, _, _, _, _, _, _, s = observe(c, t, l, ux, uy, weight, T)
        f, w, square = penalty(KIND, RADIUS, weight, ex, ey, ez)
        f_sum += f.to(tl.float64)
        s_sum += square.to(tl.float64)
        if GAP:
            last_l = spots(last_points, j)
            gap += gap_of(
                f, c, t, l, last_c, last_t, last_l, ux, uy, weight, KIND, RADIUS, THETA, T
            )
        o = tl.zeros_like(s)
        m = row16(ux, uy, o + 1.0, s, s * s, lam, o, o, o, o)
        x = 0.5 * w
        y = x / double(THETA).to(T)
        wm = row16(y * ux, y * uy, y, y * s, y * s * s, y * lam, x * ex, x * ey, x * ez, o)
        tile = tl.dot(tl.trans(m), wm, tile, input_precision="ieee", out_dtype=T)
    cell = tl.arange(0, 16)
    tl.store(moments + i * 256 + cell[:, None] * 16 + cell[None, :], tile)
    tl.store(partial + i, tl.sum(f_sum, axis=0))
    tl.store(partial + C + i, tl.sum(s_sum, axis=0))
    if GAP:
        tl.store(partial + 2 * C + i, tl.sum(gap, axis=0))


@jit
def products(camera, table, o):
    """Entries of Z or of ∂Z: each is ±1 times two numbers of the camera's row, or nothing."""
    sign = tl.load(table + 3 * o)
    left = tl.load(camera + tl.load(table + 3 * o + 1))
    return sign * left * tl.load(camera + tl.load(table + 3 * o + 2))


@jit
def offset(camera, base, zeta):
    """ΔZ = Z − Ẑ as a tile (3 + 1, 6 + 2)."""
    o = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    return products(camera, zeta, o) - products(base, zeta, o)


@jit
def parts(moments, i):
    """M (8, 8) and G (3 + 1, 6 + 2) of a camera."""
    a = tl.arange(0, 8)
    M = tl.load(
        moments + i * 256 + a[:, None] * 16 + a[None, :],
        mask=(a[:, None] < 6) & (a[None, :] < 6), other=0.0,
    )  # fmt: skip
    x = tl.arange(0, 4)
    G = tl.load(
        moments + i * 256 + a[None, :] * 16 + 6 + x[:, None],
        mask=(a[None, :] < 6) & (x[:, None] < 3), other=0.0,
    )  # fmt: skip
    return M, G


@jit
def camera_system(
    U, begins, cameras, base, moments, zeta, derivative, system,
    SURROGATE: tl.constexpr, XI: tl.constexpr,
):  # fmt: skip
    """The tile of E^α: U and g_c of the intra observations, and gradient 2⟨∂Z, ΔZ M + G⟩ and matrix
    2⟨∂Z, ∂Z M⟩ of P_i, and those of ½ξ|c − ĉ|²."""
    i = tl.program_id(0)
    a = tl.arange(0, 16)
    cell = a[:, None] * 16 + a[None, :]
    total = tl.load(U + i * 256 + cell).to(tl.float64)
    if SURROGATE:
        camera = cameras + i * 16
        # ½ξ|R − R̂|²: gradient ω·Σ R̂ₐ × Rₐ over columns, curvature 2
        gradient = XI * proximal_gradient(camera, base + i * 16, a)
        total += tl.where(
            (a[:, None] == a[None, :]) & (a[:, None] < 9),
            tl.where(a[:, None] < 3, 2.0 * XI, XI), 0.0,
        )  # fmt: skip
        if tl.load(begins + i) != tl.load(begins + i + 1):
            M, G = parts(moments, i)
            M = M.to(tl.float64)
            dZ = offset(camera, base + i * 16, zeta)
            H = G.to(tl.float64) + tl.sum(dZ[:, :, None] * M[None, :, :], axis=1)  # ΔZ M + G
            o = (a[:, None, None] * 4 + tl.arange(0, 4)[None, :, None]) * 8
            D = products(camera, derivative, o + tl.arange(0, 8)[None, None, :])  # ∂Z (16, 4, 8)
            gradient += 2.0 * tl.sum(tl.sum(D * H[None, :, :], axis=2), axis=1)
            DM = tl.sum(D[:, :, :, None] * M[None, None, :, :], axis=2)
            left = tl.reshape(DM, [16, 32])
            right = tl.reshape(D, [16, 32])
            total += 2.0 * tl.sum(left[:, None, :] * right[None, :, :], axis=2)
        total += tl.where(a[None, :] == 9, gradient[:, None], 0.0)
    tl.store(system + i * 256 + cell, total)


@jit
def proximal_gradient(camera, base, a):
    """Along (ω, t, d), as 16 numbers: Σₐ R̂ₐ × Rₐ, t − t̂, d − d̂."""
    up = tl.where(a == 2, 0, a + 1)  # the other two axes, for ω
    down = tl.where(a == 0, 2, a - 1)
    turn = tl.zeros([16], tl.float64)
    inside = a < 3
    for k in tl.static_range(3):
        turn += tl.load(base + 3 * up + k, mask=inside, other=0.0) * tl.load(
            camera + 3 * down + k, mask=inside, other=0.0
        )
        turn -= tl.load(base + 3 * down + k, mask=inside, other=0.0) * tl.load(
            camera + 3 * up + k, mask=inside, other=0.0
        )
    rest = (a >= 3) & (a < 9)
    move = tl.load(camera + 6 + a, mask=rest, other=0.0)
    return turn + move - tl.load(base + 6 + a, mask=rest, other=0.0)


@jit
def value_of(camera, base, moments, i, zeta, XI: tl.constexpr):
    """P_i and ½ξ|c − ĉ|², less the value at the base; and |c − ĉ|²."""
    M, G = parts(moments, i)
    dZ = offset(camera, base, zeta)
    H = 2.0 * G.to(tl.float64) + tl.sum(dZ[:, :, None] * M.to(tl.float64)[None, :, :], axis=1)
    o = tl.arange(0, 16)
    d = tl.load(camera + o) - tl.load(base + o)
    square = tl.sum(d * d, axis=0)
    return tl.sum(tl.sum(H * dZ, axis=1), axis=0) + 0.5 * XI * square, square


@jit
def evaluate_cameras(
    owner, cameras, base, moments, second_base, second_moments, zeta, table, S, partial, C,
    GUARD: tl.constexpr, SECOND: tl.constexpr, XI: tl.constexpr,
):  # fmt: skip
    """By camera, rows of (3, C): the surrogate's value less that at its base; the same of a second
    surrogate, and |c − ĉ|² from its base."""
    i = tl.program_id(0)
    if tl.load(table + S * GUARD + tl.load(owner + i)) == 0.0:
        return
    value, square = value_of(cameras + i * 16, base + i * 16, moments, i, zeta, XI)
    tl.store(partial + i, value)
    if SECOND:
        value, square = value_of(
            cameras + i * 16, second_base + i * 16, second_moments, i, zeta, XI
        )
    tl.store(partial + C + i, value)
    tl.store(partial + 2 * C + i, square)


@jit
def value_points(l, base, moments, j, XI: tl.constexpr):
    """Q_j and ½ξ|l − l̂|², less the value at the base; and |l − l̂|²."""
    hat = spots(base, j)
    x = l[0] - hat[0]
    y = l[1] - hat[1]
    z = l[2] - hat[2]
    A, bx, by, bz = quad(moments, 4 * j)
    square = x * x + y * y + z * z
    along = x * bx.to(tl.float64) + y * by.to(tl.float64) + z * bz.to(tl.float64)
    return (A.to(tl.float64) + 0.5 * XI) * square - 2.0 * along, square


@jit
def evaluate_points(
    heads, members, points, base, moments, second_base, second_moments, table, S, partial, N,
    GUARD: tl.constexpr, SECOND: tl.constexpr, XI: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """As `evaluate_cameras`, by slice, rows of (3, N)."""
    n = tl.program_id(0)
    _, _, device, _ = head(heads, n)
    if tl.load(table + S * GUARD + device) == 0.0:
        return
    j, own = member(members, n * B + tl.arange(0, B))
    l = spots(points, j)
    value, square = value_points(l, base, moments, j, XI)
    tl.store(partial + n, tl.sum(tl.where(own, value, 0.0), axis=0))
    if SECOND:
        value, square = value_points(l, second_base, second_moments, j, XI)
    tl.store(partial + N + n, tl.sum(tl.where(own, value, 0.0), axis=0))
    tl.store(partial + 2 * N + n, tl.sum(tl.where(own, square, 0.0), axis=0))
