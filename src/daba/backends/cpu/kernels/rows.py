"""Between memory and vectors: each lane reads and writes a row of its own."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from daba.backends.cpu.kernels.vectors import DOUBLE, INT, LANES, VECTOR, spread_in, vector


def _address(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, list[Any]]:
    """Where an array's bytes begin, and its strides."""
    array = make_array(kind)(context, builder, value)
    data = builder.bitcast(array.data, ir.IntType(8).as_pointer())
    return data, cgutils.unpack_tuple(builder, array.strides, kind.ndim)


def _row(builder: Any, data: Any, stride: Any, row: Any, column: int, kind: Any) -> Any:
    """Address of a number of a row, as one of `kind`."""
    if row.type.width < stride.type.width:
        row = builder.sext(row, stride.type)
    start = builder.gep(data, [builder.add(builder.mul(row, stride), stride.type(8 * column))])
    return builder.bitcast(start, kind.as_pointer())


_FOUR = ir.VectorType(DOUBLE, 4)


def _shuffle(builder: Any, x: Any, y: Any, *order: int) -> Any:
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(INT, len(order)), order))


def _columns(builder: Any, rows: list[Any]) -> list[Any]:
    """Eight rows of four numbers as four vectors."""
    join = tuple(range(LANES))
    pairs = [_shuffle(builder, rows[n], rows[n + 1], *join) for n in range(0, LANES, 2)]
    two = [tuple(c + r for c in (c, c + 1) for r in (0, 4, 8, 12)) for c in (0, 2)]
    left, right = (
        [_shuffle(builder, pairs[n], pairs[n + 1], *columns) for columns in two] for n in (0, 2)
    )
    return [_shuffle(builder, left[c // 2], right[c // 2], *_halves(c % 2)) for c in range(4)]


def _halves(which: int) -> tuple[int, ...]:
    """The first or the second half of two vectors."""
    first = range(4 * which, 4 * which + 4)
    return *first, *(n + LANES for n in first)


def _rows(builder: Any, columns: list[Any]) -> list[Any]:
    """Four vectors as eight rows of four numbers."""
    low, high = ((0, 8, 1, 9, 2, 10, 3, 11), (4, 12, 5, 13, 6, 14, 7, 15))
    out = []
    for order in (low, high):
        left, right = (_shuffle(builder, columns[c], columns[c + 1], *order) for c in (0, 2))
        out += [_shuffle(builder, left, right, n, n + 1, n + 8, n + 9) for n in range(0, LANES, 2)]
    return out


def read_rows(width: int) -> Any:
    """rows(matrix, numbers, n): of the rows numbers[n : n + LANES] the first `width` numbers, each
    of them a vector."""

    @intrinsic
    def rows(typingctx, matrix, numbers, n):
        result = types.UniTuple(vector, width)

        def generate(context, builder, sig, args):
            data, strides = _address(context, builder, sig.args[0], args[0])
            index, _ = _address(context, builder, sig.args[1], args[1])
            word = ir.IntType(sig.args[1].dtype.bitwidth)
            index = builder.gep(builder.bitcast(index, word.as_pointer()), [args[2]])
            numbers = [
                builder.load(builder.gep(index, [ir.IntType(64)(lane)])) for lane in range(LANES)
            ]

            def load(lane, column, kind):
                at = _row(builder, data, strides[0], numbers[lane], column, kind)
                return builder.load(at, align=8)

            out = []
            for column in range(0, width - 3, 4):
                out += _columns(builder, [load(n, column, _FOUR) for n in range(LANES)])
            for column in range(len(out), width):
                value = ir.Constant(VECTOR, ir.Undefined)
                for lane in range(LANES):
                    number = load(lane, column, DOUBLE)
                    value = builder.insert_element(value, number, INT(lane))
                out.append(value)
            return context.make_tuple(builder, result, out)

        return result(matrix, numbers, n), generate

    return rows


def _write(context: Any, builder: Any, sig: Any, args: Any, row_of: Any) -> Any:
    """Each lane of a tuple's numbers into a row of a matrix, row_of(lane), where that is not
    negative."""
    data, strides = _address(context, builder, sig.args[0], args[0])
    kinds = list(sig.args[-1])
    numbers = cgutils.unpack_tuple(builder, args[-1], len(kinds))
    numbers = [spread_in(builder, k, a) for k, a in zip(kinds, numbers, strict=True)]
    whole = len(kinds) - len(kinds) % 4
    groups = [_rows(builder, numbers[c : c + 4]) for c in range(0, whole, 4)]
    for lane in range(LANES):
        row = row_of(lane)
        with builder.if_then(builder.icmp_signed(">=", row, row.type(0))):
            for n, group in enumerate(groups):
                at = _row(builder, data, strides[0], row, 4 * n, _FOUR)
                builder.store(group[lane], at, align=8)
            for column in range(whole, len(kinds)):
                at = _row(builder, data, strides[0], row, column, DOUBLE)
                builder.store(builder.extract_element(numbers[column], INT(lane)), at)
    return context.get_dummy_value()


@intrinsic
def write_rows(typingctx, matrix, values):
    """The first LANES rows of a matrix begin with the lanes of `values`."""

    def generate(context, builder, sig, args):
        return _write(context, builder, sig, args, ir.IntType(64))

    return types.void(matrix, values), generate


@intrinsic
def write_numbered(typingctx, matrix, numbers, values):
    """The rows `numbers` of a matrix, those that are not negative, begin with the lanes of
    `values`."""

    def generate(context, builder, sig, args):
        data, strides = _address(context, builder, sig.args[1], args[1])

        def row_of(lane):
            number = builder.gep(data, [strides[0].type(8 * lane)])
            return builder.load(builder.bitcast(number, ir.IntType(64).as_pointer()))

        return _write(context, builder, sig, args, row_of)

    return types.void(matrix, numbers, values), generate


@intrinsic
def scaled(typingctx, values, factor, condition):
    """factor × each of a tuple's vectors where the condition holds, 0 elsewhere."""
    result = types.UniTuple(vector, len(values))

    def generate(context, builder, sig, args):
        kinds = list(sig.args[0])
        numbers = cgutils.unpack_tuple(builder, args[0], len(kinds))
        out = [
            builder.select(
                args[2], builder.fmul(spread_in(builder, k, n), args[1]), VECTOR([0.0] * LANES)
            )
            for k, n in zip(kinds, numbers, strict=True)
        ]
        return context.make_tuple(builder, result, out)

    return result(values, factor, condition), generate


@intrinsic
def read(typingctx, array, n):
    """array[n : n + LANES]."""

    def generate(context, builder, sig, args):
        data, strides = _address(context, builder, sig.args[0], args[0])
        return builder.load(_row(builder, data, strides[0], args[1], 0, VECTOR), align=8)

    return vector(array, n), generate


def _part(context: Any, builder: Any, sig: Any, args: Any) -> tuple[Any, Any]:
    """Where `get` and `put` read and write, and which lanes do."""
    data, strides = _address(context, builder, sig.args[0], args[0])
    at = builder.add(builder.mul(args[1], strides[0]), builder.mul(args[2], strides[1]))
    place = builder.bitcast(builder.gep(data, [at]), VECTOR.as_pointer())
    word = args[3].type
    one = builder.insert_element(ir.Constant(_WORDS, ir.Undefined), args[3], INT(0))
    count = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(INT, LANES), [0] * LANES))
    lanes = ir.Constant(ir.VectorType(word, LANES), list(range(LANES)))
    return place, builder.icmp_signed("<", lanes, count)


_WORDS = ir.VectorType(ir.IntType(64), LANES)


@intrinsic
def get(typingctx, matrix, row, column, count):
    """matrix[row, column : column + LANES], of which the first `count` are there, and zeros."""

    def generate(context, builder, sig, args):
        place, there = _part(context, builder, sig, args)
        kind = ir.FunctionType(VECTOR, [place.type, INT, there.type, VECTOR])
        name = f"llvm.masked.load.v{LANES}f64.p0{_suffix(place)}"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, [place, INT(8), there, VECTOR([0.0] * LANES)])

    return vector(matrix, types.intp, types.intp, types.intp), generate


@intrinsic
def put(typingctx, matrix, row, column, count, value):
    """The first `count` of matrix[row, column : column + LANES] = value."""

    def generate(context, builder, sig, args):
        place, there = _part(context, builder, sig, args)
        kind = ir.FunctionType(ir.VoidType(), [VECTOR, place.type, INT, there.type])
        name = f"llvm.masked.store.v{LANES}f64.p0{_suffix(place)}"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [args[4], place, INT(8), there])
        return context.get_dummy_value()

    return types.void(matrix, types.intp, types.intp, types.intp, vector), generate


def _suffix(pointer: Any) -> str:
    """How LLVM names what a pointer points to, where it still does."""
    return "" if getattr(pointer.type, "is_opaque", False) else f"v{LANES}f64"


@intrinsic
def total(typingctx, value):
    """The sum of all lanes, always in the same order."""

    def generate(context, builder, sig, args):
        out = args[0]
        width = LANES
        while width > 1:
            width //= 2
            order = [(n + width) % LANES for n in range(LANES)]
            other = builder.shuffle_vector(out, out, ir.Constant(ir.VectorType(INT, LANES), order))
            out = builder.fadd(out, other)
        return builder.extract_element(out, INT(0))

    return types.float64(vector), generate
