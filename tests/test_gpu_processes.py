"""Several processes with the GPU's code, through torch.distributed (gloo), in the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

SCRIPT = Path(__file__).parent / "gpu_process.py"


def together(processes: int, out: Path, *args: str) -> dict[str, np.ndarray]:
    """What so many processes find."""
    started = [] if processes == 1 else [
        "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}",
    ]  # fmt: skip
    env = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, *started, str(SCRIPT), str(out), *args],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    with np.load(out) as found:
        return dict(found)


def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    """Refinement tells neighbours cameras and points by turns; its rounds are all in a sweep."""
    alone = together(1, tmp_path / "one.npz", "cpu", "sweep")
    two = together(2, tmp_path / "two.npz", "cpu", "sweep")
    assert alone["sent"] == 0 < two["sent"]
    np.testing.assert_allclose(two["F"], alone["F"], rtol=1e-9)
    np.testing.assert_allclose(two["points"], alone["points"], rtol=1e-6, atol=1e-9)
