"""Every command does what its help says."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from command_line import names, run, small_scene

import daba
from daba.core.options import Options
from daba.io.constraint_options import ConstraintOptions
from daba.tools.cli.arguments import flags_of
from daba.tools.cli.solve import GROUPS, RARE, RESEARCH, SolveCommand, make_options, solve_flags

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    daba.save(small_scene(), tmp_path / "scene.npz")
    return tmp_path / "scene.npz"


def test_synth_writes_start_and_truth(tmp_path: Path, capsys: Capsys) -> None:
    start, truth = tmp_path / "start.txt", tmp_path / "truth.npz"
    argv = ("synth", start, "--truth", truth, "--cameras", "12", "--points", "200", "--seed", "3")
    outcome = run(capsys, *argv, "--scene", "street", "--observations", "900")
    assert outcome.code == 0, outcome.err
    assert "street, 12 cameras, 200 points, 900 observations" in outcome.out
    before, after = daba.load(start), daba.load(truth)
    assert (before.num_cameras, before.num_points, before.num_observations) == (12, 200, 900)
    assert daba.pixel_error(after).rms < 1 < daba.pixel_error(before).rms
    assert run(capsys, *argv, "--quiet").out == ""


def test_info(scene: Path, capsys: Capsys) -> None:
    outcome = run(capsys, "info", scene)
    assert outcome.code == 0, outcome.err
    for words in ("cameras", "observations per point", "pixel error", "cost", "median"):
        assert words in outcome.out


def test_info_as_json(scene: Path, capsys: Capsys) -> None:
    report = json.loads(run(capsys, "info", scene, "--json").out)
    assert report["cameras"] == 8
    assert report["mean_objective"] == pytest.approx(report["objective"] / report["observations"])
    assert set(report["pixel_error"]) >= {"rms", "mean", "median", "half_mean_square"}


def test_info_tells_how_well_intrinsics_fit(tmp_path: Path, capsys: Capsys) -> None:
    daba.save(small_scene(), tmp_path / "a.txt")
    outcome = run(capsys, "info", tmp_path / "a.txt", "--intrinsics", "standard")
    assert "intrinsics fit" in outcome.out
    paper = run(capsys, "info", tmp_path / "a.txt", "--intrinsics", "paper")
    assert "intrinsics fit" not in paper.out


def test_partition(scene: Path, capsys: Capsys) -> None:
    outcome = run(capsys, "partition", scene, "--devices", "3")
    assert outcome.code == 0, outcome.err
    for words in ("device", "neighbours", "bytes / iteration", "imbalance", "between devices"):
        assert words in outcome.out
    table = json.loads(run(capsys, "partition", scene, "--devices", "3", "--json").out)
    assert sum(table["cameras"]) == 8
    assert len(table["bytes_sent"]) == table["devices"] == 3


@pytest.mark.parametrize(
    "name", ["b.txt", "b.txt.gz", "b.bal.bz2", "b.out", "b.out.gz", "b.npz", "b.ply"]
)
def test_convert(name: str, scene: Path, tmp_path: Path, capsys: Capsys) -> None:
    outcome = run(capsys, "convert", scene, tmp_path / name)
    assert outcome.code == 0, outcome.err
    assert (tmp_path / name).stat().st_size > 0
    if not name.endswith("ply"):
        again = daba.load(tmp_path / name, "standard")
        assert again.num_observations == daba.load(scene).num_observations


@pytest.mark.usefixtures("compiled")
def test_solve_writes_everything(scene: Path, tmp_path: Path, capsys: Capsys) -> None:
    files = [tmp_path / name for name in ("s.txt", "s.npz", "s.ply", "h.json", "p.png")]
    outcome = run(
        capsys, "solve", scene, "--devices", "2", "--iterations", "8", "--loss", "huber",
        "--loss-radius", "16", "--output", files[0], "--output", files[1], "--output", files[2],
        "--history", files[3], "--plot", files[4],
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert all(path.stat().st_size > 0 for path in files)
    assert "(lm) on rays, huber loss beyond 16 px, 2 devices" in outcome.out
    assert "reached the limit of 8 iterations" in outcome.out
    assert "8/8  cost" in outcome.out
    history = json.loads(files[3].read_text())
    solution = daba.load(files[1])
    objective = solution.objective(daba.Huber(16.0))
    assert history["result"]["objective"] == pytest.approx(objective, rel=1e-9)
    read_back = daba.load(files[0], "standard").objective(daba.Huber(16.0))
    assert read_back == pytest.approx(objective, rel=1e-3)


@pytest.mark.usefixtures("compiled")
def test_history(scene: Path, tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "h.json"
    argv = ("solve", scene, "--devices", "2", "--iterations", "3", "--history", path, "--quiet")
    outcome = run(capsys, *argv, "--xi", "1e-6", "--refine", "none")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    history = json.loads(path.read_text())
    assert history["problem"]["observations"] == daba.load(scene).num_observations
    assert history["options"]["xi"] == 1e-6
    assert history["options"]["loss"] == "trivial"
    assert set(history["options"]) == {f.name for f in fields(Options)} | {"loss_radius"}
    assert [row["iteration"] for row in history["iterations"]] == [0, 1, 2, 3]
    for row in history["iterations"]:
        assert set(row) >= {
            "iteration", "seconds", "objective", "mean_objective", "restarts", "pcg_iterations",
            "lm_retries", "lm_steps",
        }  # fmt: skip
    seconds = [row["seconds"] for row in history["iterations"]]
    assert seconds == sorted(seconds)
    assert history["result"]["reason"] == "reached the limit of 3 iterations"
    assert history["result"]["objective"] == history["iterations"][-1]["objective"]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("method", ["daba", "duba", "lm"])
def test_methods(method: str, scene: Path, capsys: Capsys) -> None:
    outcome = run(capsys, "solve", scene, "--method", method, "--devices", "2", "--iterations", "4")
    assert outcome.code == 0, outcome.err
    assert f"({method})" in outcome.out


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("devices", ["1", "3"])
def test_odd_problems_are_reported_and_solved(devices: str, tmp_path: Path, capsys: Capsys) -> None:
    problem = small_scene()
    cam, pt = problem.camera_index, problem.point_index
    once = (pt != 5) | (np.cumsum(pt == 5) == 1)  # point 5 has one observation
    never = pt != 6
    few = (cam != 2) | (np.cumsum((cam == 2) & once & never) <= 2)
    keep = np.flatnonzero(once & never & few)
    odd = problem.with_observations(np.r_[keep, keep[:1], keep[:1]])
    daba.save(odd, tmp_path / "odd.npz")
    argv = ("solve", tmp_path / "odd.npz", "--devices", devices, "--iterations", "5")
    outcome = run(capsys, *argv, "--output", tmp_path / "s.txt")
    assert outcome.code == 0, outcome.err
    assert "1 point that no camera sees (6)" in outcome.out
    assert re.search(r"points? with only one observation \(.*\b5\b", outcome.out)
    assert "1 camera with fewer than 3 observations (2)" in outcome.out
    assert "2 duplicate observations" in outcome.out
    solution = daba.load(tmp_path / "s.txt", "standard")
    assert solution.objective() < odd.objective()


@pytest.mark.usefixtures("compiled")
def test_no_iterations(scene: Path, tmp_path: Path, capsys: Capsys) -> None:
    argv = ("solve", scene, "--iterations", "0", "--plot", tmp_path / "p.svg")
    outcome = run(capsys, *argv, "--output", tmp_path / "s.npz")
    assert outcome.code == 0, outcome.err
    np.testing.assert_array_equal(daba.load(tmp_path / "s.npz").points, daba.load(scene).points)


def test_every_option_is_a_flag(capsys: Capsys) -> None:
    text = run(capsys, "solve", "--help-all").out
    flags = solve_flags()
    assert set(flags) == {f.name for f in fields(Options)} | {"loss_radius"}
    for name in flags:
        assert re.search(f"--(no-)?{name.replace('_', '-')}[ ,\n]", text)
    constraints = flags_of(ConstraintOptions)
    assert all(f"--{name.replace('_', '-')} " in text for name in constraints)
    groups = [*GROUPS.values(), *RESEARCH.values()]
    assert {*flags, *constraints} == {name for group in groups for name in group}


def test_help_is_for_every_day(capsys: Capsys) -> None:
    text = run(capsys, "solve", "--help").out
    assert text.count("\n") < 110
    assert "-o OUT, --output OUT" in text
    assert "daba solve --help-all" in text
    shown = [name for group in GROUPS.values() for name in group]
    assert all(re.search(f"--(no-)?{name.replace('_', '-')}[ ,\n]", text) for name in shown)
    hidden = [*RARE, *(name for group in RESEARCH.values() for name in group)]
    assert set(hidden) <= {*solve_flags(), *flags_of(ConstraintOptions), *_fields(SolveCommand)}
    assert not any(f"--{name.replace('_', '-')} " in text for name in hidden)
    assert text == run(capsys, "solve", "-h").out
    info = run(capsys, "info", "--help").out
    assert "--help-all" not in info
    assert info == run(capsys, "info", "--help-all").out


def _fields(command: type) -> list[str]:
    return [f.name for f in fields(command)]


def test_flags_have_the_defaults_and_texts_of_the_library() -> None:
    flags = solve_flags()
    assert make_options({name: flag.default for name, flag in flags.items()}) == Options()
    assert flags["split"].help == (
        "θ in (0, 1), how an inter observation is shared between its camera and its point."
    )
    assert all(flag.help for flag in flags.values())


def test_help_teaches(capsys: Capsys) -> None:
    for argv in ((), ("--help",), ("-h",), ("help",)):
        outcome = run(capsys, *argv)
        assert outcome.code == 0
        for command in ("solve", "info", "partition", "convert", "synth"):
            assert f"  {command} " in outcome.out
        assert "daba solve sparse/0 -o sparse/better" in outcome.out
    for command in ("solve", "info", "partition", "convert", "synth"):
        outcome = run(capsys, command, "--help")
        assert outcome.code == 0
        assert "examples:" in outcome.out
        assert f"  daba {command} " in outcome.out
    text = run(capsys, "solve", "--help-all").out
    assert text.startswith("usage: daba solve ")
    for words in ("positional arguments", "method:", "stopping:", "(default: 0.5)"):
        assert words in text


def test_version(capsys: Capsys) -> None:
    for argv in ("version", "--version"):
        assert run(capsys, argv).out == f"daba {daba.__version__}\n"


@pytest.mark.usefixtures("compiled")
def test_nothing_else_is_left_behind(scene: Path, tmp_path: Path, capsys: Capsys) -> None:
    argv = ("solve", scene, "--iterations", "0", "--output", tmp_path / "s.ply")
    assert run(capsys, *argv, "--history", tmp_path / "h.json").code == 0
    assert names(tmp_path) == ["h.json", "s.ply", "scene.npz"]
