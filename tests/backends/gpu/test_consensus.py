"""ADMM and Douglas–Rachford with the GPU's code, in Triton's interpreter, against the CPU's."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from daba.backends.operations import Block
from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard, make_shard
from daba.solver.consensus.consensus import Consensus
from daba.solver.make import consensus_solver, make_solver
from helpers import random_partition, random_problem

pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("compiled"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's, of empty slots
]
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("here kernels run on a GPU: see tests/gpu", allow_module_level=True)

from daba.backends.gpu import lists  # noqa: E402
from daba.backends.gpu.consensus import GpuConsensus  # noqa: E402


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of few lanes, and points of more than three observations shared by all of them."""
    monkeypatch.setattr(lists, "lanes_of", lambda *sizes: lists.Lanes(32, 3, 64, 32))


def both(method: str, **more: Any) -> tuple[Consensus, Consensus]:
    """The GPU's solver, and the CPU's."""
    problem = random_problem(0, cameras=3, points=6)
    shard = make_shard(problem, random_partition(problem, 2, 0))
    given: dict[str, Any] = {
        "method": method, "devices": 2, "precision": "float64", "inner_steps": 1,
        "linear_solver": "pcg", "pcg_residual": 1e-9, "pcg_forcing": 0.0, **more,
    }  # fmt: skip
    options, comm = Options(**given), Communicator()

    def on_gpu(shard: Shard, block: Block) -> GpuConsensus:
        return GpuConsensus(shard, options, block, "cpu")

    there = make_solver(shard, Options(**given | {"linear_solver": "direct"}), comm)
    assert isinstance(there, Consensus)
    return consensus_solver(shard, options, comm, on_gpu), there


def compare(here: Consensus, there: Consensus) -> None:
    np.testing.assert_allclose(here.objective, there.objective, rtol=1e-9)
    for a, b in zip((*here.y, *here.estimate), (*there.y, *there.estimate), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(here.memory, there.memory, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(here.K, there.K, rtol=1e-6)


def test_a_round_of_admm(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another metric at its end."""
    monkeypatch.setattr("daba.solver.consensus.consensus.RENEWED", 1)
    here, there = both("admm")
    compare(here, there)
    first, metric = here.objective, here.K.copy()
    here.iterate()
    there.iterate()
    compare(here, there)
    assert here.counts.lm_steps == there.counts.lm_steps > 0
    assert here.objective < first
    assert (here.K != metric).any()


def test_a_round_of_douglas_rachford() -> None:
    """The second, after a first by the CPU."""
    here, there = both("dr")
    there.iterate()
    here.put_back(there.device_states(), there.common_state())
    compare(here, there)
    here.iterate()
    there.iterate()
    compare(here, there)
    assert here.gradient_norm() == pytest.approx(there.gradient_norm(), rel=1e-5)
