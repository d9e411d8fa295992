"""Sums over the programs of each device: each kernel leaves one number of each of its programs, and
`decide.add_up` adds them, in a fixed order, into the device table."""

from __future__ import annotations

from enum import Enum

import torch

from daba.backends.gpu.tensors import Tensor
from daba.backends.operations import Row


class Cut(Enum):
    """What programs are about, and so where those of a device begin and end."""

    CAMERAS = "cameras"
    POINTS = "slices of points"
    BOUNDARY = "slices of the boundary's points, with their inter observations"
    BOUNDARY_ALL = "the same with all observations"


COLUMNS: tuple[tuple[Cut, tuple[Row, ...]], ...] = (
    (Cut.CAMERAS, (Row.SUM_INTER_C, Row.SUM_INTER_SQUARE_C, Row.SUM_GAP_C)),
    (Cut.BOUNDARY, (Row.SUM_INTER_L, Row.SUM_GAP_L)),
    (Cut.BOUNDARY, (Row.SUM_SLACK_F_L, Row.SUM_SLACK_L)),
    (Cut.CAMERAS, (Row.SUM_VALUE_C, Row.SUM_VALUE_X_C, Row.SUM_MOVE_C)),
    (Cut.POINTS, (Row.SUM_VALUE_L, Row.SUM_VALUE_X_L, Row.SUM_MOVE_L)),
    (Cut.CAMERAS, (Row.SUM_DECREASE_C,)),
    (Cut.POINTS, (Row.SUM_DECREASE_L,)),
    (Cut.CAMERAS, (Row.SUM_INTRA_C, Row.SUM_INTRA_SQUARE_C)),
    (Cut.CAMERAS, (Row.SUM_REFINED_C,)),
    (Cut.BOUNDARY_ALL, (Row.SUM_REFINED_L,)),
)
"""What kernels leave: one of these groups each, column after column."""


class PartialSums:
    """The columns, one after the other in one buffer."""

    def __init__(self, programs: dict[Cut, int], ranges: dict[Cut, Tensor]) -> None:
        """`ranges` are the programs of each device, (S + 1,)."""
        self.at: dict[Row, int] = {}
        self.cut: dict[Row, int] = {}
        cuts, size = list(ranges), 0
        S = len(ranges[Cut.CAMERAS]) - 1
        for cut, rows in COLUMNS:
            size += size % 2  # 16 bytes: kernels are compiled for where their arguments begin
            for row in rows:
                self.at[row], self.cut[row] = size, cuts.index(cut) * (S + 1)
                size += programs[cut]
        self.ranges = torch.cat(list(ranges.values()))
        self.partial = torch.zeros(size, dtype=torch.float64, device=self.ranges.device)

    def column(self, row: Row) -> Tensor:
        """Where a kernel leaves the group of columns that begins with this one."""
        return self.partial[self.at[row] :]

    def jobs(self, *rows: Row) -> Tensor:
        """What `add_up` is to add: column, cut and row of each."""
        jobs = [[self.at[row], self.cut[row], int(row)] for row in rows]
        return torch.tensor(jobs, dtype=torch.int64, device=self.ranges.device)
