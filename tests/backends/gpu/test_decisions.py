"""The method's decisions as Triton runs and compiles them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import HELPERS

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from gpu_decisions import decide  # noqa: E402

from daba.backends.gpu.kernels.exact import bits  # noqa: E402
from daba.core import decisions  # noqa: E402

pytestmark = pytest.mark.slow
INPUTS, OUTPUTS, N = 10, 12, 64


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="needs the interpreter")
def test_triton_decides_as_numpy_does() -> None:
    random = np.random.default_rng(3)
    given = np.exp(random.uniform(-3.0, 3.0, (INPUTS, N)))
    given[0] = random.random(N) < 0.7
    given[1:3] *= np.where(random.random((2, N)) < 0.7, 1.0, -1.0)
    table = torch.from_numpy(np.concatenate([given, np.zeros((OUTPUTS, N))]))
    decide[(1,)](table, bits(1e-3), bits(1.0005), N)
    flag, actual, predicted, start, radius, shrink, limit, F, s, eta = given
    trying = flag > 0
    good, gain = decisions.accept(trying, actual, predicted, 1e-3)
    stalled = decisions.stalled(trying, good, predicted, start, 1e-3)
    failed = trying & ~good & ~stalled
    wanted: list[Any] = [good, gain, stalled]
    wanted += decisions.next_radius(good, failed, gain, radius, shrink, limit)
    wanted += decisions.limit_by_objective(F, start, radius, limit)
    wanted += decisions.nesterov(s)
    wanted += [decisions.restart_level(F, start, eta), decisions.next_eta(eta, 1.0005)]
    wanted += [decisions.goes_back(actual, predicted, F, s)]
    found = table.numpy()[INPUTS:]
    np.testing.assert_allclose(found, np.array(wanted, float), rtol=4e-16)
    assert 0 < found[0].sum() < N


def test_compiled_constants_are_exact_doubles(tmp_path: Path) -> None:
    env = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    env.pop("TRITON_INTERPRET", None)
    run = subprocess.run(
        [sys.executable, str(HELPERS / "gpu_decisions.py")],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    assert "f32" not in run.stdout
    constants = {float(line) for line in run.stdout.splitlines() if line}
    used = {1 / 3, decisions.RELAXATION, 1 + decisions.RISE}
    used |= {decisions.CAUTIOUS_RADIUS, decisions.LARGEST_RADIUS}
    assert used <= constants
