"""`problem.info`: on disk, arrays such as colours apart from what fits into JSON; and what may
stand in it where it is read again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.types import distinct


def check_colmap(info: dict[str, Any], optics: object | None) -> None:
    """Raise `DabaError` for a problem that came from a COLMAP model without its cameras."""
    if "colmap" in info and optics is None:
        raise DabaError(
            "an older daba has written it, from a COLMAP model whose cameras it did not keep; read "
            "the model itself again"
        )


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
    wrong = {
        "world_sign": lambda v: v in (1, -1),
        "images": lambda v: isinstance(v, list) and len(v) == in_file
        and all(isinstance(name, str) for name in v),
        "image_ids": lambda v: _indices(v, (cameras,)),
        "cameras_in_file": lambda v: isinstance(v, int) and v >= cameras,
        "registered": lambda v: _indices(v, (cameras,), in_file) and len(distinct(v)) == cameras,
        "keys": lambda v: _indices(v, (observations,)),
        "dropped": lambda v: _indices(v, (-1, 2)),
        "point_ids": lambda v: _indices(v, (points,)),
        "colors": lambda v: _numbers(v, (points, 3)),
        "point3D_ids": lambda v: _indices(v, (points,)),
        "camera_ids": lambda v: _indices(v, (-1,)),
        "intrinsics_fit": lambda v: isinstance(v, dict) and all(map(_number, v.values())),
        "colmap": lambda v: isinstance(v, dict) and {"kind", "rigs"} <= set(v)
        and ("path" in v or v["kind"] == "memory")
        and all(isinstance(word, str) for word in v.values()),
    }  # fmt: skip
    for name, fits in wrong.items():
        if name in info and not fits(info[name]):
            raise DabaError(f"the file is damaged: '{name}' in its info makes no sense")
    if "colmap" in info:
        needed = ("registered", "cameras_in_file", "keys", "camera_ids")
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
