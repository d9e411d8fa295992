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

_only_compiling = False


@contextlib.contextmanager
def only_compiling() -> Iterator[None]:
    """Launches compile, and run nothing."""
    global _only_compiling
    _only_compiling = True
    try:
        yield
    finally:
        _only_compiling = False


def jit(function: Any) -> Any:
    """A kernel, or a function that kernels call; every launch of it compiles with `COMPILED`."""
    kernel = triton.jit(function, do_not_specialize=COUNTS)

    def run(*args: Any, **options: Any) -> Any:
        if _only_compiling:
            options["warmup"] = True
        return type(kernel).run(kernel, *args, **COMPILED, **options)

    kernel.run = run
    return kernel
