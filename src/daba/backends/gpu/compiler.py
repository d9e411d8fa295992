"""Kernels compiled before they are needed, several at a time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Any

import torch
import triton

from daba.backends.gpu.kernels.jit import Launch, collecting, compile_only
from daba.distributed.comm.base import usable_cores

SLOW = 0.5
"""Seconds; a kernel that takes longer to be there is being compiled. From Triton's cache it is read
in a hundredth."""


def compile_ahead(launch: Callable[[], Any], device: torch.device, tell: bool) -> None:
    """Compile what `launch` launches, without running it, as far as nobody has yet. Triton's passes
    run beside each other in threads of one process."""
    if device.type != "cuda" or not hasattr(triton, "AsyncCompileMode"):
        return  # without: one after the other, when they are first launched
    with torch.cuda.device(device), collecting() as launches:
        launch()
    different = {_key(found): found for found in launches}
    pool = _Pool(len(different) if tell else 0, device)
    with pool, _parsing_in_threads():
        with torch.cuda.device(device), triton.AsyncCompileMode(pool):
            kernels = [compile_only(found) for found in different.values()]
        kernels = [k.result() if hasattr(type(k), "result") else k for k in kernels]
        list(pool.map(lambda kernel: kernel.run, kernels))  # builds what launches it, in C


@contextmanager
def _parsing_in_threads() -> Iterator[None]:
    """Before Python 3.11.8, garbage collected amid `ast.parse` may let another thread parse, too,
    and both fail (SystemError: AST constructor recursion depth mismatch)."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _key(launch: Launch) -> Any:
    """What Triton tells variants of a kernel by, and a little more."""
    kernel, args, options = launch
    values = [*enumerate(args), *sorted(options.items())]
    return id(kernel), tuple((name, _kind(value)) for name, value in values)


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.data_ptr() % 16 == 0
    return value


class _Pool(ThreadPoolExecutor):
    """Tells how much there is to do when a first job is slow."""

    def __init__(self, told: int, device: torch.device) -> None:
        number = torch.cuda.current_device() if device.index is None else device.index
        super().__init__(len(usable_cores()), initializer=torch.cuda.set_device, initargs=(number,))
        self.left = told
        self.lock = Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return super().submit(self._watched, fn, *args, **kwargs)

    def _watched(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        announce = Timer(SLOW, self._announce)
        announce.start()
        try:
            return fn(*args, **kwargs)
        finally:
            announce.cancel()
            with self.lock:
                self.left -= self.left > 0

    def _announce(self) -> None:
        with self.lock:
            count, self.left = self.left, 0
        if count:
            what = "GPU kernel" if count == 1 else "GPU kernels"
            print(f"daba: compiling {count} {what}, once…", file=sys.stderr, flush=True)
