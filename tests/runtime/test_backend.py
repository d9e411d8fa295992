"""What `--backend auto` chooses, and what it says of it."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest
from scene_for_gpu import tiny_problem

import daba
from daba.core.errors import GpuMemoryError
from daba.distributed.comm.base import Communicator
from daba.partition.ordering import ON_HOST, NumpyArrays
from daba.runtime import backend
from daba.tools.cli import main

PROBLEM = tiny_problem(4, 30)


def test_auto_says_why_it_is_the_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backend, "why_no_gpu", lambda: "there is none")
    result = daba.solve(PROBLEM, backend="auto", iterations=3)
    assert result.history[-1].objective < result.history[0].objective
    assert capsys.readouterr().err == "daba: backend auto: on the CPU: there is none\n"


def test_what_is_for_the_cpu_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backend, "why_no_gpu", lambda: "")
    options = daba.Options(method="daba", backend="auto", devices=2, linear_solver="direct")
    chosen = backend.make_backend(options, Communicator(), constrained=True)
    assert isinstance(chosen, backend.Cpu)
    assert "on the CPU: its linear solver is pcg" in capsys.readouterr().err


class SmallGpu:
    """Has no room for anything."""

    compiling, name = 0.0, "a small one"

    def __init__(self, comm: Any) -> None:
        pass

    def running(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def arrays(self, observations: int) -> NumpyArrays:
        return ON_HOST

    def solver(self, *given: Any) -> Any:
        raise GpuMemoryError("too little GPU memory")


def test_where_memory_will_not_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backend, "why_no_gpu", lambda: "")
    monkeypatch.setattr(backend, "Gpu", SmallGpu)
    result = daba.solve(PROBLEM, backend="auto", iterations=3)
    assert result.history[-1].objective < result.history[0].objective
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "daba: backend auto: on the GPU, a small one",
        "daba: backend auto: on the CPU: too little GPU memory",
    ]
    with pytest.raises(daba.DabaError, match="too little GPU memory"):
        daba.solve(PROBLEM, backend="gpu", iterations=3)


def test_without_a_gpu_its_packages_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton, once loaded, prints pages about what it has leaked below the message."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setitem(sys.modules, "triton", None)
    assert backend.why_no_gpu() == "torch finds no CUDA device"


def test_warmup(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    compiled: list[str] = []
    monkeypatch.setattr("daba.runtime.compile.compile_kernels", lambda: compiled.append("cpu"))
    monkeypatch.setattr(
        "daba.runtime.compile.compile_gpu_kernels", lambda problem: compiled.append("gpu")
    )
    monkeypatch.setattr(backend, "why_no_gpu", lambda: "there is none")
    assert main(["warmup"]) == 0
    assert compiled == ["cpu"]
    assert "no GPU can be used: there is none" in capsys.readouterr().out
    monkeypatch.setattr(backend, "why_no_gpu", lambda: "")
    assert main(["warmup", "--quiet"]) == 0
    assert compiled == ["cpu", "cpu", "gpu"]
