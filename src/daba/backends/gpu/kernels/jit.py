"""The decorator of the GPU kernels: Triton's, with the compile options that decide on bits.

Triton 3.10 no longer fuses a product and a sum into one operation by default. Fused, a result is
rounded once instead of twice; the default of whichever Triton is installed must not decide that.
"""

from typing import Any

import triton

COMPILED = {"enable_fp_fusion": True}


def jit(function: Any) -> Any:
    """A kernel, or a function that kernels call; every launch of it compiles with `COMPILED`."""
    kernel = triton.jit(function)

    def run(*args: Any, **options: Any) -> Any:
        return type(kernel).run(kernel, *args, **COMPILED, **options)

    kernel.run = run
    return kernel
