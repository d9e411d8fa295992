"""`daba bench` from end to end on a tiny scene, and its other programs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import daba
from daba.core.errors import DabaError
from daba.problem.problem import Problem
from daba.solver.consensus.consensus import RENEWED
from daba.tools.bench.cases import Case
from daba.tools.bench.ceres import CONFIGURATIONS, find_program, run_ceres
from daba.tools.bench.footprint import footprint
from daba.tools.bench.problems import find_problems
from daba.tools.cli import main

ONE = ["bench", "orbit:12:100", "--devices", "2", "--losses", "trivial", "--iterations", "3"]


@pytest.mark.usefixtures("compiled")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [*ONE, "--output", str(tmp_path), "--methods", "daba", "daba-sweep", "admm", "dr", "lm"]
    assert main(line) == 0
    told = capsys.readouterr()
    assert "0 of 11 results are there, 11 to run" in told.err
    assert str(tmp_path / "report.html") in told.out
    (path,) = tmp_path.glob("results/*/admm-2-trivial-*.json")
    found = json.loads(path.read_text())
    assert found["case"]["iterations"] == 3
    assert found["histories"][0]["iteration"] == [0, 1, 2, 3]
    assert found["histories"][0]["mean_objective"][-1] < found["histories"][0]["mean_objective"][0]
    assert (
        f"{found['histories'][0]['mean_objective'][-1]:.6g}" in (tmp_path / "tables.md").read_text()
    )
    # 12 cameras are too few for 16 and 32 devices: that is told, and stops nothing
    assert "only 12 cameras" in (tmp_path / "report.html").read_text()
    before = path.read_bytes()
    assert main(line) == 0
    assert "11 of 11 results are there, 0 to run" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_bad_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ONE, "--full", "--output", str(tmp_path)]) == 2
    assert "but not both" in capsys.readouterr().err
    assert main(["bench", "nothing.txt", "--output", str(tmp_path)]) == 2
    assert "no such file" in capsys.readouterr().err
    for option, value in (("--iterations", "-1"), ("--max-seconds", "nan"), ("--threads", "0")):
        assert main([*ONE, option, value, "--output", str(tmp_path)]) == 2
        assert option.strip("-").replace("-", "_") in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_without_any_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, out = tmp_path / "cut.txt", ["--output", str(tmp_path / "out")]
    bad.write_text("2 3 4\n0 0 1.0 2.0\n")
    line = ["bench", str(bad), "--methods", "lm", "--losses", "trivial", *out]
    assert main([*line, "--report-only"]) == 2
    assert "no result to report: nothing has been run yet" in capsys.readouterr().err
    assert main(line) == 2
    assert "no result to report: cut.txt: the file ends after 1 of the 4" in capsys.readouterr().err
    assert "cut short" in (tmp_path / "out" / "report.html").read_text()


def test_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daba.tools.cli.bench.why_no_gpu", lambda: "there is none")
    assert main([*ONE, "--backend", "gpu", "--output", str(tmp_path / "out")]) == 2
    assert "no GPU can be used: there is none; use --backend cpu" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


PROGRAM = """#!{python}
import json, sys
sys.stdin.read()
slow = "sparse_schur" in sys.argv
rows = [dict(iteration=k, seconds=0.5 * k * (1 + 9 * slow), mean_objective=v)
        for k, v in enumerate([2.0, 1.0 + slow])]
print(json.dumps(dict(initial_objective={start!r}, iterations=rows, seconds=rows[-1]["seconds"],
      reason="Maximum solver time reached" if slow else "done")))
open({log!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
"""


@pytest.fixture
def scene(tmp_path: Path) -> Case:
    (source,) = find_problems(["orbit:12:100"], tmp_path)
    return Case(source, "ceres", 1, "huber", 40, threads=2)


def pretend(folder: Path, start: float, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that answers as ours for Ceres does; returns what it notes its arguments in."""
    program, log = folder / "ceres_ba", folder / "log"
    program.write_text(PROGRAM.format(python=sys.executable, start=start, log=str(log)))
    program.chmod(0o755)
    monkeypatch.setenv("DABA_CERES", str(program))
    assert find_program() == program
    return log


def test_ceres_tries_its_linear_solvers(
    scene: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = daba.load(scene.source.path)
    log = pretend(tmp_path, problem.objective(daba.Huber(32.0)), monkeypatch)
    told = run_ceres(scene, problem)
    assert [h["name"] for h in told["histories"]] == list(CONFIGURATIONS)
    assert told["stopped"] == ["sparse_schur"]
    assert told["histories"][0]["mean_objective"] == [2.0, 1.0]
    first, second = log.read_text().splitlines()[:2]
    assert "--iterations 40 --threads 2 --loss huber --loss-radius 32.0" in first
    assert "--max-seconds" not in first
    assert "--max-seconds 1" in second


def test_a_program_that_crashes_has_failed_and_one_that_is_interrupted_has_not(
    scene: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = daba.load(scene.source.path)
    pretend(tmp_path, 1.0, monkeypatch)
    for ending, error in (
        ("os.kill(os.getpid(), 11)", DabaError),
        ("print('no JSON')", DabaError),
        ("os.kill(os.getpid(), 15)", KeyboardInterrupt),
    ):
        code = f"#!{sys.executable}\nimport os\n{ending}\n"
        (tmp_path / "ceres_ba").write_text(code)
        with pytest.raises(error):
            run_ceres(scene, problem)


def test_ceres_must_begin_where_we_do(
    scene: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, 1.0, monkeypatch)
    with pytest.raises(DabaError, match="Ceres begins at F = 1"):
        run_ceres(scene, daba.load(scene.source.path))


def test_pycolmap_where_it_is_installed(scene: Case, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pycolmap", reason="pycolmap is not installed")
    from daba.tools.bench.colmap import run_colmap

    told = run_colmap(scene, daba.load(scene.source.path))
    assert told["pixels"] < 0.5 * told["start_pixels"]
    print("after", file=sys.stderr)
    assert capfd.readouterr().err == "after\n"  # nothing of COLMAP's log, and stderr is back


def shared(problem: Problem, partition: daba.Partition) -> tuple[int, int]:
    """Cameras and points that other devices must know, each once for each such device."""
    cameras, points = set(), set()
    for i, j in zip(problem.camera_index.tolist(), problem.point_index.tolist(), strict=True):
        a, b = int(partition.camera_device[i]), int(partition.point_device[j])
        if a != b:
            cameras.add((i, b))
            points.add((j, a))
    return len(cameras), len(points)


def test_bytes_of_every_method() -> None:
    problem = daba.generate(daba.SceneOptions(scene="orbit", cameras=12, points=200)).start
    partition = daba.make_partition(problem, 4)
    cameras, points = shared(problem, partition)
    told = footprint(problem, partition)
    assert told.pop("lm-devices")["bytes"] > 0  # compared with what a run counts under MPI
    once = 8 * (15 * cameras + 3 * points)
    metric = 5 / RENEWED  # of a camera, told every so many rounds
    expected = {"daba": once, "daba-points": once, "daba-sweep": 2 * once, "duba": once,
                "admm": round(2 * 8 * (15 + metric) * cameras),
                "dr": 2 * 8 * 3 * points}  # fmt: skip
    assert {name: entry["bytes"] for name, entry in told.items()} == expected


def test_memory_falls_with_devices_and_one_device_is_the_same_for_all() -> None:
    problem = daba.generate(daba.SceneOptions(cameras=64, points=4000)).start
    alone = footprint(problem, daba.make_partition(problem, 1))
    assert len({(entry["memory"], entry["bytes"]) for entry in alone.values()}) == 1
    four = footprint(problem, daba.make_partition(problem, 4))
    assert all(four[name]["memory"] < alone[name]["memory"] for name in four)
    # copies make every observation one with a Jacobian
    assert np.all([four[name]["memory"] > four["daba"]["memory"] for name in ("admm", "dr")])


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    """The command is a module of its own: others do not pay for it."""
    source = Path(daba.__file__).parent / "tools" / "cli" / "__init__.py"
    assert "daba.tools.bench" not in source.read_text()
    assert os.path.exists(source.with_name("bench.py"))
