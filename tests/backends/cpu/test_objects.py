"""Kernels are loaded without Numba, are the very same, and whatever is amiss is left to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from places import ROOT
from scene_text import scene

from daba.backends.cpu import cache, compiler, symbols
from daba.backends.cpu.cache import Job, Name, job
from daba.backends.cpu.compiled import DamageError, Kernel, LinkError, fit, parse, read
from daba.core.types import Tasks

pytestmark = pytest.mark.skipif(not symbols.usable(), reason="not on this system")

SCRIPT = (
    scene(cameras=16, points=300, noise=1.0)
    + """
import hashlib, json, sys

def bits(**options):
    result = daba.solve(problem, iterations=4, linear_solver="direct", **options)
    found = result.problem.cameras.tobytes() + result.problem.points.tobytes()
    return hashlib.sha256(found).hexdigest()

found = [bits(method="lm")]
loaded = [name for name in ("numba", "llvmlite", "scipy") if name in sys.modules]
found += [bits(method="daba", devices=2), bits(method="lm")]

import scipy.linalg

assert "numba" in sys.modules
assert scipy.linalg.cython_blas.__pyx_capi__["dgemm"]
assert float(scipy.linalg.solve([[2.0, 0.0], [0.0, 1.0]], [1.0, 1.0])[0]) == 0.5
print(json.dumps([found, loaded]))
"""
)


def run(**changes: str) -> Any:
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONPATH": path, **changes},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_solve_imports_no_numba_and_has_the_bits_that_it_has_with_it(compiled: None) -> None:
    """Numba and SciPy work all the same when they are imported afterwards. A setting of Numba's
    leaves everything to it."""
    without, loaded = run()
    assert loaded == []
    assert without[0] == without[2]
    by_numba, loaded = run(NUMBA_THREADING_LAYER="default")
    assert loaded == ["numba", "llvmlite", "scipy"]
    assert without == by_numba


def adder(count: int) -> Kernel:
    """As whoever runs it knows `kernel_jobs.adder`; compiled."""
    kernel = Kernel(Name("kernel_jobs", "add", "adder", (count,)))
    cache.compile_jobs([job(kernel)], tell=False)
    return kernel


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Jobs that workers are given."""
    jobs: list[Job] = []
    run = compiler.run_in_workers

    def noted(given: list[Job], count: int = 1) -> list[str]:
        jobs.extend(given)
        return run(given, count)

    monkeypatch.setattr(compiler, "run_in_workers", noted)
    return jobs


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_what_is_damaged_is_compiled_again(damage: str, asked: list[Job]) -> None:
    kernel = adder(6)
    file = job(kernel).object
    whole = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        middle = len(whole) // 2
        file.write_bytes(
            whole[:middle] if damage == "cut" else whole[:middle] + b"?" + whole[middle + 1 :]
        )
    asked.clear()
    assert kernel(np.full(2, 2.0)) == 12.0
    assert asked == [job(kernel)]
    assert len(kernel.variants or ()) == 1
    assert len(file.read_bytes()) == len(whole)


def test_code_of_another_installation_or_cpu_is_not_loaded(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = adder(6)
    assert job(kernel).object.exists()
    before = cache.stamp(cache.SOURCES)
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(cache, "CPUINFO", file)
    file.write_text("model name: of another kind\nflags: fpu\ncpu MHz: 1\n\nprocessor: 1\n")
    other = cache.stamp(cache.SOURCES)
    assert other != before
    file.write_text("model name: of another kind\nflags: fpu\ncpu MHz: 2\n")
    assert cache.stamp(cache.SOURCES) == other  # it was only slower for a moment
    monkeypatch.setattr(cache, "_STAMP", other)
    assert not job(kernel).finished
    assert kernel._load() == []
    with pytest.raises(DamageError):
        read(job(kernel).object)


def test_arguments_of_other_kinds_are_left_to_numba(asked: list[Job]) -> None:
    kernel = adder(7)
    assert kernel(np.full(2, 2.0)) == 14.0
    assert "_by_numba" not in vars(kernel)
    for other in (np.full(2, 2.0, np.float32), np.full(4, 2.0)[::2]):
        assert kernel(other) == 14.0
    assert "_by_numba" in vars(kernel)


def test_results_that_only_numba_can_make_are_left_to_it(asked: list[Job]) -> None:
    kernel = Kernel(Name("kernel_jobs", "twice"))
    cache.compile_jobs([job(kernel)], tell=False)
    with pytest.raises(LinkError):
        read(job(kernel).object)
    asked.clear()
    assert kernel(np.arange(3.0)).tolist() == [0.0, 2.0, 4.0]
    assert asked == []


def test_kinds_of_arguments_are_told_apart() -> None:
    index, ones = np.zeros(2, np.int32), np.ones(3)
    tasks = Tasks(np.zeros(2, np.int64), index, np.zeros(2, np.int64))
    signature = parse(
        ["float641", "float642", ["int641", "int321", "int641"], "int", "float", "bool", "none"]
    )
    right = (ones, np.ones((3, 3)), tasks, 1, 1.0, True, None)
    assert fit(right, signature)
    fixed = np.ones(3)
    fixed.flags.writeable = False
    wrong: list[tuple[int, Any]] = [
        (0, index), (0, np.ones((3, 1))), (0, np.ones(6)[::2]), (0, fixed), (0, [1.0]), (0, None),
        (1, np.ones((3, 3)).T), (2, (index, index, index)), (2, tasks[:2]), (2, list(tasks)),
        (3, 1.0), (3, True), (4, 1), (5, 1), (6, 0), (6, ones),
    ]  # fmt: skip
    for place, value in wrong:
        assert not fit((*right[:place], value, *right[place + 1 :]), signature)
    assert not fit(right[:-1], signature)
    assert not fit((*right, 1), signature)


def test_another_release_of_numba_loads_its_kernels_itself(
    monkeypatch: pytest.MonkeyPatch, asked: list[Job]
) -> None:
    monkeypatch.setattr(symbols, "KNOWN", b'"version": "0.0.')
    symbols.usable.cache_clear()
    try:
        kernel = adder(8)
        assert not symbols.usable()
        assert kernel(np.full(2, 2.0)) == 16.0
        assert kernel.variants == []
        assert "_by_numba" in vars(kernel)
    finally:
        symbols.usable.cache_clear()
