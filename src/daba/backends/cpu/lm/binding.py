"""The templates of this folder: those that know the error, bound to a kind of problem, and those of
the algebra behind them, bound to sizes of blocks alone, so that kinds share them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from daba.backends.cpu.kernels import rows, schur, vectors
from daba.backends.cpu.kernels.binding import (
    NAMES,
    factory,
    inlined,
    run_file,
)
from daba.backends.cpu.lm import blocks, factors, tiles
from daba.backends.cpu.lm.concurrent import concurrent
from daba.core import camera_models, decisions, formulas, lenses, lm, pixel, ray
from daba.core.lm import Kind

HERE = Path(__file__).parent
OF_ERROR = ("lanes.py", "passes.py", "settle.py")
OF_ALGEBRA = ("schur.py", "cholesky.py", "coarse.py")
AHEAD = 12
"""How many observations ahead of its use a record is asked for."""


@factory
def kernels(kind: Kind) -> Any:
    """What a kind of problem has of its own: errors, derivatives, points' own steps. By name;
    compiled when first called, or loaded."""
    small = _named_after(kind)
    names: dict[str, Any] = {
        **_names(kind.block, kind.columns, small),
        "OWN": kind.own, "N": kind.shared, "RIG": kind.sensors != "none",
        "SENSORS": kind.sensors == "refined", "jit": small,
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
    shared = algebra(kind.block, kind.columns)
    names |= {"add_observation": shared.add_observation, "clear": shared.clear}
    return _run(OF_ERROR, names)


@factory
def algebra(B: int, G: int) -> Any:
    """The normal equations and what follows from them, for frames with blocks of B and images with
    G shared parameters, whatever the error."""
    return _run(OF_ALGEBRA, _names(B, G, _named_after((B, G))))


def _names(B: int, G: int, small: Any) -> dict[str, Any]:
    """What templates know, `small` functions decorated so."""
    return {
        **NAMES, "__name__": __name__, "np": np, "math": math, "inline": small,
        "kernel": concurrent(small), "where": vectors.where,
        "invert_point": schur.invert_point, "multiply_point": schur.multiply_point,
        "STEP_BOUND": decisions.STEP_BOUND, "LEAST_DIAGONAL": decisions.LEAST_DIAGONAL,
        "B": B, "G": G, "PACKED": factors.packed_width(B), "ADDED": factors.added_width(B),
        "AHEAD": AHEAD, "add_block": blocks.add_block(B),
        "unpack": blocks.unpack(B), "prefetch": blocks.prefetch, "solve_tiles": tiles.solve_tiles,
        "LANES": vectors.LANES, "spread": vectors.spread, "any_lane": vectors.any_lane,
        "read": rows.read, "write_rows": rows.write_rows,
        "scaled": rows.scaled, "write_numbered": rows.write_numbered,
        "get": rows.get, "put": rows.put, "total": rows.total,
        "read_points": rows.read_rows(3), "read_frames": rows.read_rows(12),
        "read_cameras": rows.read_rows(lm.ROW), "NamedTuple": NamedTuple,
        **{name: getattr(lm, name) for name in lm.__all__},
    }  # fmt: skip


def _run(templates: Sequence[str], names: dict[str, Any]) -> Any:
    """What they define."""
    before = set(names)
    for template in templates:
        run_file(HERE / template, names)
    return SimpleNamespace(**{name: names[name] for name in set(names) - before})


def _named_after(what: Any) -> Any:
    """The decorator of small functions, which makes their names those of a kind, or of sizes,
    alone: loaded kernels of several would call each other's, had they the same."""
    tag = hashlib.sha256(repr(what).encode()).hexdigest()[:12]

    def decorate(function: Any) -> Any:
        function.__qualname__ += f"_{tag}"
        return inlined(function)

    return decorate
