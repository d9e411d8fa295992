"""What a solve writes, whatever names are in the file and whatever happens while it writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import names, run, small_scene

import daba

Capsys = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("compiled")

ODD_NAMES = ["a\udcff.jpg", "\ud800", "\x1b[31mred", r"$\frac$", "ä", "<b>", "", " "]
"""A byte that is not UTF-8, half a character, a terminal's command, a formula, …"""


def test_names_that_are_not_text(tmp_path: Path, capsys: Capsys) -> None:
    problem = small_scene()
    problem = replace(problem, name="".join(ODD_NAMES), info=problem.info | {"images": ODD_NAMES})
    daba.save(problem, tmp_path / "a.npz")
    outputs = ["s.out", "s.txt", "s.npz", "s.ply", "s.daba"]
    argv = [option for name in outputs for option in ("--output", tmp_path / name)]
    outcome = run(
        capsys, "solve", tmp_path / "a.npz", "--iterations", "2", *argv,
        "--history", tmp_path / "h.json", "--report", tmp_path / "r.html",
        "--plot", tmp_path / "p.svg", "--log", tmp_path / "log",
    )  # fmt: skip
    assert (outcome.code, outcome.err) == (0, "")
    history = json.loads((tmp_path / "h.json").read_text())
    assert history["problem"]["name"] == problem.name
    assert daba.load(tmp_path / "s.npz").info["images"] == ODD_NAMES
    assert b"a\xff.jpg\n\\ud800\n" in (tmp_path / "list.txt").read_bytes()
    page = (tmp_path / "r.html").read_text()
    outcome = run(capsys, "report", tmp_path / "h.json", "--output", tmp_path / "again.html")
    assert (outcome.code, outcome.err) == (0, "")
    assert (tmp_path / "again.html").read_text() == page


def test_a_bug_in_one_output_does_not_cost_the_others(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("oops")

    daba.save(small_scene(), tmp_path / "a.npz")
    monkeypatch.setattr("daba.tools.report.run_report.write_report", broken)
    outcome = run(
        capsys, "solve", tmp_path / "a.npz", "--iterations", "1", "--report", tmp_path / "r.html",
        "--output", tmp_path / "s.txt", "--plot", tmp_path / "p.png",
    )  # fmt: skip
    assert (outcome.code, "RuntimeError: oops" in outcome.err) == (1, True)
    assert names(tmp_path) == ["a.npz", "p.png", "s.txt", "s.txt.weights.json"]
