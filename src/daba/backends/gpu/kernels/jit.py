"""The decorator of the GPU kernels: Triton's, with the compile options that decide on bits.

Triton 3.10 no longer fuses a product and a sum into one operation by default. Fused, a result is
rounded once instead of twice; the default of whichever Triton is installed must not decide that.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import triton

COMPILED = {"enable_fp_fusion": True}
COUNTS = (
    "S", "C", "P", "N", "count", "size", "rows_of_S", "stride", "columns", "clusters", "modes",
    "width", "runs", "w", "STEPS",
)  # fmt: skip
"""Parameters that are whole numbers. Triton would compile a kernel once more for those that 16
divides, and for 1, so that a problem of another size would find nothing in the cache."""

Launch = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A kernel, and what it is launched with."""

_collected: list[Launch] | None = None


@contextlib.contextmanager
def collecting() -> Iterator[list[Launch]]:
    """Launches are put into a list, and run nothing."""
    global _collected
    _collected = []
    try:
        yield _collected
    finally:
        _collected = None


def compile_only(launch: Launch) -> Any:
    """The compiled kernel, or what will be."""
    kernel, args, options = launch
    return type(kernel).run(kernel, *args, **COMPILED, **options | {"warmup": True})


def jit(function: Any) -> Any:
    """A kernel, or a function that kernels call; every launch of it compiles with `COMPILED`."""
    kernel = triton.jit(function, do_not_specialize=COUNTS)

    def run(*args: Any, **options: Any) -> Any:
        if _collected is not None:
            return _collected.append((kernel, args, options))
        return type(kernel).run(kernel, *args, **COMPILED, **options)

    kernel.run = run
    return kernel
