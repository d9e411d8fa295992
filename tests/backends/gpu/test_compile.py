"""Every GPU kernel compiles to machine code, on a machine without a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import HELPERS, ROOT

pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.slow

KERNELS = ROOT / "src" / "daba" / "backends" / "gpu" / "kernels"


def kernels(*files: str) -> set[str]:
    """Names of all that is launched."""
    text = "".join((KERNELS.parent / name).read_text() for name in files)
    return set(re.findall(r"\b\w+\.(\w+)\[\(", text))


def lm_kernels() -> set[str]:
    """Those of Levenberg–Marquardt: every function that asks which program it is."""
    found = set()
    for name in ("passes", "settle", "products", "coarse"):
        text = (KERNELS / "lm" / f"{name}.py").read_text()
        for function in text.split("@jit\n")[1:]:
            if "tl.program_id" in function:
                found.add(function[len("def ") : function.index("(")])
    return found


@pytest.mark.parametrize(("capability", "precision"), [(80, "float64"), (90, "mixed"), (90, "lm")])
def test_every_kernel_becomes_machine_code(capability: int, precision: str, tmp_path: Path) -> None:
    expected = lm_kernels() if precision == "lm" else kernels("launches.py")
    if precision == "mixed":  # constraints, and what sums up the scales of momentum
        expected |= {*kernels("constrained_launches.py"), "add_rows"}
    env = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    env["DISABLE_PTXAS_OPT"] = "1"  # nobody runs it
    env.pop("TRITON_INTERPRET", None)
    run = subprocess.run(
        [sys.executable, str(HELPERS / "compile_gpu.py"), str(capability), precision],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    compiled = {line.split()[0] for line in run.stdout.splitlines()}
    assert len(expected) > 15
    assert compiled == expected


def test_all_that_iterations_launch_is_compiled_ahead() -> None:
    env = dict(os.environ)
    env.pop("TRITON_INTERPRET", None)
    run = subprocess.run(
        [sys.executable, str(HELPERS / "compile_gpu.py"), "90", "ahead"],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.splitlines() == ["missing"] * 14
