"""The error of a kind of problem and its derivatives, and the passes made of them, for Triton."""

from __future__ import annotations

import hashlib
import linecache
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import triton.language as tl

from daba.backends.gpu.kernels import decisions, formulas, rows, slices
from daba.backends.gpu.kernels.exact import double
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.lm import arctangent
from daba.core import camera_models, lenses, pixel, ray
from daba.core.lm import ROW, Kind

TEMPLATES = tuple(Path(__file__).parent / name for name in ("passes.py", "settle.py"))
PASSES = (
    "objective", "visible", "linearize_points", "linearize_images", "second_order_points",
    "second_order_images", "settle_points",
)  # fmt: skip
WIDEST = 16
"""Columns of the narrowest tile that products of matrices take."""


def tile_width(columns: int) -> int:
    """The power of two that holds so many columns."""
    return max(WIDEST, 1 << (columns - 1).bit_length())


@cache
def kernels(kind: Kind) -> Any:
    """The passes for a kind of problem, by name."""
    names: dict[str, Any] = {
        "__name__": f"{__name__}.{_tag(kind)}", "tl": tl, "jit": jit, "where": formulas.where,
        "sqrt": formulas.sqrt, "tan": arctangent.tan, "arctan2": arctangent.arctan2,
        "rho": formulas.rho, "inverse_symmetric3": formulas.inverse_symmetric3, "double": double,
        "decisions": decisions, "quad": rows.quad, "spots": rows.spots, "head": slices.head,
        "member": slices.member, "joined": slices.joined, "smallest": slices.smallest,
    }  # fmt: skip
    numbers = {
        "B": kind.block, "OWN": kind.own, "N": kind.shared, "G": kind.columns, "ROW": ROW,
        "W": tile_width(kind.block + kind.columns + 1), "RIG": kind.sensors != "none",
        "SENSORS": kind.sensors == "refined",
    }  # fmt: skip
    names |= {name: tl.constexpr(value) for name, value in numbers.items()}
    if kind.error == "pixel":
        _run_file(Path(lenses.__file__), names)
        names |= {n: tl.constexpr(v) for n, v in vars(lenses).items() if n.isupper()}
        width = kind.own or kind.shared
        text = camera_models.project_source(kind.models, kind.refined, width, branches=False)
        _run_text(text, f"project {_tag(kind)}", names)
        _run_file(Path(pixel.__file__), names)
    else:
        names |= {n: getattr(formulas, n) for n in ("error", "normal_basis", "derivative_row")}
        _run_file(Path(ray.__file__), names)
    _run_text(_row_source(kind), f"row {_tag(kind)}", names)
    for template in TEMPLATES:
        _run_file(template, names)
    return SimpleNamespace(**{name: names[name] for name in PASSES})


def _row_source(kind: Kind) -> str:
    """Source of `row_tile`: one row of derivatives and its residual, by lane, as a tile (lanes, W)
    in the order J_c, J_g, r, zeros."""
    columns = ["t[0]", "t[1]", "t[2]", "-l[0]", "-l[1]", "-l[2]"]
    columns += [f"k[{n}]" for n in range(kind.own)] + [f"k[{n}]" for n in range(kind.shared)]
    columns += [f"s[{n}]" for n in range(6)] if kind.sensors == "refined" else []
    values = [f"tl.where(root > 0.0, root * ({c}), 0.0)" for c in (*columns, "r")]
    names = [f"v{n}" for n in range(len(values))]
    width = tile_width(len(values))
    lines = [
        "@jit",
        "def row_tile(root, t, l, k, s, r):",
        "    o = tl.zeros_like(r)",
        *(f"    {name} = {value}" for name, value in zip(names, values, strict=True)),
        f"    tile = {_joined([*names, *['o'] * (width - len(names))])}",
        f"    return tl.reshape(tile, [r.shape[0], {width}])",
    ]
    return "\n".join(lines) + "\n"


def _joined(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"tl.join({_joined(names[0::2])}, {_joined(names[1::2])})"


def _tag(kind: Kind) -> str:
    return hashlib.sha256(repr(kind).encode()).hexdigest()[:12]


def _run_file(path: Path, names: dict[str, Any]) -> None:
    exec(compile(path.read_text("utf-8"), str(path), "exec"), names)


def _run_text(text: str, name: str, names: dict[str, Any]) -> None:
    """Triton asks for the source of what it compiles."""
    name = f"<daba {name}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), names)
