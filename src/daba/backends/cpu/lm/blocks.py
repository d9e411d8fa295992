"""The one operation that most of the time goes into: a B×B block gets a product of rank two.

    block[a, b] += (p L[a] + r L[B+a]) R[b] + (q L[a] + s L[B+a]) R[B+b],   a, b = 0…B−1

that is, block += Lᵀ [[p, q], [r, s]] R for two records of derivatives, each 2×B row by row. Numba
leaves short loops scalar, so LLVM is told to use vectors of 8 and 4, and rows are padded to whole
vectors: what is read and added there is never looked at.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from daba.backends.cpu.kernels import block as nine
from daba.backends.cpu.kernels.binding import inline
from daba.backends.cpu.lm.factors import lanes

_DOUBLE = ir.DoubleType()
_INT = ir.IntType(32)
_FAST = ("contract",)


def _pieces(B: int) -> list[tuple[int, int]]:
    """(start, width) of the vectors that make up a padded row."""
    return [(at, 8 if at + 8 <= lanes(B) else 4) for at in range(0, lanes(B), 8)]


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    array = make_array(kind)(context, builder, value)
    return builder.bitcast(array.data, ir.IntType(8).as_pointer())


@cache
def add_block(B: int) -> Any:
    """The operation for blocks of B."""
    if B == 9:
        return nine.add_block
    wide = lanes(B)

    @intrinsic
    def add(typingctx, packed, left, right, p, q, r, s):
        rows = (packed, left, right)
        if not all(isinstance(x, types.Array) and x.ndim == 1 and x.layout == "C" for x in rows):
            return None
        number = types.float64
        signature = types.void(packed, left, right, number, number, number, number)

        def generate(context, builder, signature, args):
            block, L, R = (_data(context, builder, signature.args[n], args[n]) for n in range(3))
            mul = lambda x, y: builder.fmul(x, y, flags=_FAST)  # noqa: E731
            plus = lambda x, y: builder.fadd(x, y, flags=_FAST)  # noqa: E731

            def at(base, index, kind):
                where = builder.gep(base, [ir.IntType(64)(8 * index)])
                return builder.bitcast(where, kind.as_pointer())

            def read(base, index, kind):
                return builder.load(at(base, index, kind), align=8)

            def spread(scalar, width):
                kind = ir.VectorType(_DOUBLE, width)
                one = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, _INT(0))
                mask = ir.Constant(ir.VectorType(_INT, width), [0] * width)
                return builder.shuffle_vector(one, one, mask)

            p, q, r, s = args[3:]
            right_pieces = [
                (
                    start,
                    width,
                    read(R, start, ir.VectorType(_DOUBLE, width)),
                    read(R, B + start, ir.VectorType(_DOUBLE, width)),
                )
                for start, width in _pieces(B)
            ]
            for a in range(B):
                upper, lower = read(L, a, _DOUBLE), read(L, B + a, _DOUBLE)
                g = plus(mul(p, upper), mul(r, lower))
                h = plus(mul(q, upper), mul(s, lower))
                for start, width, x, y in right_pieces:
                    kind = ir.VectorType(_DOUBLE, width)
                    cell = at(block, wide * a + start, kind)
                    value = plus(mul(spread(g, width), x), mul(spread(h, width), y))
                    builder.store(plus(builder.load(cell, align=8), value), cell, align=8)
            return context.get_dummy_value()

        return signature, generate

    return add


@cache
def unpack(B: int) -> Any:
    """out (B×B) = the packed block."""
    if B == 9:
        return nine.unpack
    wide = lanes(B)

    def unpacked(packed, out):
        for a in range(B):
            for b in range(B):
                out[a, b] = packed[wide * a + b]

    unpacked.__qualname__ += f"_{B}"  # loaded kernels must not take another size's for theirs
    return inline(unpacked)


@intrinsic
def prefetch(typingctx, matrix, row):
    """Ask for the first 24 numbers of matrix[row] to be brought into the cache; no effect on any
    value. Reading by frame jumps through memory in steps that the hardware cannot foresee."""
    if not (isinstance(matrix, types.Array) and matrix.ndim == 2):
        return None

    def generate(context, builder, signature, args):
        array = make_array(signature.args[0])(context, builder, args[0])
        base = builder.bitcast(array.data, ir.IntType(8).as_pointer())
        stride = cgutils.unpack_tuple(builder, array.strides, 2)[0]
        start = builder.gep(base, [builder.mul(args[1], stride)])
        word = args[1].type
        kind = ir.FunctionType(ir.VoidType(), [base.type, _INT, _INT, _INT])
        opaque = getattr(base.type, "is_opaque", False)
        name = "llvm.prefetch.p0" if opaque else "llvm.prefetch.p0i8"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        for line in range(3):
            at = builder.gep(start, [word(64 * line)])
            builder.call(function, [at, _INT(0), _INT(3), _INT(1)])
        return context.get_dummy_value()

    return types.void(matrix, types.intp), generate
