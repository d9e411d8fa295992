"""What the benchmarks share: Markdown tables, results as JSON, and the machine in words."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def seconds(value: float | None) -> str:
    """A time to three digits; – where there is none."""
    if value is None:
        return "–"
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def machine(threads: int) -> dict[str, Any]:
    """What is needed to judge a number, and nothing that names the machine."""
    return {
        "date": date.today().isoformat(),
        "cores": os.cpu_count(),
        "threads": threads,
        "load": _load(),
        "python": platform.python_version(),
        "numba": version("numba"),
        "numpy": version("numpy"),
    }


def machine_words(threads: int) -> str:
    known = machine(threads)
    words = (
        f"{known['date']}, {known['cores']} cores, {threads} threads, Python {known['python']}, "
        f"Numba {known['numba']}"
    )
    if known["load"] is not None:
        words += f", load {known['load']:.1f} at the start"
    return words


def _load() -> float | None:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def warn_if_busy() -> None:
    """Threads that wait for each other suffer most from other processes: ten times and more."""
    load = _load()
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
