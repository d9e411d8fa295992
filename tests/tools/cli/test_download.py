"""`daba download`, from a server on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import names, run
from web_server import Server, running

import daba

Capsys = pytest.CaptureFixture[str]
FILE = "ladybug-49-7776-pre.txt.bz2"
PATH = "/ladybug/problem-49-7776-pre.txt.bz2"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with running() as server:
        monkeypatch.setenv("DABA_MIRROR", server.address)
        yield server


@pytest.fixture
def real_server(server: Server, real_file: Callable[[str], Path]) -> Server:
    server.files[PATH] = real_file(FILE).read_bytes()
    return server


def test_a_real_problem(
    real_server: Server, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    outcome = run(capsys, "download", "ladybug-49")
    assert outcome.code == 0, outcome.err
    path = Path(outcome.out.strip())
    assert path == tmp_path / "cache" / "daba" / "datasets" / FILE
    assert "ladybug-49  0.4 MB of 0.4 MB  100 %  checking" in outcome.err
    assert daba.load(path).num_observations == 31843
    again = run(capsys, "download", "ladybug-49")
    assert (again.code, again.out, again.err) == (0, outcome.out, "")
    assert len(real_server.requests) == 1
    listed = json.loads(run(capsys, "download", "--list", "--json").out)
    assert [entry["name"] for entry in listed if entry["path"]] == ["ladybug-49"]


def test_into_a_folder_quietly(real_server: Server, tmp_path: Path, capsys: Capsys) -> None:
    folder = tmp_path / "data"
    outcome = run(capsys, "download", "ladybug-49", "--output", folder, "--quiet", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out) == {"ladybug-49": str(folder / FILE)}
    assert names(folder) == [FILE]


def test_the_mirror_on_the_command_line_goes_first(
    real_server: Server, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DABA_MIRROR", "http://127.0.0.1:1")
    argv = ("download", "ladybug-49", "--output", tmp_path, "--mirror", real_server.address)
    assert run(capsys, *argv).code == 0


def test_errors_are_one_line(server: Server, tmp_path: Path, capsys: Capsys) -> None:
    for argv, words in (
        (("ladybug-49",), f"{server.address}{PATH}: the server answers 404 Not Found"),
        (("ladybug-48",), "there is no problem 'ladybug-48' in the collection; did you mean"),
        ((), "give the name of a problem"),
        (("ladybug-49", "--list"), "not both"),
        (("ladybug-49", "--mirror", "http://127.0.0.1:1"), "cannot download http://127.0.0.1:1/"),
    ):
        outcome = run(capsys, "download", *argv)
        assert outcome.code == 2
        assert outcome.out == ""
        assert outcome.err.startswith("daba: error: ")
        assert words in outcome.err
        assert outcome.err.count("\n") == 1


def test_list(server: Server, capsys: Capsys) -> None:
    outcome = run(capsys, "download", "--list")
    assert outcome.code == 0
    rows = {line.split()[0]: line.split()[1:] for line in outcome.out.splitlines() if line.strip()}
    assert rows["ladybug-49"] == ["49", "7,776", "31,843"]
    assert rows["final-13682"] == ["13,682", "4,456,117", "28,987,644", "Final"]
    assert rows["venice-1776"] == ["1,776", "993,909"]
    assert "98 problems; downloads are kept in" in outcome.out
    assert server.requests == []


def test_help(capsys: Capsys) -> None:
    outcome = run(capsys, "download", "--help")
    assert outcome.code == 0
    assert "  daba download ladybug-49" in outcome.out
    assert "download" in run(capsys).out
