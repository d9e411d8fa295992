"""What the benchmarks share: Markdown tables, results as JSON, and the machine in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daba.runtime.environment import environment

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine_words(threads: int) -> str:
    known = environment()
    words = (
        f"{known['date']}, {known['cores']} cores, {threads} threads, Python {known['python']}, "
        f"Numba {known['numba']}"
    )
    if known["load"] is not None:
        words += f", load {known['load']:.1f} at the start"
    return words


def warn_if_busy() -> None:
    """Threads that wait for each other suffer most from other processes: ten times and more."""
    load = environment()["load"]
    if load is not None and load > 0.5:
        say(f"warning: the machine is busy (load {load:.1f}), so these times will mean little")


def save_json(name: str, data: dict[str, Any]) -> Path:
    """Write results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return path


def say(text: str) -> None:
    """Progress, apart from the result on stdout."""
    print(text, file=sys.stderr, flush=True)
