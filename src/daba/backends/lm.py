"""What of Levenberg–Marquardt's operations is the same wherever arrays are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.lm import Estimate
from daba.core.types import Floats
from daba.distributed.lm_shard import LmShard


def nothing() -> None:
    """What waits for ghosts where they are here."""


class HostArrays:
    """Estimates stay where they are. Elsewhere, points and what belongs to them are kept in another
    memory: the solver only adds them up and hands them on."""

    on_gpu = False
    shard: LmShard
    U: Floats
    g: Floats
    X: Floats
    T: Floats
    g_s: Floats
    g_l: Floats

    def upload(self, x: Estimate) -> Estimate:
        """x as operations take it."""
        return x

    def download(self, points: Floats) -> Floats:
        """Points of an estimate that was uploaded, (·, 3)."""
        return points

    def take_weights(self) -> None:
        """The shard's weights have changed: kernels read them where they are."""

    def no_steps(self) -> Floats:
        """Zeros for all points, ghosts included."""
        return np.zeros((len(self.shard.x.points), 3))

    def put(self, array: Any) -> Any:
        """An array of frames, or of the coarse space, as operations take it."""
        return array

    def host(self, array: Any) -> Any:
        """The reverse."""
        return array

    def zeros(self, shape: int | tuple[int, ...]) -> Floats:
        return np.zeros(shape)

    where = staticmethod(np.where)

    def dots(self, a: Floats, b: Floats) -> Floats:
        """Σ a b over the frames of each device here, (S,)."""
        out, ptr = np.zeros(self.shard.devices), self.shard.frame_ptr
        np.add.at(out, np.repeat(np.arange(len(out)), np.diff(ptr)), np.einsum("ia,ia->i", a, b))
        return out

    def beside(self, *columns: Floats) -> Floats:
        """Columns, (S,) or (S, ·), side by side."""
        return np.column_stack(columns)

    def model_of_frames(self, step: Floats, of_images: Floats) -> Floats:
        """gᵀv + ½ vᵀHv of each device, (S,), for steps v of its frames, and of what its images
        share."""
        out, images = np.zeros(self.shard.devices), self.shard.images
        device = np.repeat(np.arange(len(out)), np.diff(self.shard.frame_ptr))
        each = np.einsum("ia,ia->i", step, self.g)
        each += 0.5 * np.einsum("ia,iab,ib->i", step, self.U, step)
        np.add.at(out, device, each)
        if self.shard.kind.columns:
            of = np.repeat(np.arange(len(step)), np.diff(images.frame_ptr))
            v = of_images[: len(of)]
            each = np.einsum("ma,ma->m", v, self.g_s)
            each += 0.5 * np.einsum("ma,mab,mb->m", v, self.T, v)
            each += np.einsum("ma,mab,mb->m", step[of], self.X, v)
            np.add.at(out, device[of], each)
        return out

    def largest_gradient(self) -> float:
        """Of own frames and points."""
        own = self.g_l[: self.shard.num_points]
        return float(max(np.abs(a).max(initial=0.0) for a in (self.g, own)))
