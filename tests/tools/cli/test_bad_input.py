"""Bad input: one clear message, exit code 2, and no file that was not there before."""

from __future__ import annotations

import bz2
import os
import shlex
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from colmap_models import synthetic, written
from command_line import BAL, names, run, small_scene, start, write_bal

import daba
from daba.io.constraint_options import ConstraintOptions
from daba.tools.cli import COMMANDS, hints
from daba.tools.cli.arguments import flags_of
from daba.tools.cli.solve import SolveCommand, solve_flags

Capsys = pytest.CaptureFixture[str]


def refused(capsys: Capsys, folder: Path, *argv: str | Path) -> str:
    """The message of a command that must fail and leave the folder as it was."""
    before = {path: path.lstat().st_mtime_ns for path in folder.iterdir()}
    outcome = run(capsys, *argv)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert outcome.err.startswith("daba: error: ")
    assert {path: path.lstat().st_mtime_ns for path in folder.iterdir()} == before
    return outcome.err.removeprefix("daba: error: ")


@pytest.mark.parametrize("command", ["solve", "info", "partition", "convert"])
@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (3, "0 1 -30", "bad.txt, line 3: expected 4 values"),
        (4, "1 0 5 six", "bad.txt, line 4: 'six' is not a number"),
        (5, "1 1 7 nan", "bad.txt, line 5: NaN or infinite value 'nan'"),
        (9, "-0.3 inf -6", "bad.txt, line 9: NaN or infinite value 'inf'"),
        (2, "2 0 10 20", "bad.txt, line 2: camera index 2 is out of range"),
        (5, "1 7 7 8", "bad.txt, line 5: point index 7 is out of range"),
        (1, "2 3 4", "bad.txt: the file ends too early, after line 9"),
        (1, "2 2 5", "bad.txt, line 6: expected 4 values"),
        (7, "0.1 0 0 0 0 0.5 0 0 0", "bad.txt, line 7: camera 1: the focal length must be"),
        (6, "0 0 0 0 0 0 -500 0 0", "bad.txt, line 6: camera 0: the focal length must be"),
        (8, "0 0 0", "bad.txt: observation 0: point 0 lies on the centre of camera 0"),
        (9, "-0.3 0.4 -6 7", "bad.txt, line 9: '7' follows after the last point"),
    ],
)
def test_bad_files(
    command: str, line: int, text: str, expected: str, tmp_path: Path, capsys: Capsys
) -> None:
    path = write_bal(tmp_path / "bad.txt", line, text)
    rest: dict[str, list[str | Path]] = {
        "solve": ["--output", tmp_path / "out.txt", "--history", tmp_path / "h.json"],
        "info": ["--intrinsics", "standard"],
        "partition": ["--devices", "2"],
        "convert": [tmp_path / "out.npz"],
    }
    assert refused(capsys, tmp_path, command, path, *rest[command]).startswith(expected)


def test_cut_short(tmp_path: Path, capsys: Capsys) -> None:
    path = write_bal(tmp_path / "cut.txt")
    path.write_text(path.read_text()[:36])
    message = refused(capsys, tmp_path, "solve", path)
    assert message.startswith("cut.txt: the file ends after 3 of the 4 observations")
    packed = tmp_path / "cut.txt.bz2"
    packed.write_bytes(bz2.compress(write_bal(path).read_bytes())[:-20])
    assert "compressed file is damaged" in refused(capsys, tmp_path, "info", packed)


def test_files_that_are_not_there_or_not_known(tmp_path: Path, capsys: Capsys) -> None:
    assert "there is no such file" in refused(capsys, tmp_path, "info", tmp_path / "none.txt")
    (tmp_path / "a.jpg").touch()
    message = refused(capsys, tmp_path, "solve", tmp_path / "a.jpg")
    assert "unknown kind of file '.jpg'; known are .txt" in message
    (tmp_path / "folder.txt").mkdir()
    message = refused(capsys, tmp_path, "convert", tmp_path / "folder.txt", tmp_path / "b.txt")
    assert "it is a folder, not a file" in message


def test_a_wrong_path_is_told_before_what_is_wrong_with_the_output(
    tmp_path: Path, capsys: Capsys
) -> None:
    said = refused(capsys, tmp_path, "solve", tmp_path / "nowhere", "-o", tmp_path / "out")
    assert said == f"cannot read {tmp_path / 'nowhere'}: there is no such file or folder\n"


def test_a_file_of_a_model_instead_of_its_folder(tmp_path: Path, capsys: Capsys) -> None:
    model = written(synthetic(points=20), tmp_path / "model")
    for part in ("cameras", "images", "points3D"):
        said = refused(capsys, tmp_path, "solve", model / f"{part}.bin", "-o", tmp_path / "s.npz")
        assert f"part of a COLMAP model: give its folder, {model}" in said


def test_more_devices_than_cameras(tmp_path: Path, capsys: Capsys) -> None:
    daba.save(small_scene(), tmp_path / "a.npz")
    for command in ("solve", "partition"):
        message = refused(capsys, tmp_path, command, tmp_path / "a.npz", "--devices", "9")
        assert message.startswith("9 devices but only 8 cameras")
        message = refused(capsys, tmp_path, command, tmp_path / "a.npz", "--devices", "0")
        assert "devices must be at least 1" in message


@pytest.mark.parametrize("flag", ["--output", "--history", "--plot"])
def test_outputs_are_checked_before_anything_is_read(
    flag: str, tmp_path: Path, capsys: Capsys
) -> None:
    name = {"--output": "s.txt", "--history": "h.json", "--plot": "p.png"}[flag]
    argv = ("solve", tmp_path / "not-there.txt", flag)
    (tmp_path / "file").touch()
    message = refused(capsys, tmp_path, *argv, tmp_path / "file" / name)
    assert f"{tmp_path / 'file'} is a file, not a folder" in message
    (tmp_path / name).mkdir()
    assert "it is a folder" in refused(capsys, tmp_path, *argv, tmp_path / name)


def test_outputs_of_unknown_kinds(tmp_path: Path, capsys: Capsys) -> None:
    path = write_bal(tmp_path / "a.txt")
    cases: list[tuple[list[str | Path], str]] = [
        (["solve", path, "--output", tmp_path / "s.obj"], "unknown kind of file '.obj'"),
        (["solve", path, "--plot", tmp_path / "p.jpg"], "a plot is written as .png, .svg, .pdf"),
        (["convert", path, tmp_path / "s.obj"], "unknown kind of file '.obj'"),
        (["synth", tmp_path / "s.obj"], "unknown kind of file '.obj'"),
        (["synth", tmp_path / "s.txt", "--truth", tmp_path / "t"], "unknown kind of file ''"),
        (["synth", path / "s.txt"], "is a file, not a folder"),
        (["convert", path, path / "s.txt"], "is a file, not a folder"),
    ]
    for argv, expected in cases:
        assert expected in refused(capsys, tmp_path, *argv)


def test_the_same_output_twice(tmp_path: Path, capsys: Capsys) -> None:
    path = write_bal(tmp_path / "a.txt")
    out = tmp_path / "s.txt"
    message = refused(capsys, tmp_path, "solve", path, "--output", out, "--output", out)
    assert "is to be written twice" in message


def test_no_permission(tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_bal(tmp_path / "a.txt")
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    outputs = {"--output": "s.txt", "--history": "h.json", "--report": "r.html", "--plot": "p.png"}
    outputs |= {name: "folder" for name in ("--log", "--record", "--checkpoint")}
    for option, name in outputs.items():
        message = refused(capsys, tmp_path, "solve", path, option, tmp_path / name)
        assert message.startswith(f"cannot write {tmp_path / name}: permission denied")


@pytest.mark.usefixtures("compiled")
def test_a_full_disk(tmp_path: Path, capsys: Capsys) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    daba.save(small_scene(), tmp_path / "a.npz")
    (tmp_path / "s.txt").symlink_to("/dev/full")
    argv = ("solve", tmp_path / "a.npz", "--iterations", "1", "--output", tmp_path / "s.txt")
    outcome = run(capsys, *argv, "--history", tmp_path / "h.json")
    assert outcome.code == 2
    assert "s.txt: the disk is full" in outcome.err
    assert names(tmp_path) == ["a.npz", "h.json", "s.txt"]  # what could be written was
    message = refused(capsys, tmp_path, "convert", tmp_path / "a.npz", tmp_path / "s.txt")
    assert "the disk is full" in message


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--split", "1.5"], "split must lie between 0 and 1, not 1.5"),
        (["--eta", "0"], "eta must lie in (0, 1], not 0.0"),
        (["--iterations", "-3"], "iterations must not be negative"),
        (["--loss", "huber", "--loss-radius", "-1"], "the radius of loss 'huber' must be positive"),
        (["--threads", "0"], "threads must be at least 1"),
        (["--threads", "100000"], "threads must be at least 1 and at most 1024, not 100000"),
        (["--max-seconds", "nan"], "max_seconds must be a number of at least 0, not nan"),
        (["--max-seconds", "-1"], "max_seconds must be a number of at least 0, not -1"),
        (["--patience", "0"], "patience must be at least 1"),
        (["--devices", "1e9"], "--devices takes a whole number, not '1e9'"),
        (["--output", ""], "--output takes a path, not ''"),
        (["--output"], "--output needs a value: a path"),
        (["--momentum-reset", "perhaps"], "--momentum-reset takes true or false, not 'perhaps'"),
        (["--loss", "l3"], "--loss is one of trivial, huber, "),
        (["--lm-radius", "0"], "lm_radius must be positive"),
    ],
)
def test_impossible_options(
    flags: list[str], expected: str, tmp_path: Path, capsys: Capsys
) -> None:
    path = write_bal(tmp_path / "a.txt")
    assert expected in refused(capsys, tmp_path, "solve", path, *flags)


def test_impossible_scenes(tmp_path: Path, capsys: Capsys) -> None:
    message = refused(capsys, tmp_path, "synth", tmp_path / "a.txt", "--cameras", "1")
    assert "a scene needs at least 2 cameras, not 1" in message


@pytest.mark.parametrize(
    "argv",
    [
        ["solve"],
        ["solve", "a.txt", "--no-such-flag"],
        ["solve", "a.txt", "--iterations", "many"],
        ["solve", "a.txt", "--method", "magic"],
        ["solve", "a.txt", "--loss", "l3"],
        ["info", "a.txt", "--intrinsics", "brown"],
        ["partition", "a.txt"],
        ["convert", "a.txt"],
        ["synth"],
    ],
)
def test_flags_that_do_not_exist(argv: list[str], capsys: Capsys) -> None:
    outcome = run(capsys, *argv)
    assert outcome.code == 2
    assert outcome.err
    assert "Traceback" not in outcome.err


def test_commands_that_do_not_exist(tmp_path: Path, capsys: Capsys) -> None:
    message = refused(capsys, tmp_path, "sovle")
    assert message == "there is no command 'sovle'; did you mean 'solve'?\n"
    assert "the commands are solve, info" in refused(capsys, tmp_path, "xyz")


@pytest.mark.parametrize(
    ("argv", "answer"),
    [
        ("solve M out/x", "to write the solution there: daba solve M -o out/x"),
        ("solve M --devices 2 'my model'", "daba solve M --devices 2 -o 'my model'"),
        ("solve M -o a b", "'b' is one argument too many; see daba solve --help"),
        ("convert a b c", "'c' is one argument too many; see daba convert --help"),
        ("bundle_adjuster --input_path A --output_path=B", "here it is: daba solve A -o B"),
        ("bundle_adjuster", "here it is: daba solve IN -o OUT"),
        ("model_converter --input_path A --output_path B", "here it is: daba convert A B"),
        ("model_analyzer --path A", "here it is: daba info IN"),
        ("gui", "here it is: daba view IN"),
        ("solve --input_path A", "the problem is given alone, as in daba solve IN"),
        ("solve M --output_path B", "no option --output_path; did you mean --output?"),
        ("solve M --BundleAdjustment.max_num_iterations 9", "did you mean --iterations?"),
        ("solve M --num_threads=9", "no option --num_threads; did you mean --threads?"),
        ("solve M --xyz", "daba solve has no option --xyz; see daba solve --help-all"),
        ("solve M --loss-radius 4", "--loss-radius 4 needs a robust loss: say which"),
    ],
)
def test_slips_and_words_of_other_tools(
    argv: str, answer: str, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refused(capsys, tmp_path, *shlex.split(argv))
    assert answer in message
    assert message.count("\n") == 1


def test_the_words_of_other_tools_lead_to_ours() -> None:
    assert set(hints.COMMANDS.values()) <= set(COMMANDS)
    assert not set(hints.COMMANDS) & set(COMMANDS)
    ours = {*solve_flags(), *SolveCommand.__dataclass_fields__, *flags_of(ConstraintOptions)}
    assert set(hints.OPTIONS.values()) <= ours | {"IN"}


def test_a_numerically_broken_problem(tmp_path: Path, capsys: Capsys) -> None:
    problem = small_scene()
    cameras = problem.cameras.copy()
    cameras[3, :9] = 2.0
    daba.save(replace(problem, cameras=cameras), tmp_path / "a.npz")
    message = refused(capsys, tmp_path, "solve", tmp_path / "a.npz")
    assert message.startswith("a.npz: camera 3: its rotation matrix is not a rotation")


def test_weights_of_another_file_are_a_warning(tmp_path: Path, capsys: Capsys) -> None:
    problem = small_scene()
    cameras = problem.cameras.copy()
    cameras[:, 12] = 1.1
    daba.save(replace(problem, cameras=cameras), tmp_path / "a.txt")
    text = (tmp_path / "a.txt.weights.json").read_text()
    (tmp_path / "a.txt.weights.json").write_text(text.replace('"focal": [', '"focal": [1.0, '))
    outcome = run(capsys, "info", tmp_path / "a.txt", "--intrinsics", "standard")
    assert outcome.code == 0
    assert outcome.err.startswith("daba: warning: a.txt.weights.json is ignored: it belongs to")


def test_bugs_are_told_apart(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr("daba.io.formats.load", broken)
    outcome = run(capsys, "info", write_bal(tmp_path / "a.txt"))
    assert outcome.code == 1
    assert "RuntimeError: oops" in outcome.err
    assert "this is a bug in daba" in outcome.err


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, '{"format": "daba store"', "\udc80"])
def test_json_that_python_does_not_read(text: str, tmp_path: Path, capsys: Capsys) -> None:
    data = text.encode("utf-8", "surrogateescape")
    (tmp_path / "run.json").write_bytes(data)
    assert "run.json" in refused(capsys, tmp_path, "report", tmp_path / "run.json")
    (tmp_path / "store.daba").mkdir()
    (tmp_path / "store.daba" / "manifest.json").write_bytes(data)
    assert "store.daba" in refused(capsys, tmp_path, "info", tmp_path / "store.daba")


@pytest.mark.parametrize("option", ["--log", "--record", "--checkpoint"])
def test_a_folder_that_has_the_name_of_a_file(option: str, tmp_path: Path, capsys: Capsys) -> None:
    """Its files would be there before the solution, which would then have no place."""
    scene = write_bal(tmp_path / "scene.txt")
    for folder in (tmp_path / "s.txt", tmp_path / "s.txt" / "below"):
        said = refused(capsys, tmp_path, "solve", scene, "-o", tmp_path / "s.txt", option, folder)
        assert "is to be a folder, and" in said


def test_start_and_truth_have_names_of_their_own(tmp_path: Path, capsys: Capsys) -> None:
    one = tmp_path / "scene.txt"
    assert "written twice" in refused(capsys, tmp_path, "synth", one, "--truth", one)


def test_a_link_to_itself(tmp_path: Path, capsys: Capsys) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to(link)
    assert "link.txt" in refused(capsys, tmp_path, "info", link)
    assert "link.txt" in refused(capsys, tmp_path, "report", link, "--output", tmp_path / "p.html")
    scene = write_bal(tmp_path / "scene.txt")
    assert run(capsys, "solve", scene, "--iterations", "1", "--output", link).code == 0
    assert daba.load(link, intrinsics="standard").num_cameras == 2


@pytest.mark.parametrize(("good", "code"), [(True, 0), (False, 2)])
def test_a_pipe_is_waited_for_with_a_word(
    good: bool, code: int, tmp_path: Path, capsys: Capsys
) -> None:
    """It is read once: what is wrong in it cannot be looked for again."""
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    text = "\n".join(BAL[: 9 if good else 4])
    writer = Thread(target=pipe.write_text, args=(text,))
    writer.start()
    outcome = run(capsys, "info", pipe)
    writer.join(60)
    assert outcome.code == code
    assert "pipe.txt is a pipe: waiting for what is written into it" in outcome.err
    assert good or "pipe.txt: what came out of the pipe is no BAL file" in outcome.err


def test_pipes_among_the_files_of_a_store(tmp_path: Path, capsys: Capsys) -> None:
    daba.save(small_scene(), tmp_path / "store.daba")
    points = tmp_path / "store.daba" / "device-0000" / "points.npy"
    points.unlink()
    os.mkfifo(points)
    assert "points.npy is a pipe" in refused(capsys, tmp_path, "info", tmp_path / "store.daba")


def test_a_system_that_knows_ascii_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own sources are UTF-8 whatever the system thinks that text is."""
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONUTF8", "0")
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")
    problem = write_bal(tmp_path / "scene.txt")
    process = start("solve", problem, "--output", tmp_path / "s.txt", "--iterations", "2")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
