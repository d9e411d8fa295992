"""Sums of 9×9 blocks, each lane its own: the lower triangle, in tuples of 3, 6 and 9 columns.

Rows 0…2 keep columns 0…2, rows 3…5 columns 0…5, rows 6…8 all nine. Accumulating in registers takes
a quarter of the time of a dot product, whose operands would go through shared memory.
"""

import triton.language as tl

from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.slices import add9, joined


@jit
def plus9(sums, x, v):
    return (
        sums[0] + x * v[0], sums[1] + x * v[1], sums[2] + x * v[2], sums[3] + x * v[3],
        sums[4] + x * v[4], sums[5] + x * v[5], sums[6] + x * v[6], sums[7] + x * v[7],
        sums[8] + x * v[8],
    )  # fmt: skip


@jit
def sum9(a, b):
    return (
        a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5], a[6] + b[6],
        a[7] + b[7], a[8] + b[8],
    )  # fmt: skip


@jit
def joined9(shared, v):
    """Each of nine numbers, or its sum over the lanes of a shared point."""
    return (
        joined(shared, v[0]), joined(shared, v[1]), joined(shared, v[2]), joined(shared, v[3]),
        joined(shared, v[4]), joined(shared, v[5]), joined(shared, v[6]), joined(shared, v[7]),
        joined(shared, v[8]),
    )  # fmt: skip


@jit
def times9(x, v):
    """x v."""
    return (
        x * v[0], x * v[1], x * v[2], x * v[3], x * v[4], x * v[5], x * v[6], x * v[7], x * v[8],
    )  # fmt: skip


@jit
def whole_row(row, s):
    """All nine derivatives from `derivative_row`, those along d spelled out."""
    a = s * row[6]
    return row[0], row[1], row[2], row[3], row[4], row[5], row[6], a, s * a


@jit
def nothing9(o):
    return (o, o, o, o, o, o, o, o, o)


@jit
def empty_block(o):
    """Zeros like o: rows 0…2 as one tuple of nine, 3…5 as two, 6…8 as three."""
    return (
        nothing9(o), nothing9(o), nothing9(o), nothing9(o), nothing9(o), nothing9(o),
    )  # fmt: skip


@jit
def add_block(block, left, right):
    """block += left rightᵀ, of vectors of nine; all that is added must make a symmetric sum."""
    a = right[0:3]
    b = right[3:6]
    c = right[6:9]
    return (
        add_corner(block[0], left[0:3], a),
        add_corner(block[1], left[3:6], a),
        add_corner(block[2], left[3:6], b),
        add_corner(block[3], left[6:9], a),
        add_corner(block[4], left[6:9], b),
        add_corner(block[5], left[6:9], c),
    )


@jit
def add_corner(sums, left, right):
    """A 3×3 part: sums += left rightᵀ, row by row."""
    return (
        sums[0] + left[0] * right[0], sums[1] + left[0] * right[1], sums[2] + left[0] * right[2],
        sums[3] + left[1] * right[0], sums[4] + left[1] * right[1], sums[5] + left[1] * right[2],
        sums[6] + left[2] * right[0], sums[7] + left[2] * right[1], sums[8] + left[2] * right[2],
    )  # fmt: skip


@jit
def total9(sums):
    """The nine sums over all lanes."""
    return tl.reduce(
        (
            sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7], sums[8],
        ), 0, add9,
    )  # fmt: skip


@jit
def store_corner(ptr, row: tl.constexpr, column: tl.constexpr, sums):
    """A 3×3 part into a tile (16, 16), and its mirror image."""
    s0, s1, s2, s3, s4, s5, s6, s7, s8 = total9(sums)
    p = ptr + 16 * row + column
    tl.store(p, s0)
    tl.store(p + 1, s1)
    tl.store(p + 2, s2)
    tl.store(p + 16, s3)
    tl.store(p + 17, s4)
    tl.store(p + 18, s5)
    tl.store(p + 32, s6)
    tl.store(p + 33, s7)
    tl.store(p + 34, s8)
    if row != column:
        p = ptr + 16 * column + row
        tl.store(p, s0)
        tl.store(p + 16, s1)
        tl.store(p + 32, s2)
        tl.store(p + 1, s3)
        tl.store(p + 17, s4)
        tl.store(p + 33, s5)
        tl.store(p + 2, s6)
        tl.store(p + 18, s7)
        tl.store(p + 34, s8)


@jit
def store_block(ptr, block, column):
    """A block, and a vector of nine as its tenth column, into a tile (16, 16)."""
    store_corner(ptr, 0, 0, block[0])
    store_corner(ptr, 3, 0, block[1])
    store_corner(ptr, 3, 3, block[2])
    store_corner(ptr, 6, 0, block[3])
    store_corner(ptr, 6, 3, block[4])
    store_corner(ptr, 6, 6, block[5])
    s0, s1, s2, s3, s4, s5, s6, s7, s8 = total9(column)
    tl.store(ptr + 9, s0)
    tl.store(ptr + 25, s1)
    tl.store(ptr + 41, s2)
    tl.store(ptr + 57, s3)
    tl.store(ptr + 73, s4)
    tl.store(ptr + 89, s5)
    tl.store(ptr + 105, s6)
    tl.store(ptr + 121, s7)
    tl.store(ptr + 137, s8)
