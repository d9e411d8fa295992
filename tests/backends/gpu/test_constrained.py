"""Algorithm 1 under constraints by the GPU's code, in Triton's interpreter, against the CPU's."""

from __future__ import annotations

import os
from typing import Any

import constrained
import numpy as np
import pytest

from daba.core.options import Options
from daba.distributed.shard import make_shard
from daba.solver.make import cpu_solver, gpu_solver
from helpers import EAGER, random_problem

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("here kernels run on a GPU: see tests/gpu", allow_module_level=True)

from daba.backends.gpu import lists  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's, of empty slots
]

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "fixed": (constrained.fixed, {"method": "duba"}),
    "on devices": (constrained.all_but_across, {"refine": "sweep"}),
    "across devices": (constrained.everything, {"refine": "sweep"}),
    "restarts": (constrained.shared_across_devices, {"refine": "none", **EAGER}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_iteration_is_that_of_the_cpu(
    case: str, compiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From where the CPU has come to, with all that is decided in it. What is fixed stays to the
    bit."""
    monkeypatch.setattr(lists, "lanes_of", lambda *sizes: lists.Lanes(32, 3, 64, 32))
    make, chosen = CASES[case]
    problem = make(random_problem(4, cameras=4, points=7))
    shard = make_shard(problem, constrained.in_halves(problem))
    given: dict[str, Any] = {
        "method": "daba", "refine": "none", "devices": 2, "precision": "float64",
        "linear_solver": "pcg", "pcg_forcing": 0.0, "pcg_residual": 1e-12, "pcg_iterations": 2,
    }  # fmt: skip
    options = Options(**given | chosen)
    on_gpu, on_cpu = gpu_solver(shard, options, device="cpu"), cpu_solver(shard, options)
    for _ in range(3):
        on_cpu.iterate()
    before = on_cpu.estimate.copy()
    on_gpu.put_back(on_cpu.device_states(), on_cpu.common_state())
    assert on_gpu.objective == pytest.approx(on_cpu.objective, rel=1e-12)
    on_gpu.iterate()
    on_cpu.iterate()
    assert on_gpu.objective == pytest.approx(on_cpu.objective, rel=1e-10)
    assert on_gpu.counts.restarts == on_cpu.counts.restarts
    assert on_gpu.counts.pcg_iterations == on_cpu.counts.pcg_iterations
    assert (on_gpu.counts.restarts > 0) == (case == "restarts")
    assert on_gpu.gradient_norm() == pytest.approx(on_cpu.gradient_norm(), rel=1e-7)
    here, there = on_gpu.device_objective(), on_cpu.device_objective()
    np.testing.assert_allclose(here.priors, there.priors, rtol=1e-9)
    assert here.priors.any() == (problem.priors is not None)
    for device, saved in on_gpu.device_states().items():
        for name, found in saved.items():
            expected = on_cpu.device_states()[device][name]
            np.testing.assert_allclose(found, expected, 1e-7, 1e-9, err_msg=name)
    assert on_gpu.common_state() == pytest.approx(on_cpu.common_state(), rel=1e-12)
    _check_what_is_fixed(on_gpu, before)


def _check_what_is_fixed(solver: Any, before: Any) -> None:
    shard, after = solver.shard, solver.estimate
    asked = shard.constraints
    if asked.free_points is not None:
        held = ~asked.free_points
        assert after.points[held].tobytes() == before.points[held].tobytes()
        assert (after.points[~held] != before.points[~held]).any()
    if asked.free_cameras is not None:
        still = np.hstack(
            [np.repeat(~asked.free_cameras[:, :3].any(axis=1)[:, None], 9, axis=1),
             ~asked.free_cameras[:, 3:]]
        )  # fmt: skip
        assert still.any()
        assert after.cameras[still].tobytes() == before.cameras[still].tobytes()
    if asked.shared is not None:
        for group in np.unique(asked.shared):
            d = after.cameras[asked.shared == group, 12:]
            assert (d == d[0]).all()
