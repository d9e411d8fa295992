"""Numba in a worker, which compiles kernels and never runs them: nothing but the kernels themselves
becomes machine code.

Numba compiles each function that a kernel calls, and the body and the wrappers of each parallel
loop, as if somebody were to call it, and then once more as a part of its caller; loops it optimizes
four times so. Here only what is cached becomes machine code, and loops are optimized with the
kernel: that takes a third off the time, and every bit of a solve stays. (To optimize inner
functions only there, too, would take off more, but rounds otherwise.)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from numba.core import codegen, compiler

COUNTS = "nrt"
"""Numba's own library of reference counts, which every process needs."""


def install(kernels: Collection[str]) -> None:
    """Change this process's Numba for good; `kernels` has their names, also of those to come."""
    library: Any = codegen.JITCodeLibrary
    generator: Any = codegen.JITCPUCodegen
    module: Any = compiler
    optimize, finish = library._optimize_final_module, library._finalize_final_module
    set_environment = generator.set_env
    compile_loop = compiler.compile_ir

    def optimize_once(self: Any) -> None:
        """Loops and their wrappers are named so."""
        if "gufunc" not in self.name.lower():
            optimize(self)

    def finish_needed(self: Any) -> None:
        if self.name == COUNTS or self.name in kernels:
            finish(self)
        else:
            self._finalize_dynamic_globals()
            self._finalized = True

    def set_existing(self: Any, name: str, environment: Any) -> None:
        if self._engine.is_symbol_defined(name):
            set_environment(self, name, environment)

    def without_wrapper(context: Any, target: Any, ir: Any, *rest: Any, **more: Any) -> Any:
        """Of the body of a loop, which Python never calls."""
        flags = rest[2]
        before, flags.no_cpython_wrapper = flags.no_cpython_wrapper, True
        try:
            return compile_loop(context, target, ir, *rest, **more)
        finally:
            flags.no_cpython_wrapper = before

    library._optimize_final_module = optimize_once
    library._finalize_final_module = finish_needed
    generator.set_env = set_existing
    module.compile_ir = without_wrapper
