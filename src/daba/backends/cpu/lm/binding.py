"""The templates of this folder, bound to a kind of problem."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from daba.backends.cpu.kernels import rows, schur, vectors
from daba.backends.cpu.kernels.binding import (
    NAMES,
    concurrent,
    factory,
    inlined,
    run_file,
)
from daba.backends.cpu.lm import blocks, factors, tiles
from daba.core import camera_models, decisions, formulas, lenses, lm, pixel, ray
from daba.core.lm import Kind

HERE = Path(__file__).parent
TEMPLATES = ("lanes.py", "schur.py", "passes.py", "settle.py", "cholesky.py", "coarse.py")
AHEAD = 12
"""How many observations ahead of its use a record is asked for."""


@factory
def kernels(kind: Kind) -> Any:
    """The kernels for a kind of problem, by name; compiled when first called, or loaded."""
    B, small = kind.block, _named_after(kind)
    names: dict[str, Any] = {
        **NAMES, "__name__": __name__, "np": np, "math": math, "jit": small, "inline": small,
        "kernel": concurrent, "where": vectors.where,
        "invert_point": schur.invert_point, "multiply_point": schur.multiply_point,
        "STEP_BOUND": decisions.STEP_BOUND, "LEAST_DIAGONAL": decisions.LEAST_DIAGONAL,
        "B": B, "OWN": kind.own, "N": kind.shared, "G": kind.columns,
        "RIG": kind.sensors != "none", "SENSORS": kind.sensors == "refined",
        "PACKED": factors.packed_width(B), "ADDED": factors.added_width(B), "AHEAD": AHEAD,
        "add_block": blocks.add_block(B),
        "unpack": blocks.unpack(B), "prefetch": blocks.prefetch, "solve_tiles": tiles.solve_tiles,
        "LANES": vectors.LANES, "spread": vectors.spread, "any_lane": vectors.any_lane,
        "read": rows.read, "write_rows": rows.write_rows,
        "scaled": rows.scaled, "write_numbered": rows.write_numbered,
        "get": rows.get, "put": rows.put, "total": rows.total,
        "read_points": rows.read_rows(3), "read_frames": rows.read_rows(12),
        "read_cameras": rows.read_rows(lm.ROW), "NamedTuple": NamedTuple,
        **{name: getattr(lm, name) for name in lm.__all__},
    }  # fmt: skip
    run_file(formulas.__file__, names)
    if kind.error == "pixel":
        run_file(lenses.__file__, names)
        exec(
            camera_models.project_source(
                kind.models, kind.refined, kind.own or kind.shared, branches=False
            ),
            names,
        )
        run_file(pixel.__file__, names)
    else:
        run_file(ray.__file__, names)
    before = set(names)
    for template in TEMPLATES:
        run_file(HERE / template, names)
    return SimpleNamespace(
        **{n: names[n] for n in set(names) - before if hasattr(names[n], "name")}
    )


def _named_after(kind: Kind) -> Any:
    """The decorator of small functions, which makes their names those of this kind alone: loaded
    kernels of several kinds would call each other's, had they the same."""
    tag = hashlib.sha256(repr(kind).encode()).hexdigest()[:12]

    def decorate(function: Any) -> Any:
        function.__qualname__ += f"_{tag}"
        return inlined(function)

    return decorate
