"""What `daba partition` predicts is what a run reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jobs import needs_mpi, run, run_all, scene

import daba
from daba.solver.consensus.consensus import RENEWED
from daba.tools.bench.footprint import footprint

pytestmark = [needs_mpi, pytest.mark.usefixtures("compiled")]


def test_memory_and_bytes_are_as_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Large enough for the data to count beside the interpreter and its libraries."""
    from daba.tools.cli import main

    daba.save(scene(500, 50_000), tmp_path / "scene.npz")
    store, history = tmp_path / "scene.daba", tmp_path / "history.json"
    line = ["partition", f"{tmp_path}/scene.npz", "--devices", "2", "--output", f"{store}"]
    assert main([*line, "--json"]) == 0
    predicted = json.loads(capsys.readouterr().out)
    options = ["--method", "daba", "--refine", "none", "--iterations", 3]
    done = run(2, "solve", store, *options, "--quiet", "--history", history)
    assert done.code == 0, done.err
    told = json.loads(history.read_text())
    for rank in told["ranks"]:
        (device,) = rank["devices"]
        assert rank["peak_memory"] == pytest.approx(predicted["memory"][device], rel=0.1)
        assert sum(rank["bytes_sent"].values()) == 3 * predicted["bytes_sent"][device]
    for entry in told["iterations"][1:]:
        assert entry["bytes_sent"] == sum(predicted["bytes_sent"])
    lm_is_as_predicted(tmp_path / "scene.npz", store, history, capsys)


def lm_is_as_predicted(
    problem: Path, store: Path, history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from daba.tools.cli import main

    assert main(["partition", f"{problem}", "--devices", "2", "--json"]) == 0
    predicted = json.loads(capsys.readouterr().out)["lm"]
    done = run(2, "solve", store, "--iterations", 3, "--quiet", "--history", history)
    assert done.code == 0, done.err
    told = json.loads(history.read_text())
    for rank in told["ranks"]:
        (device,) = rank["devices"]
        assert rank["peak_memory"] == pytest.approx(predicted["memory"][device], rel=0.1)
    each = predicted["bytes"]
    for entry in told["iterations"][1:]:
        expected = each["step"] + entry["lm_retries"] * each["retry"]
        expected += entry["pcg_iterations"] * each["iteration"]
        assert entry["boundary_bytes"] + entry["summed_bytes"] == pytest.approx(expected, rel=0.1)
        assert entry["bytes_sent"] == entry["boundary_bytes"]


def test_bytes_of_the_baselines_are_as_predicted(tmp_path: Path) -> None:
    """One device per process, as the benchmark takes it."""
    problem = scene(40, 1_000)
    daba.save(problem, tmp_path / "scene.npz")
    common = ["solve", tmp_path / "scene.npz", "--devices", 3, "--iterations", RENEWED, "--quiet",
              "--function-tolerance", 0]  # fmt: skip
    methods = {name: tmp_path / f"{name}.json" for name in ("admm", "dr", "daba", "lm")}
    run_all(3, [[*common, "--method", m, "--history", p] for m, p in methods.items()])
    predicted = footprint(problem, daba.make_partition(problem, 3))
    for name, path in methods.items():
        told = json.loads(path.read_text())["iterations"][1:]
        assert all(entry["bytes_sent"] == entry["boundary_bytes"] > 0 for entry in told)
        if name in ("admm", "dr"):
            assert sum(entry["bytes_sent"] for entry in told) == RENEWED * predicted[name]["bytes"]
            assert len({entry["bytes_sent"] for entry in told[:-1]}) == 1
