"""Kernels that threads run side by side. They share two counters, of tasks that are claimed and of
tasks that are done, each the first number of an array. What a thread has written before it adds to
one is seen by whoever reads that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from daba.backends.cpu.kernels.binding import without_lock
from daba.core.types import Int64

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


def concurrent(small: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The decorator of kernels, given that of small functions. A kernel is made of a function that
    works on the tasks lo : hi. Threads that run it (`threads.py`), all without Python's lock, claim
    some tasks at once, so that one that comes late does less; who has nothing left to claim waits
    for the others for so many turns."""

    def decorate(function: Any) -> Any:
        names = list(inspect.signature(function).parameters)[2:]
        given = ", ".join(names)
        source = f"""def {function.__name__}(claimed, done, all_tasks, at_once, turns, {given}):
            lo = add(claimed, at_once)
            while lo < all_tasks:
                hi = min(lo + at_once, all_tasks)
                body(lo, hi, {given})
                add(done, hi - lo)
                lo = add(claimed, at_once)
            while turns > 0 and read(done) < all_tasks:
                turns -= 1"""
        hints, code = function.__annotations__, function.__code__
        bound = {"add": add, "read": read, "body": small(function)}
        bound["__name__"] = function.__module__
        exec(compile(source, code.co_filename, "exec"), bound)
        kernel = bound[function.__name__]
        kernel.__code__ = kernel.__code__.replace(co_firstlineno=code.co_firstlineno)
        kernel.__annotations__ = {"claimed": Int64, "done": Int64, "all_tasks": int}
        kernel.__annotations__ |= {"at_once": int, "turns": int}
        kernel.__annotations__ |= {name: hints[name] for name in names}
        return without_lock(kernel)

    return decorate
