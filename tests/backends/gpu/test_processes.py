"""Several processes with the GPU's code, by torchrun (gloo) and by MPI, in the interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from places import HELPERS
from small_machine import SMALL_MACHINE

pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.slow

SCRIPT = HELPERS / "gpu_process.py"
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
LAUNCHERS: dict[str, list[str]] = {
    "alone": [sys.executable],
    "torchrun": [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
    ],
    "mpiexec": [str(MPIEXEC), "-n", "2", sys.executable],
}  # fmt: skip
ENVIRONMENT = SMALL_MACHINE | {"TRITON_INTERPRET": "1"}


def found_by(launcher: str, out: Path, *refined: str) -> dict[str, np.ndarray]:
    run = subprocess.run(
        [*LAUNCHERS[launcher], str(SCRIPT), str(out), "cpu", *refined],
        env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    with np.load(out) as found:
        return dict(found.items())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return found_by("alone", tmp_path_factory.mktemp("alone") / "one.npz", "sweep", "none")


@pytest.mark.parametrize(("launcher", "refine"), [("torchrun", "sweep"), ("mpiexec", "none")])
def test_two_processes_find_what_one_finds(
    launcher: str, refine: str, alone: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """Without refinement both blocks are told at once; in a sweep cameras and points by turns."""
    two = found_by(launcher, tmp_path / "two.npz", refine)
    assert alone[f"{refine} sent"] == 0 < two[f"{refine} sent"]
    for name in (f"{refine} {what}" for what in ("F", "points", "cameras")):
        assert two[name].tobytes() == alone[name].tobytes(), name
