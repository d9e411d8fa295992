"""`problem.info`: on disk, arrays such as colours apart from what fits into JSON; what may stand in
it where it is read again; and what it says about pixel errors."""

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


def checked_info(
    info: dict[str, Any], cameras: int, points: int, observations: int
) -> dict[str, Any]:
    """The info of a file, or a `DabaError` if what readers of it rely on is not as they expect:
    anybody may have written it. What they do not know may be anything."""
    in_file = info.get("cameras_in_file", cameras)
    lenses = len(np.atleast_1d(info.get("lens_ids", ())))
    wrong = {
        "world_sign": lambda v: v in (1, -1),
        "images": lambda v: isinstance(v, list) and len(v) == in_file
        and all(isinstance(name, str) for name in v),
        "image_ids": lambda v: _indices(v, (cameras,)),
        "cameras_in_file": lambda v: isinstance(v, int) and v >= cameras,
        "registered": lambda v: _indices(v, (cameras,), in_file) and len(np.unique(v)) == cameras,
        "keys": lambda v: _indices(v, (observations,)),
        "dropped": lambda v: _indices(v, (-1, 2)),
        "point_ids": lambda v: _indices(v, (points,)),
        "colors": lambda v: _numbers(v, (points, 3)),
        "lens_ids": lambda v: _indices(v, (-1,)),
        "lens": lambda v: _numbers(v, (lenses, -1)),
        "lens_rays": lambda v: _numbers(v, (lenses, -1)),
        "intrinsics_fit": lambda v: isinstance(v, dict) and all(map(_number, v.values())),
        "colmap": lambda v: isinstance(v, dict) and {"path", "kind", "rigs"} <= set(v)
        and all(isinstance(word, str) for word in v.values()),
    }  # fmt: skip
    for name, fits in wrong.items():
        if name in info and not fits(info[name]):
            raise DabaError(f"the file is damaged: '{name}' in its info makes no sense")
    if "colmap" in info:
        needed = ("registered", "cameras_in_file", "keys", "lens_ids", "lens", "lens_rays")
        missing = [name for name in needed if name not in info]
        if missing:
            raise DabaError(f"the file is damaged: '{missing[0]}' is missing in its info")
    return info


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _numbers(value: Any, shape: tuple[int, ...], kinds: str = "iuf") -> bool:
    """An array of numbers, finite, with that shape; −1 is any."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in kinds
        and value.ndim == len(shape)
        and all(want in (-1, have) for want, have in zip(shape, value.shape, strict=True))
        and bool(np.isfinite(value).all())
    )


def _indices(value: Any, shape: tuple[int, ...], end: Any = 2**62) -> bool:
    if not _numbers(value, shape, "iu") or not _number(end):
        return False
    return value.size == 0 or bool(value.min() >= 0 and value.max() < end)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")
