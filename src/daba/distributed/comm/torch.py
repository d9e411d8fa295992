"""torch.distributed: processes started by torchrun, each with a GPU of its own or sharing one.

Boundary variables go from GPU to GPU through NCCL where every process has its own, and through the
hosts' memory (gloo) where not; everything else, which is little, through gloo.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from daba.core.types import Floats
from daba.distributed.comm.base import Blocks, Communicator, Exchange, usable_cores
from daba.distributed.comm.packing import Packing, chosen
from daba.distributed.shard import Shard, State


class TorchCommunicator(Communicator):
    """All processes that torchrun has started."""

    def __init__(self) -> None:
        here = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))
        self.direct = torch.cuda.is_available() and torch.cuda.device_count() >= here
        if self.direct:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        if not dist.is_initialized():
            dist.init_process_group("cpu:gloo,cuda:nccl" if self.direct else "gloo")
            atexit.register(dist.destroy_process_group)  # or its threads end in an abort
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.threads = max(1, len(usable_cores()) // here)

    def exchange(self, shard: Shard, neighbours: Sequence[int] = ()) -> Exchange:
        return TorchExchange(shard, self.direct, neighbours)

    def gather(self, rows: Floats) -> Floats:
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, np.ascontiguousarray(rows))
        return np.concatenate(parts)

    def sum(self, values: Floats) -> Floats:
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, np.asarray(values))
        return np.asarray(sum(parts[1:], parts[0]))

    def any(self, flag: bool) -> bool:
        out = torch.tensor([flag], dtype=torch.int32)
        dist.all_reduce(out, op=dist.ReduceOp.MAX)
        return bool(out[0])

    def broadcast(self, value: Any) -> Any:
        box = [value]
        dist.broadcast_object_list(box)
        return box[0]

    def scatter(self, values: Any) -> Any:
        mine: list[Any] = [None]
        dist.scatter_object_list(mine, list(values) if self.rank == 0 else None)
        return mine[0]

    def collect(self, value: Any) -> list[Any]:
        parts: list[Any] | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object(value, parts)
        return parts or []

    def barrier(self) -> None:
        dist.barrier()

    def abort(self, code: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 1)  # torchrun ends the others


class TorchExchange(Exchange):
    """Each neighbour is sent, in one message, the variables it sees; ghosts come back so."""

    def __init__(self, shard: Shard, direct: bool, more: Sequence[int] = ()) -> None:
        super().__init__()
        self.shard, self.direct = shard, direct
        everyone: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, (shard.first, shard.ghost_cameras, shard.ghost_points))
        first = np.array([t[0] for t in everyone])
        e, rank = shard.ranges, dist.get_rank()
        begins = {"cameras": e.camera_ptr[first], "points": e.point_ptr[first]}
        sizes = {"cameras": e.cameras, "points": e.points}
        ghosts = {"cameras": 1, "points": 2}
        ranks = range(len(everyone))

        def owned(indices: np.ndarray, block: str, owner: int) -> np.ndarray:
            ends = np.append(begins[block], sizes[block])
            return indices[(indices >= ends[owner]) & (indices < ends[owner + 1])]

        seen = {b: [owned(everyone[rank][k], b, r) for r in ranks] for b, k in ghosts.items()}
        self.neighbours: Sequence[int] = [
            r for r in ranks if len(seen["cameras"][r]) or len(seen["points"][r]) or r in more
        ]
        self.sent = {
            b: [
                torch.from_numpy(owned(everyone[r][k], b, rank).astype(np.int64) - begins[b][rank])
                for r in self.neighbours
            ]
            for b, k in ghosts.items()
        }
        self.packing = Packing(
            self.sent,
            {b: [len(seen[b][r]) for r in self.neighbours] for b in ghosts},
            {"cameras": shard.num_cameras, "points": shard.num_points},
        )
        self.pending: tuple[Any, ...] = ()

    def start(self, x: State, blocks: Blocks) -> None:
        began = time.perf_counter()
        self._send(chosen(blocks, *map(torch.from_numpy, x)), self.sent)
        self.traffic.exchanging += time.perf_counter() - began

    def finish(self, x: State) -> None:
        self._arrive(chosen("both", *map(torch.from_numpy, x)))

    def start_filling(self, cameras: Floats, points: Floats) -> None:
        self.start(State(cameras, points), "both")

    def finish_filling(self, cameras: Floats, points: Floats) -> None:
        self.finish(State(cameras, points))

    def start_swap(
        self, arrays: dict[str, Any], rows: dict[str, Any], blocks: Blocks
    ) -> Callable[[], None]:
        began = time.perf_counter()
        self._send(chosen(blocks, **arrays), rows)
        self.traffic.exchanging += time.perf_counter() - began
        return lambda: self._arrive(arrays)

    def _arrive(self, arrays: dict[str, Any]) -> None:
        began = time.perf_counter()
        self._receive(arrays)
        self.traffic.waiting += time.perf_counter() - began

    def _send(self, arrays: dict[str, Any], rows: dict[str, Any]) -> None:
        """One message to each neighbour."""
        first = next(iter(arrays.values()))
        where = first.device if self.direct else torch.device("cpu")
        out, into = self.packing.sent_numbers(arrays), self.packing.received_numbers(arrays)
        packed = torch.empty(sum(out), dtype=first.dtype, device=first.device)
        self.packing.pack(arrays, rows, packed)
        outbox = packed.to(where)
        inbox = torch.empty(sum(into), dtype=first.dtype, device=where)
        self.traffic.count(self.neighbours, (8 * size for size in out))
        works = []
        for rank, there, here in zip(
            self.neighbours, outbox.split(out), inbox.split(into), strict=True
        ):
            works += [dist.P2POp(dist.isend, there, rank), dist.P2POp(dist.irecv, here, rank)]
        requests = dist.batch_isend_irecv(works) if works else []
        self.pending = (requests, inbox, outbox, tuple(arrays))

    def _receive(self, arrays: dict[str, Any]) -> None:
        requests, inbox, _, blocks = self.pending
        for request in requests:
            request.wait()
        received = {block: arrays[block] for block in blocks}
        self.packing.unpack(inbox.to(received[blocks[0]].device), received)
        self.pending = ()
