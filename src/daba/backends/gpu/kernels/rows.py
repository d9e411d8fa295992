"""Reading records: several numbers of one row by each lane, in loads of 16 bytes.

A tile of rows is loaded at once and taken apart, so that the compiler sees whole rows; loads of
single numbers would ask for every cache line many times.

    cameras   16 numbers: R, t, d, 1      points    4 numbers: l, 0
    record_l   8 numbers: l, 0, y, 0      record_c  R, t, d, v₈, v₀…v₇ and padding (`schur.slot_of`)
"""

import triton.language as tl

from daba.backends.gpu.kernels import formulas
from daba.backends.gpu.kernels.jit import jit

error = formulas.error


@jit
def pair(ptr, at):
    """Numbers at, at + 1 of each lane."""
    return tl.split(tl.load(ptr + at[:, None] + tl.arange(0, 2)[None, :]))


@jit
def quad(ptr, at):
    """Numbers at … at + 3 of each lane."""
    if ptr.dtype.element_ty == tl.float64:
        a, b = pair(ptr, at)
        c, d = pair(ptr, at + 2)
    else:
        x = tl.load(ptr + at[:, None] + tl.arange(0, 4)[None, :])
        even, odd = tl.split(tl.reshape(x, [at.shape[0], 2, 2]))
        a, c = tl.split(even)
        b, d = tl.split(odd)
    return a, b, c, d


@jit
def record(records, at, T: tl.constexpr):
    """u, ω and the other end of observations; ω is zero where a slot is empty."""
    ux, uy, weight, bits = quad(records, 4 * at)
    if records.dtype.element_ty == tl.float64:
        other = bits.to(tl.int64, bitcast=True).to(tl.int32)
    else:
        other = bits.to(tl.int32, bitcast=True)
    return ux.to(T), uy.to(T), weight.to(T), other


@jit
def spots(points, j):
    """l of each lane's point."""
    a, b, c, _ = quad(points, j * 4)
    return a, b, c


@jit
def camera_rows(cameras, i, T: tl.constexpr):
    """R and d of each lane's camera in the precision asked for, with t = 0; and t as it is."""
    a0, a1, a2, a3 = quad(cameras, i * 16)
    a4, a5, a6, a7 = quad(cameras, i * 16 + 4)
    a8, tx, ty, tz = quad(cameras, i * 16 + 8)
    d0, d1, d2, _ = quad(cameras, i * 16 + 12)
    c = (
        a0.to(T), a1.to(T), a2.to(T), a3.to(T), a4.to(T), a5.to(T), a6.to(T), a7.to(T), a8.to(T),
        0.0, 0.0, 0.0, d0.to(T), d1.to(T), d2.to(T),
    )  # fmt: skip
    return c, (tx, ty, tz)


@jit
def one_camera(cameras, at, T: tl.constexpr):
    """The same for the one camera of a program, which begins at `at`."""
    c = (
        tl.load(cameras + at).to(T), tl.load(cameras + at + 1).to(T),
        tl.load(cameras + at + 2).to(T), tl.load(cameras + at + 3).to(T),
        tl.load(cameras + at + 4).to(T), tl.load(cameras + at + 5).to(T),
        tl.load(cameras + at + 6).to(T), tl.load(cameras + at + 7).to(T),
        tl.load(cameras + at + 8).to(T), 0.0, 0.0, 0.0,
        tl.load(cameras + at + 12).to(T), tl.load(cameras + at + 13).to(T),
        tl.load(cameras + at + 14).to(T),
    )  # fmt: skip
    t = (tl.load(cameras + at + 9), tl.load(cameras + at + 10), tl.load(cameras + at + 11))
    return c, t


@jit
def observe(c, t, l, ux, uy, weight, T: tl.constexpr):
    """`error` of each lane, δ taken before it is rounded to T: cameras far from the origin must
    not lose digits. An empty slot looks at a point at (1, 1, 1)."""
    seen = weight > 0
    dx = tl.where(seen, (l[0] - t[0]).to(T), 1.0)
    dy = tl.where(seen, (l[1] - t[1]).to(T), 1.0)
    dz = tl.where(seen, (l[2] - t[2]).to(T), 1.0)
    return error(c, (dx, dy, dz), ux, uy)


@jit
def store_quad(ptr, at, a, b, c, d, mask):
    """Numbers at … at + 3 of each lane, in one store."""
    tile = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), [at.shape[0], 4])
    tl.store(ptr + at[:, None] + tl.arange(0, 4)[None, :], tile, mask=mask[:, None])


@jit
def row16(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9):
    """Ten numbers of each lane and six zeros as a tile (lanes, 16).

    The sum over one number hides where the tile comes from: Triton 3.6 looks for the narrowest
    number behind the operands of a dot product, and cannot multiply doubles that were floats."""
    o = tl.zeros_like(a0)
    even = tl.join(
        tl.join(tl.join(a0, a8), tl.join(a4, o)), tl.join(tl.join(a2, o), tl.join(a6, o))
    )
    odd = tl.join(tl.join(tl.join(a1, a9), tl.join(a5, o)), tl.join(tl.join(a3, o), tl.join(a7, o)))
    tile = tl.reshape(tl.join(even, odd), [a0.shape[0], 16])
    if a0.dtype == tl.float64:
        tile = tl.sum(tile[:, :, None], axis=2)
    return tile
