"""Numbers of several observations in one register: `core`'s formulas, which are free of branches,
compile for them as they stand.

A vector has LANES numbers; a mask says of each yes or no. Operators and functions take vectors and
plain numbers alike. LLVM makes of it what the processor has, such as two registers of four.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 8
"""Numbers in one vector."""
DOUBLE = ir.DoubleType()
INT = ir.IntType(32)
VECTOR = ir.VectorType(DOUBLE, LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)


class Vector(types.Type):
    """The type of vectors, for Numba."""


class Mask(types.Type):
    """The type of masks."""


vector, mask = Vector("vector"), Mask("mask")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _MASK)


def spread_in(builder: Any, kind: Any, value: Any) -> Any:
    """A plain number in all lanes; vectors and masks stay."""
    if kind in (vector, mask):
        return value
    if isinstance(kind, types.Integer):
        value = builder.sitofp(value, DOUBLE)
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, INT(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(INT, LANES), [0] * LANES))


PLAIN = (types.float64, types.int64)
ONE: list[Any] = [(vector,)]
TWO: list[Any] = [(vector, vector), *((vector, p) for p in PLAIN), *((p, vector) for p in PLAIN)]


def _declare(function: Any, result: Any, arguments: list[Any], emit: Any) -> None:
    """`function` of these arguments gives `result`, by what emit(context, builder, *vectors)
    writes."""
    cases = [signature(result, *kinds) for kinds in arguments]
    infer_global(function)(
        type(f"_{function.__name__}", (ConcreteTemplate,), {"key": function, "cases": cases})
    )

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        everywhere = (spread_in(builder, k, a) for k, a in zip(sig.args, args, strict=True))
        return emit(context, builder, *everywhere)

    for kinds in arguments:
        lower_builtin(function, *kinds)(lower)


def _instruction(name: str) -> Any:
    return lambda context, builder, *args: getattr(builder, name)(*args)


def _comparison(sign: str) -> Any:
    return lambda context, builder, x, y: builder.fcmp_ordered(sign, x, y)


def _sqrt(context: Any, builder: Any, x: Any) -> Any:
    kind = ir.FunctionType(VECTOR, [VECTOR])
    name = f"llvm.sqrt.v{LANES}f64"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [x])


def _lane_by_lane(function: Any, count: int) -> Any:
    """A function of `count` numbers, called for one lane after the other."""
    plain = signature(types.float64, *(types.float64,) * count)

    def emit(context: Any, builder: Any, *args: Any) -> Any:
        call = context.get_function(function, plain)
        out = ir.Constant(VECTOR, ir.Undefined)
        for n in range(LANES):
            numbers = [builder.extract_element(a, INT(n)) for a in args]
            out = builder.insert_element(out, call(builder, numbers), INT(n))
        return out

    return emit


_declare(operator.add, vector, TWO, _instruction("fadd"))
_declare(operator.iadd, vector, TWO, _instruction("fadd"))
_declare(operator.sub, vector, TWO, _instruction("fsub"))
_declare(operator.mul, vector, TWO, _instruction("fmul"))
_declare(operator.truediv, vector, TWO, _instruction("fdiv"))
_declare(operator.neg, vector, ONE, _instruction("fneg"))
_declare(operator.lt, mask, TWO, _comparison("<"))
_declare(operator.le, mask, TWO, _comparison("<="))
_declare(operator.gt, mask, TWO, _comparison(">"))
_declare(operator.ge, mask, TWO, _comparison(">="))
_declare(operator.eq, mask, TWO, _comparison("=="))
_declare(operator.and_, mask, [(mask, mask)], _instruction("and_"))
_declare(math.sqrt, vector, ONE, _sqrt)
_declare(math.atan2, vector, TWO, _lane_by_lane(math.atan2, 2))
for _function in (math.tan, math.sin, math.exp, math.expm1, math.log1p):
    _declare(_function, vector, ONE, _lane_by_lane(_function, 1))


@intrinsic
def spread(typingctx, number):
    """The vector that has a number in all lanes."""

    def generate(context, builder, sig, args):
        return spread_in(builder, sig.args[0], args[0])

    return vector(number), generate


@intrinsic
def any_lane(typingctx, condition):
    """Whether it holds in one lane at least."""
    if condition != mask:
        return None

    def generate(context, builder, sig, args):
        word = ir.IntType(LANES)
        return builder.icmp_unsigned("!=", builder.bitcast(args[0], word), word(0))

    return types.boolean(condition), generate


@intrinsic
def where(typingctx, condition, yes, no):
    """yes where the condition holds, no elsewhere; of vectors, masks and plain numbers."""
    kinds = (condition, yes, no)
    of_lanes = mask if yes == mask else vector
    result = of_lanes if condition == mask else types.float64

    def generate(context, builder, sig, args):
        if result == vector:
            values = [spread_in(builder, k, a) for k, a in zip(kinds[1:], args[1:], strict=True)]
        elif result == mask:
            values = args[1:]
        else:
            values = [
                context.cast(builder, a, k, result)
                for k, a in zip(kinds[1:], args[1:], strict=True)
            ]
        return builder.select(args[0], *values)

    return result(*kinds), generate
