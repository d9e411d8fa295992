"""The paper's own numbers (paper.json), by problem."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def paper() -> dict[str, Any]:
    return dict(json.loads(files("daba.tools.bench").joinpath("paper.json").read_text("utf-8")))


def published(sizes: dict[str, Any]) -> dict[str, Any] | None:
    """What the paper says of the problem with these counts; None if it has no such problem."""
    wanted = [sizes.get(what) for what in ("cameras", "points", "observations")]
    for problem in paper()["problems"].values():
        if [problem[what] for what in ("cameras", "points", "observations")] == wanted:
            return dict(problem)
    return None


def published_errors(sizes: dict[str, Any], loss: str, devices: int) -> dict[str, float]:
    """F / K in the paper by our names of methods, with `start`; empty if it has none."""
    problem = published(sizes)
    if problem is None:
        return {}
    table = problem["accuracy"][loss]
    at = table["devices"].get(str(devices), {})
    found = {"start": table["init"], "ceres": table["ceres"]}
    return found | {name: at[name] for name in ("dr", "admm", "daba") if name in at}
