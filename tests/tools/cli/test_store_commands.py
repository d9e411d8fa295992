"""`daba partition --output`, and stores in `daba convert` and `daba info`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import names, run
from odd_problems import assert_same, contents, odd_problem

import daba.io
from daba.io.store.store import Store

Capsys = pytest.CaptureFixture[str]
PROBLEM = odd_problem(6, 40, 200, 7)


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    daba.io.save(PROBLEM, tmp_path / "a.npz")
    return tmp_path / "a.npz"


def test_partition_writes_a_store_and_shows_the_same_table(scene: Path, capsys: Capsys) -> None:
    """And without a store, what lm needs besides."""
    out = scene.parent / "a.daba"
    shown = run(capsys, "partition", scene, "--devices", "3", "--json")
    written = run(capsys, "partition", scene, "--devices", "3", "--output", out)
    again, told = run(capsys, "partition", out), run(capsys, "partition", out, "--json")
    assert (shown.code, written.code, again.code, told.code) == (0, 0, 0, 0)
    assert written.out == again.out
    expected = json.loads(shown.out)
    assert len(expected.pop("lm")["memory"]) == 3
    assert json.loads(told.out) == expected
    assert Store(out).devices == 3
    assert_same(PROBLEM, daba.io.load(out))


def test_a_store_is_partitioned_anew(scene: Path, capsys: Capsys) -> None:
    one, two = scene.parent / "one", scene.parent / "two"
    run(capsys, "partition", scene, "--devices", "3", "--output", one)
    outcome = run(capsys, "partition", one, "--devices", "2", "--json")
    assert json.loads(outcome.out)["devices"] == 2
    assert Store(one).devices == 3
    run(capsys, "partition", one, "--devices", "2", "--output", one)
    run(capsys, "partition", scene, "--devices", "2", "--output", two)
    assert contents(one) == contents(two)
    assert names(scene.parent) == ["a.npz", "one", "two"]


def test_convert_there_and_back(scene: Path, capsys: Capsys) -> None:
    folder = scene.parent
    for arguments in (["b.daba", "--devices", "4"], ["c", "--devices", "2"], ["d.daba"]):
        target = folder / arguments[0]
        outcome = run(capsys, "convert", scene, target, *arguments[1:])
        assert outcome == (0, f"{scene} -> {target}\n", "")
        assert run(capsys, "convert", target, folder / "back.npz", "--quiet") == (0, "", "")
        assert (folder / "back.npz").read_bytes() == scene.read_bytes()
    assert [Store(folder / n).devices for n in ("b.daba", "c", "d.daba")] == [4, 2, 1]
    for suffix in (".txt", ".ply"):  # nothing but the way there differs
        assert run(capsys, "convert", folder / "b.daba", folder / f"b{suffix}").code == 0
        assert run(capsys, "convert", scene, folder / f"a{suffix}").code == 0
        assert (folder / f"a{suffix}").read_bytes() == (folder / f"b{suffix}").read_bytes()


def test_the_fit_of_standard_intrinsics_is_told(scene: Path, capsys: Capsys) -> None:
    text = scene.parent / "a.txt"
    run(capsys, "convert", scene, text)
    argv = ("convert", text, scene.parent / "b.daba", "--intrinsics", "standard")
    assert "intrinsics fit: rms" in run(capsys, *argv).out


def test_info_of_a_store(scene: Path, capsys: Capsys) -> None:
    run(capsys, "convert", scene, scene.parent / "b", "--devices", "2")
    assert run(capsys, "info", scene.parent / "b") == run(capsys, "info", scene)


def test_what_is_refused(scene: Path, capsys: Capsys) -> None:
    folder = scene.parent
    (folder / "other").mkdir()
    (folder / "other" / "x").touch()
    before = contents(folder)
    refused: list[tuple[list[str | Path], str]] = [
        (["partition", scene], "say for how many devices with --devices S"),
        (["partition", scene, "--devices", "9", "--output", folder / "b"], "9 devices but only 6"),
        (
            ["partition", scene, "--devices", "2", "--output", scene / "b"],
            "is a file, not a folder",
        ),
        (["partition", scene, "--devices", "2", "--output", folder / "other"], "not a daba store"),
        (["partition", scene, "--devices", "2", "--output", scene], "it is a file"),
        (["partition", folder / "other"], "say for how many devices"),
        (["info", folder / "other"], r"other is not a daba store: it has no manifest.json"),
        (["info", folder / "none.daba"], "there is no such folder"),
        (["convert", scene, folder / "b.txt", "--devices", "2"], "--devices is for stores"),
        (["convert", scene, folder / "other.xyz"], "unknown kind of file '.xyz'"),
        (["convert", scene, scene / "b.daba"], "is a file, not a folder"),
    ]
    for argv, reason in refused:
        outcome = run(capsys, *argv)
        assert outcome.code == 2
        assert reason in outcome.err
        assert outcome.err.count("\n") == 1
    assert contents(folder) == before
