"""Between the host and the GPU: what of Levenberg–Marquardt's operations puts arrays here or there,
as `backends/lm.py` has it for NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from daba.backends.gpu.lm.arrays import ObservationArrays
from daba.backends.gpu.lm.segments import Segments
from daba.backends.gpu.tensors import Tensor
from daba.core.lm import Estimate
from daba.core.types import Floats
from daba.distributed.lm_shard import LmShard


class GpuArrays:
    """Observations on the GPU, and what else is handed over."""

    on_gpu = True
    where = staticmethod(torch.where)

    def __init__(self, shard: LmShard, device: torch.device) -> None:
        self.shard, self.device = shard, device
        self.a = ObservationArrays(shard, device)
        self.here: dict[int, tuple[Any, Tensor]] = {}
        self.frames_of = Segments(self.a.put(shard.frame_ptr))
        tasks = shard.point_tasks
        self.points_of = Segments(self.a.put(tasks.ptr[tasks.device_ptr].astype(np.int64)))

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def upload(self, x: Estimate) -> Estimate:
        """x with its points on the GPU."""
        points = self._zeros(len(x.points), 4)
        points[:, :3] = self.a.put(x.points)
        return x._replace(points=points)

    def download(self, points: Tensor) -> Floats:
        """The points of an estimate, (P, 3)."""
        return np.asarray(points[:, :3].cpu().numpy())

    def no_steps(self) -> Tensor:
        """Zeros for points."""
        return self._zeros(self.a.all_P, 4)

    def put(self, array: Any) -> Tensor:
        """An array of frames, or of the coarse space."""
        return self.a.put(array)

    def host(self, array: Tensor) -> Floats:
        """The reverse."""
        return np.asarray(array.cpu().numpy())

    def zeros(self, shape: int | tuple[int, ...]) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def dots(self, a: Tensor, b: Tensor) -> Tensor:
        """Σ a b over the frames of each device here, (S,)."""
        return self.frames_of.sum((a * b).sum(dim=1, keepdim=True))[:, 0]

    def beside(self, *columns: Tensor) -> Tensor:
        """Columns, (S,) or (S, ·), side by side."""
        return torch.column_stack(columns)

    def _put(self, array: Any) -> Tensor:
        """On the GPU; what is handed over again and again is sent once."""
        key = id(array)
        if key not in self.here:
            if len(self.here) > 16:
                self.here.pop(next(iter(self.here)))
            self.here[key] = array, self.a.put(array)
        return self.here[key][1]
