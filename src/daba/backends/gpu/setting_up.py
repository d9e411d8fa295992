"""Laying out the observations of a problem on the GPU on which they are going to live: what
`partition/ordering.NumpyArrays` does, with the same result."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from daba.backends.gpu.lm.arrays import expand
from daba.backends.gpu.lm.segments import add_rows
from daba.backends.gpu.tensors import Tensor
from daba.backends.gpu.uploads import Coming, Uploads
from daba.core.types import Floats, starts
from daba.partition.ordering import NumpyArrays
from daba.partition.partition import edge_weights
from daba.problem.checks import LARGEST, closest
from daba.problem.problem import Problem

NEEDED = 220
"""Bytes of an observation while it is sorted, at most: 32 as it comes, in device order, and joined,
keys and orders of 8 and what sorting them takes, and the solver's own lists beside that."""

PAIRS = 1 << 25
"""Pairs of cameras that see a point, listed at a time."""


def fits(observations: int, device: torch.device) -> bool:
    """Whether there is room on the GPU."""
    return NEEDED * observations < torch.cuda.mem_get_info(device)[0]


class TorchArrays(NumpyArrays):
    """Tensors on one device; in tests also on the CPU."""

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.uploads: Uploads | None = None

    def start(self, array: Any) -> Coming:
        if self.uploads is None:
            self.uploads = Uploads(self.device)
        return self.uploads.start(array)

    def put(self, array: Any) -> Tensor:
        if isinstance(array, torch.Tensor):
            return array
        if isinstance(array, Coming):
            return array.arrived()
        return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(self.device)

    def host(self, array: Any) -> Any:
        return array.cpu().numpy() if isinstance(array, torch.Tensor) else array

    def take(self, array: Tensor, index: Tensor) -> Tensor:
        return torch.index_select(array, 0, index)

    def concatenate(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts))

    def keep(self, array: Tensor) -> Tensor:
        return array

    def int32(self, array: Tensor) -> Tensor:
        return array.int()

    def int64(self, array: Tensor) -> Tensor:
        return array.long()

    def copy(self, array: Tensor) -> Tensor:
        return array.clone()

    def repeat(self, array: Tensor, counts: Tensor) -> Tensor:
        return torch.repeat_interleave(array, counts)

    def where(self, condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
        return torch.where(condition, yes, no)

    def nonzero(self, mask: Tensor) -> Tensor:
        return mask.nonzero()[:, 0]

    def unique(self, keys: Tensor) -> Tensor:
        return torch.unique(keys)

    def unique_inverse(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        found, at = torch.unique(keys, return_inverse=True)
        return found, at

    def changes(self, ascending: Tensor) -> Tensor:
        new = torch.ones(len(ascending), dtype=torch.bool, device=self.device)
        torch.ne(ascending[1:], ascending[:-1], out=new[1:])
        return new.nonzero()[:, 0]

    def search(self, ascending: Tensor, values: Tensor) -> Tensor:
        return torch.searchsorted(ascending, values.to(ascending.dtype))

    def camera_graph(self, camera: Tensor, point: Tensor, cameras: int, points: int) -> Any:
        from scipy.sparse import csr_array

        sees = torch.unique(point.long() * cameras + camera)  # each once
        camera, point = sees % cameras, sees // cameras
        track = torch.bincount(point, minlength=points)
        begins = torch.cumsum(track, 0) - track
        weights = self.put(edge_weights(np.arange(int(track.max()) + 1)))
        pairs = torch.cumsum(track[point], 0)
        ends = torch.arange(0, int(pairs[-1]), PAIRS, device=self.device)
        cuts = torch.searchsorted(pairs, ends).tolist()
        cells = total = sees[:0]
        for first, last in pairwise([*cuts, len(sees)]):
            of, other = expand(track[point[first:last]])
            of += first
            key = camera[of] * cameras + camera[begins[point[of]] + other]
            cells, at = torch.unique(torch.cat([cells, key]), return_inverse=True)
            more = torch.cat([total, weights[track[point[of]]]])
            total = torch.zeros_like(cells).index_add_(0, at, more)  # of integers: in any order
        apart = (cells // cameras != cells % cameras).nonzero()[:, 0]
        cells, total = cells[apart], total[apart]
        rows = starts(self.count(cells // cameras, cameras))
        return csr_array(
            (self.host(total), self.host(cells % cameras), rows), shape=(cameras, cameras)
        )

    def count(self, owner: Tensor, count: int) -> np.ndarray:
        return np.asarray(torch.bincount(owner, minlength=count).cpu().numpy())

    def smallest(self, values: Tensor, owner: Tensor, count: int) -> Tensor:
        most = torch.iinfo(torch.int32).max
        out = torch.full((count,), most, dtype=torch.int32, device=self.device)
        return out.scatter_reduce_(0, owner.long(), values, "amin")

    def order(self, keys: Tensor, bound: int) -> Tensor:
        return torch.argsort(keys, stable=True)

    def order_pairs(self, first: Tensor, second: Tensor, count: int) -> Tensor:
        return torch.argsort(first.long() * count + second, stable=True)

    def sums(self, rows: Tensor, begins: np.ndarray) -> Floats:
        """In an order that depends on how many rows there are, and on nothing else."""
        return np.asarray(add_rows(rows.contiguous(), self.put(begins)).cpu().numpy())

    def valid(
        self, problem: Problem, camera: Tensor, point: Tensor, u: Tensor, weights: Tensor
    ) -> bool:
        """The rules are those of `problem/checks.py`, which says what is wrong where."""
        K = len(camera)
        kinds = (torch.int32, torch.int32, torch.float64, torch.float64)
        shapes = ((K,), (K,), (K, 2), (K,))
        for array, kind, shape in zip((camera, point, u, weights), kinds, shapes, strict=True):
            if K == 0 or array.dtype != kind or tuple(array.shape) != shape:
                return False
        ends = ((camera, problem.num_cameras), (point, problem.num_points))
        if any(bool((index < 0).any() | (index >= count).any()) for index, count in ends):
            return False
        good = (u.abs() <= LARGEST).all() & (weights > 0.0).all() & (weights <= LARGEST).all()
        centers, points = problem.cameras[:, 9:12], self.put(problem.points)
        if points.dtype != torch.float64 or not bool(good):
            return False
        apart = torch.zeros(K, dtype=torch.bool, device=self.device)
        near = self.take(self.put(closest(centers)), camera)
        for x in range(3):
            center = self.take(self.put(centers[:, x].copy()), camera)
            apart |= (self.take(points[:, x].contiguous(), point) - center).abs() > near
        return bool(apart.all())
