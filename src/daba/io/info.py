"""`problem.info`: on disk, arrays such as colours apart from what fits into JSON; and what it says
about pixel errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.problem.problem import Floats, Problem


def own_errors(info: dict[str, Any]) -> Callable[[Problem], Floats] | None:
    """`Problem.own_errors` of a problem with this info: COLMAP's camera models are its own."""
    return _colmap_errors if "colmap" in info else None


def _colmap_errors(problem: Problem) -> Floats:
    from daba.io.colmap.solution import Solution

    return Solution(problem).observation_errors()


def split_info(info: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What JSON can hold, as it will be read back, and the arrays."""
    plain: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for key, value in info.items():
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                raise DabaError(f"problem.info[{key!r}] holds Python objects and cannot be saved")
            arrays[str(key)] = value
        else:
            plain[str(key)] = value
    try:
        return json.loads(json.dumps(plain, default=_plain)), arrays
    except (TypeError, ValueError) as error:
        raise DabaError(f"problem.info cannot be saved: {error}") from error


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")
