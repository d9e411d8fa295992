"""Kernels compiled before they are needed, several at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Timer
from typing import Any

import torch
import triton

from daba.backends.gpu.kernels.jit import Launch, collecting, compile_only
from daba.distributed.comm.base import usable_cores

FROM_CACHE = 0.5
"""Seconds after which what is not there is being compiled, and not read from Triton's cache: all
kernels of a solve are read in 0.2 s."""


def compile_ahead(launch: Callable[[], Any], device: torch.device, tell: bool) -> None:
    """Compile what `launch` launches, without running it, as far as nobody has yet. Triton's passes
    run beside each other in threads of one process."""
    if device.type != "cuda" or not hasattr(triton, "AsyncCompileMode"):
        return  # without: one after the other, when they are first launched
    with torch.cuda.device(device), collecting() as launches:
        launch()
    different = {_key(found): found for found in launches}
    pool = _Pool(max_workers=max(1, len(usable_cores())))
    announce = Timer(FROM_CACHE, lambda: _announce(len(different) - pool.done if tell else 0))
    announce.start()
    with pool, torch.cuda.device(device), triton.AsyncCompileMode(pool):
        for found in different.values():
            compile_only(found)
    announce.cancel()


def _announce(count: int) -> None:
    if count == 0:
        return
    what = "GPU kernel" if count == 1 else "GPU kernels"
    print(f"daba: compiling {count} {what}, once…", file=sys.stderr, flush=True)


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
    """Counts what it has done."""

    done = 0

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        future = super().submit(*args, **kwargs)
        future.add_done_callback(self._count)
        return future

    def _count(self, future: Any) -> None:
        self.done += 1
