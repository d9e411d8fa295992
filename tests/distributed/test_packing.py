"""Messages between three processes, packed and unpacked by each, bring every ghost its row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daba.distributed.comm.packing import Packing, chosen

COUNTS = {"cameras": [4, 3, 5], "points": [6, 8, 2]}
GHOSTS = {  # of each process: of which neighbour, and which of its rows
    "cameras": [[(1, [0, 2]), (2, [4])], [(0, [1, 3])], [(0, [0]), (1, [1])]],
    "points": [[(1, [7]), (2, [])], [(0, [0, 5])], [(0, [2]), (1, [3, 4])]],
}
NEIGHBOURS = [[1, 2], [0, 2], [0, 1]]


def rows_of(block: str, process: int, owner: int) -> list[int]:
    return next((rows for who, rows in GHOSTS[block][process] if who == owner), [])


def packing(process: int) -> Packing:
    others = NEIGHBOURS[process]
    return Packing(
        {b: [np.array(rows_of(b, n, process), np.int64) for n in others] for b in COUNTS},
        {b: [len(rows_of(b, process, n)) for n in others] for b in COUNTS},
        {b: COUNTS[b][process] for b in COUNTS},
    )


def arrays(process: int, widths: dict[str, int]) -> dict[str, np.ndarray]:
    """Own rows say whose they are and which; ghosts are not known yet."""
    out = {}
    for number, (block, width) in enumerate(widths.items()):
        own = COUNTS[block][process]
        ghosts = sum(len(rows) for _, rows in GHOSTS[block][process])
        rows = 1000.0 * number + 100 * process + np.arange(own)
        out[block] = np.vstack([np.tile(rows[:, None], width), np.full((ghosts, width), np.nan)])
    return out


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("blocks", ["cameras", "points", "both"])
@pytest.mark.parametrize("widths", [{"cameras": 15, "points": 3}, {"cameras": 2, "points": 0}])
def test_every_ghost_gets_its_row(library: str, blocks: str, widths: dict[str, int]) -> None:
    """Blocks of no width are allowed: constants of cameras alone are told so."""
    own: Any = np.asarray if library == "numpy" else pytest.importorskip("torch").from_numpy
    wholes = [{b: own(a) for b, a in arrays(r, widths).items()} for r in range(3)]
    held = [chosen(blocks, **whole) for whole in wholes]
    packings = [packing(r) for r in range(3)]
    outboxes = []
    for each, mine in zip(packings, held, strict=True):
        outbox = own(np.empty(sum(each.sent_numbers(mine))))
        each.pack(mine, {b: [own(r) for r in each.sent[b]] for b in mine}, outbox)
        outboxes.append(np.split(np.asarray(outbox), np.cumsum(each.sent_numbers(mine))[:-1]))
    for r, (each, mine) in enumerate(zip(packings, held, strict=True)):
        messages = [outboxes[n][NEIGHBOURS[n].index(r)] for n in NEIGHBOURS[r]]
        assert [len(message) for message in messages] == each.received_numbers(mine)
        each.unpack(own(np.concatenate(messages)), mine)
        for block in COUNTS:
            found = np.asarray(wholes[r][block])[COUNTS[block][r] :]
            sources = [n for n, rows in GHOSTS[block][r] for _ in rows]
            which = [row for _, rows in GHOSTS[block][r] for row in rows]
            if block not in mine:
                assert np.isnan(found).all()
                continue
            for value, n, row in zip(found, sources, which, strict=True):
                assert (value == np.asarray(wholes[n][block])[row]).all()
