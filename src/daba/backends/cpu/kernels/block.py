"""Small dense blocks. The one operation that most of the time goes into gives a 9×9 block a
product of rank two:

    B[a, b] += (p L[a] + r L[9+a]) R[b] + (q L[a] + s L[9+a]) R[9+b],   a, b = 0…8

that is, B += Lᵀ [[p, q], [r, s]] R for two records of derivatives, each 2×9 row by row. Numba
leaves loops of nine scalar, and rows of nine never lie on a cache line; so B is kept packed, as
8×8, then its last row, its last column and its corner, and LLVM is told to use vectors of 8.
Measured in forming S, one thread: 64 ns with plain loops, 32 ns with vectors on a plain matrix,
and 24 ns packed.
"""

import math

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from daba.backends.cpu.kernels.binding import INSIDE, inline

AHEAD = 6
"""How many observations ahead of its use a record is asked for."""
PACKED = 88
"""Numbers of a packed block: 81 and padding to whole cache lines."""
_INT = ir.IntType(32)
_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, 8)
_FAST = ("contract",)


def _data(context, builder, kind, value):
    array = make_array(kind)(context, builder, value)
    return array, builder.bitcast(array.data, ir.IntType(8).as_pointer())


def _at(builder, base, offset, kind):
    return builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())


def _splat(builder, vector, lane):
    mask = ir.Constant(ir.VectorType(ir.IntType(32), 8), [lane] * 8)
    return builder.shuffle_vector(vector, vector, mask)


@intrinsic
def add_block(typingctx, packed, left, right, p, q, r, s):
    """See the module's first lines; all three arrays are contiguous rows."""
    rows = (packed, left, right)
    if not all(isinstance(x, types.Array) and x.ndim == 1 and x.layout == "C" for x in rows):
        return None
    number = types.float64
    signature = types.void(packed, left, right, number, number, number, number)

    def generate(context, builder, signature, args):
        B, L, R = (_data(context, builder, signature.args[n], args[n])[1] for n in range(3))
        mul = lambda x, y: builder.fmul(x, y, flags=_FAST)  # noqa: E731
        add = lambda x, y: builder.fadd(x, y, flags=_FAST)  # noqa: E731

        def at(base, index, kind):
            return _at(builder, base, ir.IntType(64)(8 * index), kind)

        def read(base, index, kind):
            return builder.load(at(base, index, kind), align=8)

        def increase(index, kind, x, y, z, w):
            cell = at(B, index, kind)
            value = add(builder.load(cell, align=8), add(mul(x, y), mul(z, w)))
            builder.store(value, cell, align=8)

        def first(scalar):
            one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, _INT(0))
            return _splat(builder, one, 0)

        p, q, r, s = args[3:]
        wide_p, wide_q, wide_r, wide_s = (first(x) for x in (p, q, r, s))
        upper, lower = read(L, 0, _VECTOR), read(L, 9, _VECTOR)
        g = add(mul(wide_p, upper), mul(wide_r, lower))
        h = add(mul(wide_q, upper), mul(wide_s, lower))
        upper8, lower8 = read(L, 8, _DOUBLE), read(L, 17, _DOUBLE)
        g8 = add(mul(p, upper8), mul(r, lower8))
        h8 = add(mul(q, upper8), mul(s, lower8))
        x, y = read(R, 0, _VECTOR), read(R, 9, _VECTOR)
        x8, y8 = read(R, 8, _DOUBLE), read(R, 17, _DOUBLE)
        for a in range(8):
            increase(8 * a, _VECTOR, _splat(builder, g, a), x, _splat(builder, h, a), y)
        increase(64, _VECTOR, first(g8), x, first(h8), y)
        increase(72, _VECTOR, g, first(x8), h, first(y8))
        increase(80, _DOUBLE, g8, x8, h8, y8)
        return context.get_dummy_value()

    return signature, generate


MOMENTS = 72
"""Numbers of a camera's moments, nine rows of six and two of padding."""


@intrinsic
def add_moments(typingctx, block, record, u, v):
    """block (9×8, row by row) += ½w (m, e) mᵀ, m = (u, v, 1, s, s², λ, 0, 0), s = u² + v²; e, λ
    and w are the first five of `record`."""
    if not all(isinstance(x, types.Array) and x.layout == "C" for x in (block, record)):
        return None
    signature = types.void(block, record, types.float64, types.float64)

    def generate(context, builder, signature, args):
        B, r = (_data(context, builder, signature.args[n], args[n])[1] for n in range(2))
        mul = lambda x, y: builder.fmul(x, y, flags=_FAST)  # noqa: E731
        add = lambda x, y: builder.fadd(x, y, flags=_FAST)  # noqa: E731

        def at(base, index, kind):
            return _at(builder, base, ir.IntType(64)(8 * index), kind)

        ex, ey, ez, lam, w = (builder.load(at(r, n, _DOUBLE), align=8) for n in range(5))
        u, v = args[2:]
        s = add(mul(u, u), mul(v, v))
        m = ir.Constant(_VECTOR, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        for lane, value in ((0, u), (1, v), (3, s), (4, mul(s, s)), (5, lam)):
            m = builder.insert_element(m, value, _INT(lane))
        half = mul(_DOUBLE(0.5), w)
        rows = [_splat(builder, m, a) for a in range(6)]
        for value in (ex, ey, ez):
            one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, _INT(0))
            rows.append(_splat(builder, one, 0))
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), half, _INT(0))
        scaled = mul(_splat(builder, one, 0), m)
        for a, row in enumerate(rows):
            cell = at(B, 8 * a, _VECTOR)
            builder.store(add(builder.load(cell, align=8), mul(row, scaled)), cell, align=8)
        return context.get_dummy_value()

    return signature, generate


@inline
def copy(source, out):
    """out ← source, vectors. Numba takes two seconds to compile `out[:] = source`, most of them for
    the message that shapes differ."""
    for a in range(len(out)):
        out[a] = source[a]


@inline
def copy_matrix(source, out):
    """The same of matrices."""
    for a in range(len(out)):
        copy(source[a], out[a])


@inline
def subtract(vector, out):
    """out ← out − vector."""
    for a in range(len(out)):
        out[a] -= vector[a]


@inline
def subtract_matrix(matrix, out):
    """The same of matrices."""
    for a in range(len(out)):
        subtract(matrix[a], out[a])


@inline
def unpack(packed, out):
    """out (9×9) = the packed block."""
    for a in range(8):
        for b in range(8):
            out[a, b] = packed[8 * a + b]
        out[8, a] = packed[64 + a]
        out[a, 8] = packed[72 + a]
    out[8, 8] = packed[80]


def aligned(count):
    """`count` packed blocks, each beginning on a cache line."""
    raw = np.empty(count * PACKED + 8)
    start = (-raw.ctypes.data // 8) % 8
    return raw[start : start + count * PACKED].reshape(count, PACKED)


@intrinsic
def prefetch(typingctx, matrix, row):
    """Ask for matrix[row, :24] to be brought into the cache; no effect on any value.

    Reading by camera jumps through memory in steps that the hardware cannot foresee.
    """
    if not (isinstance(matrix, types.Array) and matrix.ndim == 2):
        return None

    def generate(context, builder, signature, args):
        array, base = _data(context, builder, signature.args[0], args[0])
        stride = cgutils.unpack_tuple(builder, array.strides, 2)[0]
        start = builder.gep(base, [builder.mul(args[1], stride)])
        word, small = args[1].type, _INT
        kind = ir.FunctionType(ir.VoidType(), [base.type, small, small, small])
        name = (
            "llvm.prefetch.p0i8"
            if not getattr(base.type, "is_opaque", False)
            else "llvm.prefetch.p0"
        )
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        for line in range(3):
            at = builder.gep(start, [word(64 * line)])
            builder.call(function, [at, small(0), small(3), small(1)])
        return context.get_dummy_value()

    return types.void(matrix, types.intp), generate


# Small matrices factored by one thread


@inline
def solve9(A, b, x, L):
    """x = A⁻¹ b by Cholesky (lower triangle of A); False if A is not positive definite."""
    for a in range(9):
        for c in range(a + 1):
            v = A[a, c]
            for k in range(c):
                v -= L[a, k] * L[c, k]
            if c < a:
                L[a, c] = v / L[c, c]
            elif v > 0.0:
                L[a, a] = math.sqrt(v)
            else:
                return False
    for a in range(9):
        v = b[a]
        for k in range(a):
            v -= L[a, k] * x[k]
        x[a] = v / L[a, a]
    for a in range(8, -1, -1):
        v = x[a]
        for k in range(a + 1, 9):
            v -= L[k, a] * x[k]
        x[a] = v / L[a, a]
    return True


fast = numba.njit(fastmath={"contract", "reassoc", "nsz"}, **INSIDE)
"""Sums in any order, so that they can be vectorized: always the same one, once compiled."""


@fast
def factor_tile(A, inverse):
    """A ← L (lower) with A = L Lᵀ, inverse ← L⁻¹; False if A is not positive definite."""
    n = len(A)
    for a in range(n):
        for b in range(a):
            x = 0.0
            for k in range(b):
                x += A[a, k] * A[b, k]
            A[a, b] = (A[a, b] - x) / A[b, b]
        x = 0.0
        for k in range(a):
            x += A[a, k] * A[a, k]
        x = A[a, a] - x
        if not x > 0.0:
            return False
        A[a, a] = math.sqrt(x)
        for b in range(a + 1, n):
            A[a, b] = 0.0
    inverse[:] = 0.0
    for a in range(n):
        for k in range(a):
            x = A[a, k]
            for b in range(k + 1):
                inverse[a, b] += x * inverse[k, b]
        pivot = 1.0 / A[a, a]
        for b in range(a):
            inverse[a, b] *= -pivot
        inverse[a, a] = pivot
    return True
