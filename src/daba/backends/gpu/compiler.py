"""Kernels compiled before they are needed, several at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import torch
import triton

from daba.backends.gpu.kernels.jit import only_compiling
from daba.distributed.comm.base import usable_cores

FROM_CACHE = 0.5
"""Seconds after which what is not there is being compiled, and not read from Triton's cache: all
kernels of a solve are read in 0.1 s."""


def compile_ahead(launch: Callable[[], Any], device: torch.device, tell: bool) -> None:
    """Compile what `launch` launches, without running it, as far as nobody has yet. Triton's passes
    run beside each other in threads of one process."""
    if device.type != "cuda" or not hasattr(triton, "AsyncCompileMode"):
        return  # without: one after the other, when they are first launched
    pool = _Pool(max_workers=max(1, len(usable_cores())))
    with pool, torch.cuda.device(device), triton.AsyncCompileMode(pool):
        with only_compiling():
            launch()
        missing = wait(pool.submitted, timeout=FROM_CACHE).not_done
        if missing and tell:
            print(f"daba: compiling {len(missing)} GPU kernels, once…", file=sys.stderr, flush=True)


class _Pool(ThreadPoolExecutor):
    """Remembers what it was given."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.submitted: list[Any] = []

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        self.submitted.append(super().submit(*args, **kwargs))
        return self.submitted[-1]
