"""Constraints as kernels meet them: what stays, what moves as one, and what is known of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from daba.backends.gpu.arrays import Arrays
from daba.backends.gpu.kernels.exact import bits
from daba.backends.gpu.tensors import Tensor
from daba.core.types import Bools, Int32, Mask, distinct
from daba.problem.priors import Targets


class KernelConstraints:
    """Tensors, in the GPU's order of points."""

    def __init__(
        self,
        arrays: Arrays,
        free: Mask,
        fixed: Mask,
        alone: Mask,
        representative: Int32,
        free_points: Bools,
        targets: tuple[Targets, Targets, Targets],
    ) -> None:
        """
        free            parameters of cameras that may change, (C, 9)
        fixed           those that take no part in a device's step
        alone           those that a camera may change by itself
        representative  first of the cameras of a device that share their d, of each camera
        targets         priors of positions, intrinsics and points
        """
        C, ptr = arrays.C, arrays.shard.devices
        self.device = arrays.device
        follows = representative != np.arange(C)
        shares = follows.copy()
        shares[representative[follows]] = True
        still = fixed.copy()
        still[follows, 6:] = True
        self.still, self.alone = self._flags(_wide(still)), self._flags(_wide(alone))
        self.shares = self._flags(shares)
        self.representative = self._put(representative.astype(np.int32))
        held = np.zeros(arrays.all_P, bool)
        held[: arrays.P] = ~free_points
        self.held = self._flags(held)[arrays.order]
        inside = _wide(free)
        inside[:, 9] = True  # the gradient's column
        masks = inside[:, :, None] & inside[:, None, :]
        self.inside = self._put(masks.reshape(C, 256).astype(np.float64))
        """What is left of cameras' tiles."""
        self.begins, self.members = self._groups(representative, follows)
        self.blocks = torch.zeros((C, 256), dtype=torch.float64, device=self.device)
        """Diagonal blocks of S, with their right-hand sides."""
        self.raw = torch.zeros((C, 16), dtype=torch.float64, device=self.device)
        """Right-hand sides, as if nothing were fixed or shared on a device."""
        positions, intrinsics, points = targets
        self.positions = KnownTensors(positions, ptr.camera_ptr, C, None, self.device)
        self.intrinsics = KnownTensors(intrinsics, ptr.camera_ptr, C, None, self.device)
        index = arrays.index.cpu().numpy()
        self.points = KnownTensors(points, ptr.point_ptr, arrays.all_P, index, self.device)
        self.known = bool(len(positions) + len(intrinsics) + len(points))

    @property
    def groups(self) -> int:
        return len(self.begins) - 1

    def _groups(self, representative: Int32, follows: Bools) -> tuple[Tensor, Tensor]:
        """Cameras of each group on one device, the first of them first."""
        representatives = distinct(representative[follows])
        members = np.flatnonzero(np.isin(representative, representatives))
        members = members[np.argsort(representative[members], kind="stable")]
        begins = np.searchsorted(representative[members], representatives)
        begins = np.append(begins, len(members))
        return self._put(begins.astype(np.int32)), self._put(members.astype(np.int32))

    def _put(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def _flags(self, mask: np.ndarray) -> Tensor:
        return self._put(mask.astype(np.int32))


class KnownTensors:
    """Priors of one kind: (n, 12) of target and information, and which variable each is of."""

    def __init__(
        self,
        targets: Targets,
        device_ptr: np.ndarray,
        variables: int,
        index: np.ndarray | None,
        device: torch.device,
    ) -> None:
        """`index` is the GPU's of each variable, if that is another."""
        n, at = len(targets), targets.index if index is None else index[targets.index]
        table = np.zeros((max(n, 1), 12))
        table[:n, :3], table[:n, 3:] = targets.target, targets.information.reshape(n, 9)
        rows = np.full(variables, -1, np.int32)
        rows[at] = np.arange(n)
        begins = np.searchsorted(targets.index, device_ptr)

        def put(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array.astype(np.int32)).to(device)

        self.count = n
        self.rows, self.index, self.begins = put(rows), put(np.asarray(at)), put(begins)
        self.table = torch.from_numpy(table).to(device)
        loss = targets.loss
        self.kind, self.radius = loss.kind, bits(float(loss.radius))
        self.loss: dict[str, Any] = {"KIND": self.kind, "RADIUS": self.radius}


def _wide(mask: np.ndarray) -> np.ndarray:
    """Rows of sixteen instead of nine."""
    out = np.zeros((len(mask), 16), bool)
    out[:, :9] = mask
    return out
