"""Launches recorded once and replayed: a launch from Python costs more than a small kernel runs."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Hashable, Iterator

import torch


class Graphs:
    """CUDA graphs by name; without CUDA (Triton's interpreter) the launches themselves."""

    def __init__(self, device: torch.device) -> None:
        self.recorded: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self.possible = device.type == "cuda"
        self.pool = torch.cuda.graph_pool_handle() if self.possible else None
        self.warm: set[Hashable] = set()

    def run(self, name: Hashable, launch: Callable[[], None]) -> None:
        """Replay what `name` stands for; the first time it runs as it is, which compiles its
        kernels, and the second time it is recorded."""
        if not self.possible:
            launch()
            return
        if name not in self.recorded:
            if name not in self.warm:
                self.warm.add(name)
                launch()
                return
            self.recorded[name] = self._record(launch)
        self.recorded[name].replay()

    def _record(self, launch: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Without `torch.cuda.graph`, which empties torch's cache of memory each time: that takes
        longer than everything else."""
        graph, outside = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        inside = torch.cuda.Stream()
        inside.wait_stream(outside)
        with torch.cuda.stream(inside), _no_garbage_collection():
            graph.capture_begin(pool=self.pool)
            launch()
            graph.capture_end()
        outside.wait_stream(inside)
        return graph


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A graph of an earlier solve that is collected meanwhile spoils the recording."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
