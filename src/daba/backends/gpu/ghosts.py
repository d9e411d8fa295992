"""Ghosts on the GPU: what neighbours send is put behind a process's own variables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch

from daba.backends.gpu.arrays import Arrays, GpuState
from daba.core.types import State
from daba.distributed.comm.base import Blocks, Exchange


class Ghosts:
    """Exchanges the boundary of an estimate, by whatever the communicator offers: from GPU to GPU,
    or by way of the host's memory."""

    def __init__(self, exchange: Exchange, arrays: Arrays) -> None:
        self.exchange, self.a = exchange, arrays
        self.needed = bool(exchange.neighbours)
        if not self.needed:
            return
        sent = exchange.sent
        device = arrays.device
        self.rows = {
            "cameras": [torch.as_tensor(rows).long().to(device) for rows in sent["cameras"]],
            "points": [arrays.index[torch.as_tensor(r).long().to(device)] for r in sent["points"]],
        }
        self.own = {block: np.concatenate([*map(np.asarray, sent[block])]) for block in sent}

    def update(self, x: GpuState, blocks: Blocks) -> None:
        """Send this process's boundary of x, and put the ghosts into x."""
        if self.needed:
            self.start(x, blocks)()

    def start(self, x: GpuState, blocks: Blocks) -> Callable[[], None]:
        """Begin to send it; what is returned waits for the ghosts and puts them into x."""
        arrays = {"cameras": x.cameras, "points": x.points}
        return self.exchange.start_swap(arrays, self.rows, blocks) or self._by_host(x, blocks)

    @cached_property
    def host(self) -> State:
        """Room for an estimate on its way."""
        return State(np.zeros((self.a.all_C, 15)), np.zeros((self.a.all_P, 3)))

    def _by_host(self, x: GpuState, blocks: Blocks) -> Callable[[], None]:
        if blocks != "points":
            rows = torch.cat(self.rows["cameras"])
            self.host.cameras[self.own["cameras"]] = x.cameras[rows, :15].cpu().numpy()
        if blocks != "cameras":
            rows = torch.cat(self.rows["points"])
            self.host.points[self.own["points"]] = x.points[rows, :3].cpu().numpy()
        self.exchange.start(self.host, blocks)
        return lambda: self._from_host(x, blocks)

    def _from_host(self, x: GpuState, blocks: Blocks) -> None:
        a = self.a
        self.exchange.finish(self.host)
        if blocks != "points":
            ghosts = torch.from_numpy(self.host.cameras[a.C :])
            x.cameras[a.C :, :15] = ghosts.to(a.device)
        if blocks != "cameras":
            x.points[a.P :, :3] = torch.from_numpy(self.host.points[a.P :]).to(a.device)
