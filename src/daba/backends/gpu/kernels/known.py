"""Priors ½ρ(rᵀΛr) of single variables, r = x − x̂: their value, and what they add to a system.

A prior is a row of twelve numbers: x̂, and Λ row by row.
"""

import triton.language as tl

from daba.backends.gpu.kernels import formulas
from daba.backends.gpu.kernels.exact import double
from daba.backends.gpu.kernels.jit import jit

rho = formulas.rho


@jit
def measured(p, there, x, y, z, KIND: tl.constexpr, RADIUS: tl.constexpr):
    """½ρ, ρ'Λ (upper triangle) and ρ'Λr of the prior at p, for a variable at (x, y, z); zero where
    there is none."""
    x -= tl.load(p)
    y -= tl.load(p + 1)
    z -= tl.load(p + 2)
    a0 = tl.load(p + 3)
    a1 = tl.load(p + 4)
    a2 = tl.load(p + 5)
    a3 = tl.load(p + 7)
    a4 = tl.load(p + 8)
    a5 = tl.load(p + 11)
    u = a0 * x + a1 * y + a2 * z
    v = a1 * x + a3 * y + a4 * z
    w = a2 * x + a4 * y + a5 * z
    value, slope = rho(KIND, double(RADIUS), x * u + y * v + z * w)
    s = tl.where(there, slope, 0.0)
    matrix = (s * a0, s * a1, s * a2, s * a3, s * a4, s * a5)
    return tl.where(there, 0.5 * value, 0.0), matrix, (s * u, s * v, s * w)


@jit
def prior_of(rows, known, i, x, y, z, KIND: tl.constexpr, RADIUS: tl.constexpr):
    """`measured` of variable i, or of each lane's."""
    n = tl.load(rows + i)
    return measured(known + 12 * tl.maximum(n, 0), n >= 0, x, y, z, KIND, RADIUS)


@jit
def prior_term(rows, known, i, x, y, z, KIND: tl.constexpr, RADIUS: tl.constexpr):
    """Its value alone."""
    value, _, _ = prior_of(rows, known, i, x, y, z, KIND, RADIUS)
    return value


@jit
def value_of_known(
    index, begins, known, x, table, S, ROW: tl.constexpr, STRIDE: tl.constexpr, AT: tl.constexpr,
    KIND: tl.constexpr, RADIUS: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Add the priors of each device to a row of its table; the variable of prior n begins at number
    AT of row index[n] of x."""
    device = tl.program_id(0)
    last = tl.load(begins + device + 1)
    total = tl.zeros([B], tl.float64)
    for first in range(tl.load(begins + device), last, B):
        n = first + tl.arange(0, B)
        there = n < last
        n = tl.minimum(n, last - 1)
        p = x + tl.load(index + n) * STRIDE + AT
        value, _, _ = measured(
            known + 12 * n, there, tl.load(p), tl.load(p + 1), tl.load(p + 2), KIND, RADIUS
        )
        total += value
    cell = table + S * ROW + device
    tl.store(cell, tl.load(cell) + tl.sum(total, axis=0))


@jit
def add_known_cameras(
    index, known, cameras, U, count, AT: tl.constexpr, KIND: tl.constexpr, RADIUS: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    """Add ρ'Λ and ρ'Λr to cameras' tiles (16, 16); R has nine numbers and three parameters."""
    n = tl.program_id(0) * B + tl.arange(0, B)
    there = n < count
    n = tl.minimum(n, count - 1)
    i = tl.load(index + n)
    p = cameras + i * 16 + AT
    _, A, g = measured(
        known + 12 * n, there, tl.load(p), tl.load(p + 1), tl.load(p + 2), KIND, RADIUS
    )
    P: tl.constexpr = AT - 6
    tile = U + i * 256 + P * 17
    add(tile, A[0], there)
    add(tile + 1, A[1], there)
    add(tile + 2, A[2], there)
    add(tile + 16, A[1], there)
    add(tile + 17, A[3], there)
    add(tile + 18, A[4], there)
    add(tile + 32, A[2], there)
    add(tile + 33, A[4], there)
    add(tile + 34, A[5], there)
    column = U + i * 256 + P * 16 + 9
    add(column, g[0], there)
    add(column + 16, g[1], there)
    add(column + 32, g[2], there)


@jit
def add_known_points(
    index, known, points, V, g, P, count, KIND: tl.constexpr, RADIUS: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    """The same for points."""
    n = tl.program_id(0) * B + tl.arange(0, B)
    there = n < count
    n = tl.minimum(n, count - 1)
    j = tl.load(index + n)
    p = points + j * 4
    _, A, pull = measured(
        known + 12 * n, there, tl.load(p), tl.load(p + 1), tl.load(p + 2), KIND, RADIUS
    )
    add(V + j, A[0], there)
    add(V + P + j, A[1], there)
    add(V + 2 * P + j, A[2], there)
    add(V + 3 * P + j, A[3], there)
    add(V + 4 * P + j, A[4], there)
    add(V + 5 * P + j, A[5], there)
    add(g + j, pull[0], there)
    add(g + P + j, pull[1], there)
    add(g + 2 * P + j, pull[2], there)


@jit
def add(cell, value, mask):
    tl.store(cell, tl.load(cell) + value, mask=mask)
