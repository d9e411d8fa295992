"""Counters that threads share: the first number of an array. What a thread has written before it
adds to one is seen by whoever reads that."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

ORDER = "seq_cst"
BYTES = 8


def _place(context: Any, builder: Any, kind: Any, counter: Any) -> Any:
    return builder.bitcast(
        make_array(kind)(context, builder, counter).data, ir.IntType(64).as_pointer()
    )


@intrinsic
def add(typingctx, counter, count):
    """Add to a counter; what it was before."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature.args[0], args[0])
        return builder.atomic_rmw("add", place, args[1], ORDER)

    return types.int64(counter, types.int64), generate


@intrinsic
def read(typingctx, counter):
    """What a counter is now."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature.args[0], args[0])
        return builder.load_atomic(place, ORDER, BYTES)

    return types.int64(counter), generate
