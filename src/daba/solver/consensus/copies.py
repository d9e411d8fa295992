"""Copies of shared variables: every device gets its own of each camera (or point) that it sees.

With them all observations are intra, so that layout, shard, kernels and Levenberg–Marquardt serve
a consensus method unchanged. The owner of a variable, as in DABA, averages its copies: they come
to it over an exchange of their own, and the mean goes back to x's ghosts as everything else does.

Copies are drawn to their targets x̂ by ½κ (x − x̂)ᵀK(x − x̂). K is block-diagonal: the Gauss–Newton
matrix of what the devices see of a variable, in the mean over its copies. So the penalty κ is a
number without units; at κ = 1 a copy is held by its target about as hard as by its observations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from daba.backends.operations import Block
from daba.core.types import Bools, Floats, frozen, starts
from daba.distributed.comm.base import Communicator, Exchange
from daba.distributed.shard import Shard, State, join
from daba.partition.ordering import DeviceBlock, DeviceRanges, Records
from daba.problem.problem import Ints

KEPT: dict[Block, Block] = {"cameras": "points", "points": "cameras"}
"""What stays where it is when cameras, or points, are copied."""
UNIT = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 1.0])
"""The unit matrix, as its upper triangle."""
CAMERA_NUMBERS = (9, 3, 1, 1, 1)
"""Of a camera's 15 numbers, how many share one number of its metric: R, t, d1, d2, d3."""
ROUND = 0.03
"""How much of a point's mean eigenvalue goes into its metric."""


@frozen
class Copies:
    """Which variables the devices here have copies of, and where the copies of our own are."""

    block: Block
    shard: Shard
    """The devices with their copies. Its "problem" is x: `camera_order` and `point_order` are the
    rows of x, ghosts included, that its variables are copies of. Its ghosts are the copies that
    other processes have of what is owned here."""
    up: Exchange
    """Brings these ghosts."""
    row: np.ndarray
    """Copies of own variables, in the order of their places."""
    variable: np.ndarray
    """The own variable that each of these is a copy of."""
    siblings: np.ndarray
    """Copies of each own variable."""
    shared: Bools
    """Of each copy here, whether there are others."""

    @property
    def alone(self) -> Shard:
        """The devices with their copies, and no ghosts: all that local solves look at."""
        none = np.empty(0, self.shard.ghost_cameras.dtype)
        return replace(self.shard, ghost_cameras=none, ghost_points=none)

    @property
    def source(self) -> Ints:
        """The row of x that each copy here is a copy of."""
        return self.shard.camera_order if self.block == "cameras" else self.shard.point_order

    def state(self, x: State) -> State:
        """x as the devices here see it: all copies agree."""
        return State(x.cameras[self.shard.camera_order], x.points[self.shard.point_order])

    def by_device(self, values: Floats) -> list[Floats]:
        """Values of the copies of each device here."""
        ptr = _Side(self.shard, self.block).device_ptr
        return [values[lo:hi] for lo, hi in zip(ptr[:-1], ptr[1:], strict=True)]

    @property
    def count(self) -> int:
        """Own variables."""
        return len(self.siblings)

    def mean(self, values: Floats, once: bool = False) -> Floats:
        """Mean over the copies of each own variable, added in the order of places so that it has
        the same bits on any number of processes; 0 where there are none. `values` are of the
        copies here; `once` while setting up, when rows may have another length."""
        ghosts = np.empty((len(_Side(self.shard, self.block).ghosts), values.shape[1]))
        rows = State(*_pair(self.block, np.concatenate([values, ghosts]), np.empty((0, 1))))
        if once:
            self.up.fill(*rows)
        else:
            self.up.update(rows, self.block)
        found = of(rows, self.block)[self.row]
        total = [np.bincount(self.variable, column, self.count) for column in found.T]
        return np.stack(total, axis=1) / np.maximum(self.siblings, 1)[:, None]


def of(x: State, block: Block) -> Floats:
    """The cameras or the points of x."""
    return x.cameras if block == "cameras" else x.points


class _Side:
    """One block of a shard's variables: where they are, and the places of its own numbers."""

    def __init__(self, shard: Shard, block: Block) -> None:
        cameras = block == "cameras"
        self.ptr = shard.ranges.camera_ptr if cameras else shard.ranges.point_ptr
        self.device_ptr = shard.devices.camera_ptr if cameras else shard.devices.point_ptr
        self.ghosts = shard.ghost_cameras if cameras else shard.ghost_points
        self.start, self.stop = self.ptr[shard.first], self.ptr[shard.first + shard.num_devices]
        self.count = int(self.stop - self.start)

    @property
    def places(self) -> np.ndarray:
        return np.concatenate([np.arange(self.start, self.stop), self.ghosts])


def make_copies(
    shard: Shard, x: State, block: Block, comm: Communicator, exchange: Exchange
) -> Copies:
    """Device α gets a copy of each camera that sees one of its points, or of each point that one
    of its cameras sees; it keeps its own points, or cameras. The ghosts in x are known."""
    kept, side = _Side(shard, KEPT[block]), _Side(shard, block)
    seen = _observed(shard, block)
    mine, theirs = (seen.point, seen.camera) if block == "cameras" else (seen.camera, seen.point)
    # copies are numbered device after device, on each in the order of places
    device = np.searchsorted(kept.device_ptr, mine, side="right") - 1
    key, number = np.unique(device * side.ptr[-1] + side.places[theirs], return_inverse=True)
    source = np.empty(len(key), np.int32)
    source[number] = theirs
    ptr = _ranges(np.bincount(key // side.ptr[-1], minlength=shard.num_devices), comm)
    camera, point = _pair(block, number + ptr[shard.first], mine + kept.start)
    records = Records(camera.astype(np.int32), point.astype(np.int32), seen.u, seen.weight)
    ranges = DeviceRanges(*_pair(block, ptr, kept.ptr), shard.ranges.observations)
    rows = _pair(block, source, np.arange(kept.count, dtype=np.int32))
    copied = _join(x, *rows, records, ranges, shard)
    return _with_siblings(copied, block, side, side.places[source], x, comm, exchange)


def _with_siblings(
    shard: Shard,
    block: Block,
    side: _Side,
    places: np.ndarray,
    x: State,
    comm: Communicator,
    exchange: Exchange,
) -> Copies:
    """Find the copies of what is owned here. To set up, every process looks at a list of all
    copies; after that, only neighbours talk."""
    everywhere = comm.collect(places)
    copy_of = comm.broadcast(np.concatenate(everywhere) if comm.rank == 0 else None)
    at = np.flatnonzero((copy_of >= side.start) & (copy_of < side.stop))
    here = _Side(shard, block)
    away = (at < here.start) | (at >= here.stop)
    shard = replace(shard, **{f"ghost_{block}": at[away]})
    variable = copy_of[at] - side.start
    siblings = np.bincount(variable, minlength=side.count)
    told = State(np.zeros((len(x.cameras), 1)), np.zeros((len(x.points), 1)))
    of(told, block)[: side.count, 0] = siblings
    exchange.fill(*told)
    source = shard.camera_order if block == "cameras" else shard.point_order
    return Copies(
        block=block,
        shard=shard,
        up=comm.exchange(shard, exchange.neighbours),
        row=np.where(away, here.count + np.searchsorted(at[away], at), at - here.start),
        variable=variable,
        siblings=siblings,
        shared=of(told, block)[source, 0] > 1,
    )


def _observed(shard: Shard, block: Block) -> Records:
    """Observations whose kept end is owned here, in this process's numbers."""
    n = len(shard.inter.point)
    chosen = slice(shard.inter.point_ptr[-1]) if block == "cameras" else shard.inter.camera_obs
    inter = Records(*shard.inter[:4]).take(chosen if n else slice(0))
    return Records.concatenate([Records(*shard.intra[:4]), inter])


def _ranges(counts: np.ndarray, comm: Communicator) -> np.ndarray:
    """Where each device's copies begin, given how many the devices here have."""
    everywhere = comm.gather(counts[:, None].astype(np.float64))[:, 0]
    return starts(everywhere)


def _join(
    x: State,
    camera_rows: Ints,
    point_rows: Ints,
    records: Records,
    ranges: DeviceRanges,
    shard: Shard,
) -> Shard:
    """The devices with the given rows of x and only intra observations."""
    records = records.take(np.lexsort((records.camera, records.point)))
    last = shard.first + shard.num_devices
    cameras = ranges.camera_ptr[shard.first : last + 1] - ranges.camera_ptr[shard.first]
    points = ranges.point_ptr[shard.first : last + 1] - ranges.point_ptr[shard.first]
    cuts = np.searchsorted(records.point, ranges.point_ptr[shard.first : last + 1])
    blocks = []
    for a in range(shard.num_devices):
        camera_id = camera_rows[cameras[a] : cameras[a + 1]]
        point_id = point_rows[points[a] : points[a + 1]]
        intra, none = records.take(slice(cuts[a], cuts[a + 1])), records.take(slice(0))
        blocks.append(
            DeviceBlock(
                camera_id, point_id, x.cameras[camera_id], x.points[point_id], intra, none, none
            )
        )
    return join(blocks, shard.first, ranges)


def _pair(block: Block, copied: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cameras' before points'."""
    return (copied, kept) if block == "cameras" else (kept, copied)


class Prior(ABC):
    """½κ (x − x̂)ᵀK(x − x̂) of copies. It stands where DABA has a surrogate, and is written down once
    for NumPy's arrays and for a GPU's tensors: matrix and gradient are added to in place."""

    def __init__(self, K: Any, target: Any, penalty: float) -> None:
        self.K, self.target, self.penalty = K, target, penalty

    @staticmethod
    @abstractmethod
    def metric(blocks: Floats, kind: str) -> Floats:
        """The numbers that K is made of, from each device's own Gauss–Newton matrix."""

    @staticmethod
    @abstractmethod
    def spread(numbers: Floats) -> Floats:
        """K, made of these numbers."""

    @abstractmethod
    def squares(self, x: Any) -> Any:
        """(x − x̂)ᵀK(x − x̂) of each copy, (n,)."""

    @abstractmethod
    def add_to(self, matrix: Any, gradient: Any, x: Any) -> None:
        """Add gradient and curvature at x: to U's diagonals and g_c, (n, 9), or to V's upper
        triangles, (n, 6), and g_l, (n, 3)."""


class CameraPrior(Prior):
    """K_a (c − ĉ)_a² over the 15 numbers (R, t, d) of a camera: |R − R̂|² is the chordal distance,
    and R̂ need not be a rotation."""

    @staticmethod
    def metric(blocks: Floats, kind: str) -> Floats:
        """Of U's diagonals one number for R, one for t and one for each of d; a turn by ω makes
        |R − R̂|² = 2|ω|²."""
        turn, move = blocks[:, :3].mean(axis=1), blocks[:, 3:6].mean(axis=1)
        return np.column_stack([0.5 * turn, move, blocks[:, 6:]])

    @staticmethod
    def spread(numbers: Floats) -> Floats:
        return np.repeat(numbers, CAMERA_NUMBERS, axis=1)

    def squares(self, x: Any) -> Any:
        return (self.K * (x - self.target) ** 2).sum(1)

    def add_to(self, matrix: Any, gradient: Any, x: Any) -> None:
        """½|R − R̂|² has the gradient Σ R̂ₐ × Rₐ (over columns) along ω, and the curvature 2."""
        K, hat = self.penalty * self.K, self.target
        for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            up, down = slice(3 * b, 3 * b + 3), slice(3 * c, 3 * c + 3)
            turn = hat[:, up] * x[:, down] - hat[:, down] * x[:, up]
            gradient[:, a] += K[:, 0] * turn.sum(1)
            matrix[:, a] += 2.0 * K[:, 0]
        gradient[:, 3:] += K[:, 9:] * (x - hat)[:, 9:]
        matrix[:, 3:] += K[:, 9:]


class PointPrior(Prior):
    """K is a 3×3 matrix per point, as its upper triangle (P, 6)."""

    @staticmethod
    def metric(blocks: Floats, kind: str) -> Floats:
        """V, in which depth is uncertain, with some of its mean eigenvalue, because along a ray
        nothing else may hold a copy; or only this eigenvalue."""
        share = ROUND if kind == "matrix" else 1.0
        mean = blocks[:, [0, 3, 5]].mean(axis=1, keepdims=True)
        return (1.0 - share) * blocks + share * mean * UNIT

    @staticmethod
    def spread(numbers: Floats) -> Floats:
        return numbers

    def squares(self, x: Any) -> Any:
        off = x - self.target
        pulls = self._pulls(off)
        return off[:, 0] * pulls[0] + off[:, 1] * pulls[1] + off[:, 2] * pulls[2]

    def add_to(self, matrix: Any, gradient: Any, x: Any) -> None:
        matrix += self.penalty * self.K
        for a, pull in enumerate(self._pulls(x - self.target)):
            gradient[:, a] += self.penalty * pull

    def _pulls(self, v: Any) -> tuple[Any, Any, Any]:
        """K v."""
        K, x, y, z = self.K, v[:, 0], v[:, 1], v[:, 2]
        return (
            K[:, 0] * x + K[:, 1] * y + K[:, 2] * z,
            K[:, 1] * x + K[:, 3] * y + K[:, 4] * z,
            K[:, 2] * x + K[:, 4] * y + K[:, 5] * z,
        )


PRIORS: dict[Block, type[Prior]] = {"cameras": CameraPrior, "points": PointPrior}
