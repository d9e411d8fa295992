"""Sums of consecutive rows, always in the same order."""

from __future__ import annotations

import torch

from daba.backends.gpu.kernels.lm import products
from daba.backends.gpu.lists import pointers
from daba.backends.gpu.tensors import Tensor

LONGEST = 512
"""Rows that one program adds up; of more, sums of so many are added up in turn."""


def cut(begins: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Pieces of segments, none of more than `longest` rows: where each begins, and the pieces of
    each segment."""
    counts = torch.diff(begins)
    pieces = pointers((counts + longest - 1) // longest)
    total = int(pieces[-1])
    of = torch.repeat_interleave(torch.diff(pieces))
    within = torch.arange(total, device=begins.device) - pieces[of]
    starts = begins[of] + longest * within
    return torch.cat([starts, begins[-1:]]), pieces


class Segments:
    """Rows begins[s] : begins[s+1] of each segment s."""

    def __init__(self, begins: Tensor) -> None:
        self.levels = []
        while len(begins) > 1 and int(torch.diff(begins).max()) > LONGEST:
            piece, begins = cut(begins, LONGEST)
            self.levels.append(piece)
        self.levels.append(begins)

    def sum(self, rows: Tensor) -> Tensor:
        """One row for each segment."""
        for begins in self.levels:
            rows = add_rows(rows, begins)
        return rows


def add_rows(rows: Tensor, begins: Tensor, index: Tensor | None = None) -> Tensor:
    """Sums of rows begins[s] : begins[s+1], or of those that `index` names."""
    columns, count = rows.shape[1], len(begins) - 1
    out = torch.empty((count, columns), dtype=rows.dtype, device=rows.device)
    if count and columns:
        width = min(64, max(4, 1 << (columns - 1).bit_length()))
        products.add_rows[(count, -(-columns // width))](
            rows, begins, begins if index is None else index, out, rows.stride(0), columns,
            CHOSEN=index is not None, WIDE=width, L=256 // width,
        )  # fmt: skip
    return out


class Scatter:
    """Sums of numbers by where they go: always in the same order, unlike atomic additions."""

    def __init__(self, target: Tensor, size: int) -> None:
        """`target` of each number, −1 for none, among `size`."""
        known = (target >= 0).nonzero()[:, 0]
        sorted_, order = torch.sort(target[known], stable=True)
        self.index = known[order]
        self.where, counts = torch.unique_consecutive(sorted_, return_counts=True)
        self.begins, self.size = pointers(counts), size

    def sum(self, rows: Tensor) -> Tensor:
        """Of rows, (·, columns), or of numbers."""
        out = torch.zeros((self.size, *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
        if len(self.where) and rows.numel():  # rows may have no columns, and none may be known
            flat = rows.reshape(len(rows), -1)
            out.view(self.size, -1)[self.where] = add_rows(flat, self.begins, self.index)
        return out
