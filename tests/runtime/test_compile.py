"""Kernels are compiled before a solve, not in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import daba
from daba.backends.cpu.kernels.binding import stamp
from helpers import random_problem


def test_another_installation_is_another_stamp(tmp_path: Path) -> None:
    """Numba compiles anew for sources of another place or time, whatever is in them."""
    names = ("one.py", "two.py")
    for name in names:
        (tmp_path / name).write_text("x = 1\n")
    one, two = ([tmp_path / name] for name in names)
    first = stamp(one)
    assert stamp(one) == first
    assert stamp(two) != first
    os.utime(one[0], ns=(1, 1))
    assert stamp(one) != first


def compiled_here() -> dict[str, int]:
    """How often each kernel was not found in the cache."""
    return {
        f"{name}.{key}": sum(value.stats.cache_misses.values())
        for name, module in list(sys.modules.items())
        if name.startswith("daba.backends.cpu.kernels")
        for key, value in vars(module).items()
        if hasattr(value, "stats") and hasattr(value, "signatures")
    }


def test_nothing_is_left_to_compile(compiled: None) -> None:
    """Also under constraints."""
    random = random_problem(0, cameras=6, points=30)
    problem = daba.Problem.from_arrays(
        random.rotations, random.centers, random.points, random.camera_index,
        random.point_index, random.pixels, 500.0,
    )  # fmt: skip
    before = compiled_here()
    assert len(before) > 20
    methods: list[dict[str, Any]] = [
        {"method": "lm"}, {"devices": 2}, {"devices": 2, "refine": "none"},
    ]  # fmt: skip
    for asked in (problem, daba.constrain(problem, fix=("gauge",), share_intrinsics="all")):
        for options in methods:
            for linear in ("direct", "pcg"):
                daba.solve(asked, iterations=2, linear_solver=linear, **options)
    assert compiled_here() == before
