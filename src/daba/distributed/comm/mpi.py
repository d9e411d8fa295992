"""MPI: the only module that knows it.

Neighbours communicate through a distributed-graph communicator, with persistent neighbourhood
collectives where the runtime has them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.types import Floats, distinct
from daba.distributed.comm.base import Blocks, Communicator, Exchange, usable_cores
from daba.distributed.comm.packing import Packing, chosen
from daba.distributed.shard import Shard, State

try:
    from mpi4py import MPI
except ImportError as error:
    raise DabaError(
        "this process was started under MPI, but mpi4py cannot be imported "
        f"({error}); install it with: pip install 'daba[mpi]'"
    ) from error

HEARD = 0.2
"""Seconds in which whatever started the job passes on an error's text before all are ended."""
CHANNELS = 12
"""Kept ready for rows of different lengths: lm has about eight, and those of eigenmodes change."""


class MpiCommunicator(Communicator):
    """All processes of the job."""

    def __init__(self) -> None:
        self.world = MPI.COMM_WORLD
        self.rank, self.size = self.world.rank, self.world.size
        node = self.world.Split_type(MPI.COMM_TYPE_SHARED)
        cores = usable_cores()
        every = set().union(*node.allgather(cores))  # fewer than there are, in a part of a node
        self.threads = max(1, min(len(cores), len(every) // node.size))
        node.Free()
        self.devices = np.ones(self.size, np.int64)  # of each rank

    def assigned(self, ranks: np.ndarray) -> None:
        self.devices = np.diff(ranks)

    def exchange(self, shard: Shard, neighbours: Sequence[int] = ()) -> Exchange:
        return NeighbourExchange(self.world, shard, neighbours)

    def gather(self, rows: Floats) -> Floats:
        out = np.empty((int(self.devices.sum()), rows.shape[1]))
        self.world.Allgatherv(np.ascontiguousarray(rows), [out, self.devices * rows.shape[1]])
        return out

    def sum(self, values: Floats) -> Floats:
        out = np.empty_like(values)
        self.world.Allreduce(np.ascontiguousarray(values), out)
        return out

    def any(self, flag: bool) -> bool:
        out = np.zeros(1, np.int8)
        self.world.Allreduce(np.array([flag], np.int8), out, op=MPI.MAX)
        return bool(out[0])

    def broadcast(self, value: Any) -> Any:
        return self.world.bcast(value)

    def scatter(self, values: Any) -> Any:
        if self.rank != 0:
            return _receive(self.world)
        values = iter(values)
        mine = next(values)
        for rank, value in enumerate(values, start=1):
            _send(self.world, value, rank)
        return mine

    def collect(self, value: Any) -> list[Any]:
        if self.rank == 0:
            return [value, *(_receive(self.world, rank) for rank in range(1, self.size))]
        _send(self.world, value, 0)
        return []

    def barrier(self) -> None:
        self.world.Barrier()

    def abort(self, code: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(HEARD)
        self.world.Abort(code)


class NeighbourExchange(Exchange):
    """Each neighbour is sent, in one message, the variables it sees; ghosts come back so."""

    def __init__(self, world: Any, shard: Shard, neighbours: Sequence[int] = ()) -> None:
        super().__init__()
        self.shard = shard
        first = np.array(world.allgather(shard.first))
        cameras = _owners(shard.ghost_cameras, shard.ranges.camera_ptr[first])
        points = _owners(shard.ghost_points, shard.ranges.point_ptr[first])
        # an observation across two processes makes a ghost on both: neighbourhood is symmetric
        found = distinct(np.concatenate([cameras, points, np.asarray(neighbours, np.int64)]))
        self.neighbours = found.astype(int).tolist()
        self.graph = world.Create_dist_graph_adjacent(self.neighbours, self.neighbours)
        ghosts = {
            "cameras": np.array([(cameras == n).sum() for n in self.neighbours], np.int64),
            "points": np.array([(points == n).sum() for n in self.neighbours], np.int64),
        }
        ranges, alpha = shard.ranges, shard.first
        self.sent = {
            "cameras": self._wanted(
                shard.ghost_cameras, ghosts["cameras"], ranges.camera_ptr[alpha]
            ),
            "points": self._wanted(shard.ghost_points, ghosts["points"], ranges.point_ptr[alpha]),
        }
        own = {"cameras": shard.num_cameras, "points": shard.num_points}
        counts = {block: count.tolist() for block, count in ghosts.items()}
        self.packing = Packing(self.sent, counts, own)
        self.channels: dict[str | tuple[int, int], _Channel] = {}
        self.active: _Channel | None = None

    def _wanted(self, ghosts: np.ndarray, here: np.ndarray, start: int) -> list[np.ndarray]:
        """What each neighbour sees of this process, in its own numbers."""
        there = np.empty_like(here)
        self.graph.Neighbor_alltoall(here, there)
        wanted = np.empty(int(there.sum()), np.int64)
        self.graph.Neighbor_alltoallv(
            [np.ascontiguousarray(ghosts, np.int64), here], [wanted, there]
        )
        return np.split(wanted - int(start), np.cumsum(there)[:-1]) if len(there) else []

    def start(self, x: State, blocks: Blocks) -> None:
        self._start(blocks, chosen(blocks, x.cameras, x.points))

    def finish(self, x: State) -> None:
        self._finish({"cameras": x.cameras, "points": x.points})

    def start_filling(self, cameras: Floats, points: Floats) -> None:
        arrays = {"cameras": cameras, "points": points}
        self._start((cameras.shape[1], points.shape[1]), arrays)

    def finish_filling(self, cameras: Floats, points: Floats) -> None:
        self._finish({"cameras": cameras, "points": points})

    def _start(self, channel: str | tuple[int, int], arrays: dict[str, Floats]) -> None:
        began = time.perf_counter()
        if channel not in self.channels:
            if len(self.channels) == CHANNELS:  # the same one on all processes
                self.channels.pop(next(iter(self.channels))).free()
            self.channels[channel] = _Channel(self, arrays)
        self.active = self.channels[channel]
        self.active.start(arrays)
        self.traffic.count(self.neighbours, self.active.bytes)
        self.traffic.exchanging += time.perf_counter() - began

    def _finish(self, arrays: dict[str, Floats]) -> None:
        assert self.active is not None
        began = time.perf_counter()
        self.active.wait()
        waited = time.perf_counter()
        self.active.unpack(arrays)
        self.active = None
        self.traffic.waiting += waited - began
        self.traffic.exchanging += time.perf_counter() - waited


def persistent_request(graph: Any, ends: tuple[Any, Any]) -> Any:
    """A neighbourhood collective that is set up once and started in every iteration."""
    return graph.Neighbor_alltoallv_init(*ends)


class _Channel:
    """Buffers and the (persistent) collective for some blocks of variables."""

    def __init__(self, exchange: NeighbourExchange, arrays: dict[str, Floats]) -> None:
        self.exchange, self.blocks, packing = exchange, tuple(arrays), exchange.packing
        sent = np.array(packing.sent_numbers(arrays), np.int64)
        received = np.array(packing.received_numbers(arrays), np.int64)
        self.bytes = 8 * sent
        self.outbox, self.inbox = np.empty(int(sent.sum())), np.empty(int(received.sum()))
        self.request: Any = None
        self.ends = ([self.outbox, sent], [self.inbox, received])
        self.persistent = True
        try:
            self.request = persistent_request(exchange.graph, self.ends)
        except NotImplementedError:  # what mpi4py raises where the runtime's MPI is older than 4
            self.persistent = False

    def start(self, arrays: dict[str, Floats]) -> None:
        self.exchange.packing.pack(arrays, self.exchange.sent, self.outbox)
        if self.persistent:
            self.request.Start()
        else:
            self.request = self.exchange.graph.Ineighbor_alltoallv(*self.ends)

    def wait(self) -> None:
        self.request.Wait()

    def unpack(self, arrays: dict[str, Floats]) -> None:
        self.exchange.packing.unpack(self.inbox, {block: arrays[block] for block in self.blocks})

    def free(self) -> None:
        if self.persistent:
            self.request.Free()


def _owners(indices: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The rank that owns each index of device order, given the first index of each rank."""
    return np.searchsorted(first, indices, side="right") - 1


def _send(world: Any, value: Any, rank: int) -> None:
    """A Python object of any size, its arrays apart."""
    import pickle

    buffers: list[Any] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    raw = [buffer.raw() for buffer in buffers]
    world.send((head, [b.nbytes for b in raw]), dest=rank)
    for buffer in raw:
        for at in range(0, buffer.nbytes, 1 << 30):
            world.Send([buffer[at : at + (1 << 30)], MPI.BYTE], dest=rank)


def _receive(world: Any, rank: int = 0) -> Any:
    import pickle

    head, sizes = world.recv(source=rank)
    buffers = [bytearray(size) for size in sizes]
    for buffer in buffers:
        view = memoryview(buffer)
        for at in range(0, len(buffer), 1 << 30):
            world.Recv([view[at : at + (1 << 30)], MPI.BYTE], source=rank)
    return pickle.loads(head, buffers=buffers)
