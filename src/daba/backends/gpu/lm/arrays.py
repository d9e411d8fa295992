"""What Levenberg–Marquardt keeps on a GPU of a shard: its observations in two orders, and indices.

By point they lie in the slots of slices; by image they follow each other, so that those of a frame
do, too. Built with torch, where they are going to live.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from daba.backends.gpu import lists
from daba.backends.gpu.lists import pointers
from daba.backends.gpu.lm.segments import Segments
from daba.backends.gpu.tensors import Tensor
from daba.distributed.lm_shard import LmShard


class ObservationArrays:
    """Observations by point and by image."""

    def __init__(self, shard: LmShard, device: torch.device) -> None:
        self.device = device
        obs, images = shard.obs, shard.images
        self.given = obs
        self.F, self.P, self.I = shard.num_frames, shard.num_points, int(images.frame_ptr[-1])
        self.all_P, self.S = len(shard.x.points), shard.devices
        self.lanes = lists.lanes_of(self.F, len(obs.frame))
        frame, image, point = (self.put(a) for a in (obs.frame, obs.image, obs.point))
        self.frame, self.point = frame, point
        of = image.long()
        ends = (frame, self.put(images.camera)[of], self.put(images.sensor)[of], image)
        self.ends = torch.stack(ends, dim=1)
        """Frame, camera, sensor and image."""
        self.records = torch.zeros((len(frame), 4), dtype=torch.float64, device=device)
        self.records[:, :2] = self.put(obs.xy)
        self.records[:, 2] = self.put(obs.weight)
        self._by_point(shard)
        self._by_image(shard, image)

    def put(self, array: Any) -> Tensor:
        """On the device."""
        if isinstance(array, torch.Tensor):
            return array.to(self.device)
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def weigh(self) -> None:
        """The shard's weights have changed."""
        self.records[:, 2] = self.put(self.given.weight)
        self.slot_records[self.slot, 2] = self.records[: self.own, 2]
        self.row_records[self.row[self.row >= 0], 2] = self.records[self.row >= 0, 2]

    def _by_point(self, shard: LmShard) -> None:
        ptr, tasks = self.put(shard.obs.point_ptr), shard.point_tasks
        self.own = int(shard.obs.point_ptr[self.P])
        """Observations of own points."""
        begins = self.put(tasks.ptr[tasks.device_ptr].astype(np.int64))
        owner = torch.repeat_interleave(torch.diff(begins))
        points = torch.arange(self.P, device=self.device)
        degree = torch.diff(ptr)[: self.P]
        item = self.point[: self.own].long()
        slots = lists.cut_slices(item, points, owner, degree, self.S, self.lanes)
        self.heads, self.members, self.size = slots.heads, slots.members, slots.size
        self.slot = slots.at
        """Of each observation of own points."""
        self.by_device = Segments(slots.ranges)
        self.owner = owner
        self.slot_records = torch.zeros((self.size, 4), dtype=torch.float64, device=self.device)
        self.slot_records[slots.at] = self.records[: self.own]
        self.slot_ends = torch.zeros((self.size, 4), dtype=torch.int32, device=self.device)
        self.slot_ends[slots.at] = self.ends[: self.own]

    def _by_image(self, shard: LmShard, image: Tensor) -> None:
        images = shard.images
        order = self.put(shard.obs.frame_obs).long()
        if self.I != self.F:
            order = order[torch.argsort(image[order], stable=True)]
        self.image_begins = pointers(torch.bincount(image[order], minlength=self.I))
        self.images_of = self.put(images.frame_ptr)
        """Images of frame i are images_of[i] : images_of[i+1]."""
        self.frame_begins = self.image_begins[self.images_of].contiguous()
        self.row_records = self.records[order].contiguous()
        self.row_point = self.point[order].contiguous()
        self.row_frame = self.frame[order].contiguous()
        self.row = torch.full((len(image),), -1, dtype=torch.int64, device=self.device)
        """Of each observation by an own frame."""
        self.row[order] = torch.arange(len(order), device=self.device)
        frame = torch.repeat_interleave(torch.diff(self.images_of))
        rest = self.put(images.camera[: self.I]), self.put(images.sensor[: self.I])
        self.image_frame = frame
        self.images = torch.zeros((self.I, 4), dtype=torch.int32, device=self.device)
        for n, column in enumerate((frame, *rest)):
            self.images[:, n] = column
        counts = torch.diff(self.frame_begins)
        self.seen = counts.double()


def expand(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Of rows with so many items each: the row of each item, and the item's number in it."""
    of = torch.repeat_interleave(counts)
    begins = torch.cumsum(counts, 0) - counts
    return of, torch.arange(len(of), device=counts.device) - begins[of]
