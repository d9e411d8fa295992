"""Boundary variables as messages: what each neighbour is sent, and where its ghosts go.

A message holds the rows of one block behind those of the other. Messages to all neighbours lie
behind each other in one buffer, and so do those that come from them; buffers and arrays are NumPy's
or torch's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from daba.core.types import frozen

Arrays = dict[str, Any]
"""Arrays with a row for each variable, by block: "cameras", "points", or both."""


@frozen
class Packing:
    """The messages of one process. Lists are in the order of its neighbours, and count rows."""

    sent: dict[str, Sequence[Any]]
    """Rows of its own variables that each neighbour sees, by block."""
    ghosts: dict[str, Sequence[int]]
    """How many ghosts come from each neighbour; ghosts are sorted by the neighbour they are of."""
    own: dict[str, int]
    """How many variables are its own: ghosts lie behind them."""

    def sent_numbers(self, arrays: Arrays) -> list[int]:
        """Numbers in the message to each neighbour."""
        return self._numbers(self._sent_counts(arrays), arrays)

    def received_numbers(self, arrays: Arrays) -> list[int]:
        """Numbers in the message from each neighbour."""
        return self._numbers({block: self.ghosts[block] for block in arrays}, arrays)

    def pack(self, arrays: Arrays, rows: dict[str, Sequence[Any]], outbox: Any) -> None:
        """Fill the buffer; `rows` are those of `sent`, perhaps as the arrays number them."""
        for n, block, where in self._parts(self._sent_counts(arrays), arrays):
            outbox[where] = arrays[block][rows[block][n]].reshape(-1)

    def unpack(self, inbox: Any, arrays: Arrays) -> None:
        """Put what has come behind the arrays' own rows."""
        row = {block: self.own[block] for block in arrays}
        counts = {block: self.ghosts[block] for block in arrays}
        for n, block, where in self._parts(counts, arrays):
            first, count, array = row[block], int(counts[block][n]), arrays[block]
            array[first : first + count] = inbox[where].reshape(count, array.shape[1])
            row[block] = first + count

    def _sent_counts(self, arrays: Arrays) -> dict[str, Sequence[int]]:
        return {block: [len(rows) for rows in self.sent[block]] for block in arrays}

    @staticmethod
    def _numbers(counts: dict[str, Sequence[int]], arrays: Arrays) -> list[int]:
        each = zip(*counts.values(), strict=True)
        widths = [arrays[block].shape[1] for block in counts]
        return [sum(int(c) * w for c, w in zip(row, widths, strict=True)) for row in each]

    @staticmethod
    def _parts(
        counts: dict[str, Sequence[int]], arrays: Arrays
    ) -> Iterator[tuple[int, str, slice]]:
        """Neighbour, block, and where its rows are in a buffer."""
        at = 0
        for n, row in enumerate(zip(*counts.values(), strict=True)):
            for block, count in zip(counts, row, strict=True):
                size = int(count) * arrays[block].shape[1]
                yield n, block, slice(at, at + size)
                at += size


def chosen(blocks: str, cameras: Any, points: Any) -> Arrays:
    """The arrays of "cameras", of "points", or of "both"."""
    arrays = {"cameras": cameras, "points": points}
    return arrays if blocks == "both" else {blocks: arrays[blocks]}
