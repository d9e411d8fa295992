"""What a GPU does while ghosts travel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from daba.backends.gpu.operations import GpuOperations


def test_the_next_system_is_begun_while_ghosts_travel() -> None:
    """Once x does not move any more; it is not begun a second time."""
    done: list[Any] = []

    def start(x: str, blocks: str) -> Any:
        done.append(f"send {blocks} of {x}")
        return lambda: done.append("ghosts are here")

    ops: Any = GpuOperations.__new__(GpuOperations)
    ops.arrays, ops.ghosts = SimpleNamespace(x="x", new="new"), SimpleNamespace(start=start)
    ops.launches = SimpleNamespace(linearize=lambda x: done.append(f"linearize at {x}"))
    ops.linearize()
    ops.exchange("cameras", final=False)
    ops.linearize()
    ops.exchange("points", final=True)
    ops.linearize()
    assert done == [
        "linearize at x", "send cameras of new", "ghosts are here", "linearize at x",
        "send points of new", "linearize at new", "ghosts are here",
    ]  # fmt: skip
