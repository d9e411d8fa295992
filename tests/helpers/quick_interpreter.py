"""Triton's interpreter, in half the time. It replaces all of the language's functions by its own
when a kernel begins, and again for each function that the kernel calls, though they are replaced
already; and makes a table of all types whenever it asks for one."""

from __future__ import annotations

import functools
from typing import Any


def quicken() -> None:
    """For this process."""
    from triton.language import pointer_type
    from triton.runtime import interpreter

    launch, call = interpreter.GridExecutor.__call__, interpreter.InterpretedFunction.__call__
    patch, of_numbers = interpreter._patch_lang, functools.cache(interpreter._get_np_dtype)
    of_pointers = interpreter._get_np_dtype
    patched: set[int] = set()

    def launched(self: Any, *args: Any, **options: Any) -> Any:
        patched.clear()
        return launch(self, *args, **options)

    def patch_once(function: Any) -> None:
        """In a launch, what functions of a module see."""
        module = id(function.__globals__)
        if module not in patched:
            patch(function)
            patched.add(module)

    def called(self: Any, *args: Any, **options: Any) -> Any:
        interpreter._patch_lang = patch_once
        try:
            return call(self, *args, **options)
        finally:
            interpreter._patch_lang = patch

    def dtype(kind: Any) -> Any:
        element = kind.scalar
        return (of_pointers if isinstance(element, pointer_type) else of_numbers)(element)

    interpreter.GridExecutor.__call__ = launched
    interpreter.InterpretedFunction.__call__ = called
    interpreter._get_np_dtype = dtype
