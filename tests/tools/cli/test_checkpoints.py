"""`--checkpoint` and `--resume`: what is kept, and what is refused with a reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import Outcome, names, run, small_scene

import daba

pytestmark = pytest.mark.usefixtures("compiled")

OLD, NEW = "iteration-00000003", "iteration-00000006"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A problem, and a solve of it that was saved twice."""
    folder = tmp_path_factory.mktemp("checkpoints")
    daba.save(small_scene(), folder / "a.npz")
    daba.solve(
        small_scene(),
        method="daba",
        devices=2,
        iterations=6,
        threads=1,
        function_tolerance=0.0,
        checkpoints=daba.Checkpoints(folder / "saved", every=3),
    )
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged."""
    shutil.copytree(original, tmp_path / "copy")
    return tmp_path / "copy"


OPTIONS = ("--method", "daba", "--devices", "2", "--threads", "1", "--quiet")


def resume(capsys: Capture, folder: Path, *more: str | Path) -> Outcome:
    source = ("--resume", folder / "saved")
    return run(capsys, "solve", folder / "a.npz", *OPTIONS, "--iterations", "8", *source, *more)


def test_the_two_latest_are_kept(folder: Path, capsys: Capture) -> None:
    assert names(folder / "saved") == [OLD, NEW]
    more = ("--checkpoint", folder / "saved", "--checkpoint-every", "1")
    assert resume(capsys, folder, *more).code == 0
    assert names(folder / "saved") == ["iteration-00000007", "iteration-00000008"]
    assert names(folder / "saved" / "iteration-00000008") == [
        "device-0000.npz", "device-0001.npz", "manifest.json",
    ]  # fmt: skip


def test_what_an_interrupted_write_left_behind_is_ignored(folder: Path, capsys: Capture) -> None:
    half = folder / "saved" / ".iteration-00000009.0123abcd.tmp"
    half.mkdir()
    (half / "device-0000.npz").write_bytes(b"half of it")
    outcome = resume(capsys, folder, "--history", folder / "h.json")
    assert (outcome.code, outcome.err) == (0, "")
    iterations = json.loads((folder / "h.json").read_text())["iterations"]
    assert [entry["iteration"] for entry in iterations] == list(range(9))


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "flipped":
        path.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    elif how == "cut short":
        path.write_bytes(data[: len(data) // 2])
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "removed":
        path.unlink()


@pytest.mark.parametrize("how", ["flipped", "cut short", "emptied", "removed"])
@pytest.mark.parametrize("name", ["device-0001.npz", "manifest.json"])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_named(
    how: str, name: str, folder: Path, capsys: Capture
) -> None:
    path = folder / "saved" / NEW / name
    damage(path, how)
    outcome = resume(capsys, folder)
    assert outcome.code == 2
    assert outcome.err.startswith(f"daba: error: the checkpoint is damaged: {path} ")
    assert outcome.err.endswith(f"the one before it was kept: --resume {folder}/saved/{OLD}\n")
    older = ("--resume", folder / "saved" / OLD)
    assert run(capsys, "solve", folder / "a.npz", *OPTIONS, "--iterations", "4", *older).code == 0


def test_the_only_checkpoint_is_refused_alone(folder: Path, capsys: Capture) -> None:
    damage(folder / "saved" / OLD / "device-0000.npz", "flipped")
    shutil.rmtree(folder / "saved" / NEW)
    outcome = resume(capsys, folder)
    assert outcome.code == 2
    assert "device-0000.npz its checksum is not the one that was written\n" in outcome.err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"iteration": 6,\n "idle"', '"iteration": 5,\n "idle"', "has been changed"),
        ('"s": 4.', '"s": 5.', "has been changed"),
        ('"version": 1', '"version": 2', "was written by another daba (version 2"),
        ('"version": 1', '"version": "x"', "was written by another daba (version x"),
        ('"daba checkpoint"', '"daba store"', "holds a 'daba store', not a 'daba checkpoint'"),
        ('"checkpoint":', '"checkpaint":', "is not a manifest that daba wrote"),
    ],
)
def test_a_changed_manifest_is_refused(
    old: str, new: str, words: str, folder: Path, capsys: Capture
) -> None:
    path = folder / "saved" / NEW / "manifest.json"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    outcome = resume(capsys, folder)
    assert outcome.code == 2
    assert f"{path} {words}" in outcome.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--devices", "3"), "another problem or partition (2 devices there, 3 here)"),
        (("--refine", "none"), "was written with refine = sweep, and this solve has none"),
        (("--method", "duba"), "was written with method = daba, and this solve has duba"),
        (("--loss", "huber"), "was written with loss = trivial, and this solve has huber"),
        (("--method", "lm"), "was written with method = daba, and this solve has lm"),
    ],
)
def test_a_checkpoint_of_another_solve_is_refused(
    options: tuple[str, ...], words: str, folder: Path, capsys: Capture
) -> None:
    outcome = resume(capsys, folder, *options)
    assert outcome.code == 2
    assert f"{folder / 'saved' / NEW} " in outcome.err
    assert words in outcome.err


def test_a_checkpoint_of_another_problem_is_refused(folder: Path, capsys: Capture) -> None:
    for other, words in (
        (small_scene(9), "(8 cameras there, 9 here)"),
        (
            small_scene().with_estimate(*moved()),
            "is a checkpoint of another problem or partition\n",
        ),
    ):
        daba.save(other, folder / "a.npz")
        outcome = resume(capsys, folder)
        assert outcome.code == 2
        assert words in outcome.err


def moved() -> tuple:
    problem = small_scene()
    return problem.cameras, problem.points + 1e-9


def test_a_folder_with_checkpoints_of_another_solve_is_not_mixed_up(
    folder: Path, capsys: Capture
) -> None:
    solve = (
        "solve",
        folder / "a.npz",
        "--method",
        "daba",
        "--devices",
        "2",
        "--iterations",
        "1",
        "--quiet",
    )
    outcome = run(capsys, *solve, "--checkpoint", folder / "saved")
    assert outcome.code == 2
    assert f"{folder / 'saved'} holds checkpoints already, the last is {NEW}" in outcome.err
    assert names(folder / "saved") == [OLD, NEW]


@pytest.mark.parametrize(
    ("every", "words"),
    [
        ("often", "a number of iterations, such as 50, or of minutes, such as 10m, not 'often'"),
        ("0", "at least 1 iteration apart, not 0"),
        ("-1m", "must be positive, not -1"),
        ("nanm", "must be positive, not nan"),
    ],
)
def test_odd_intervals_are_refused(every: str, words: str, folder: Path, capsys: Capture) -> None:
    new = ("--checkpoint", folder / "new", f"--checkpoint-every={every}")
    outcome = run(capsys, "solve", folder / "a.npz", "--method", "daba", "--devices", "2", *new)
    assert outcome.code == 2
    assert words in outcome.err


def test_a_folder_that_cannot_be_is_refused_at_once(folder: Path, capsys: Capture) -> None:
    for path, words in (
        (folder / "a.npz" / "saved", f"{folder / 'a.npz'} is a file, not a folder"),
        (folder / "a.npz", "it is a file, and a checkpoint needs a folder"),
    ):
        outcome = run(capsys, "solve", folder / "a.npz", "--checkpoint", path)
        assert outcome.code == 2
        assert words in outcome.err


def test_checkpoints_by_the_clock(folder: Path, capsys: Capture) -> None:
    new = ("--checkpoint", folder / "new", "--checkpoint-every", "0.0000001m")
    solve = (
        "solve",
        folder / "a.npz",
        "--method",
        "daba",
        "--devices",
        "2",
        "--iterations",
        "3",
        "--quiet",
    )
    assert run(capsys, *solve, *new).code == 0
    assert names(folder / "new") == ["iteration-00000002", "iteration-00000003"]
