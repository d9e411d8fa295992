"""Launches recorded once and replayed: a launch from Python costs more than a small kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable

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
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                launch()
            self.recorded[name] = graph
        self.recorded[name].replay()
