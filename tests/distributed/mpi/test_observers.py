"""On several processes a callback, a log or a recording that fails costs nobody the result, and
all agree that the start is better."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jobs import Job, bits, needs_mpi, read_history, run, scene

import daba

pytestmark = [needs_mpi, pytest.mark.usefixtures("compiled")]

CLIMBING = Path(__file__).parents[2] / "helpers" / "climbing.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    daba.save(scene(), tmp_path / "a.npz")
    return tmp_path


def test_the_start_is_returned_by_all(folder: Path) -> None:
    command = ["solve", folder / "a.npz", "--devices", 5, "--method", "daba", "--iterations", 4]
    command += ["--output", folder / "b.npz", "--history", folder / "h.json"]
    outcome = Job(3, [CLIMBING, *command]).wait()
    assert outcome.code == 0, outcome.err
    assert bits(folder / "b.npz") == bits(folder / "a.npz")
    entries = read_history(folder / "h.json")
    assert entries[-2]["objective"] > 2 * entries[0]["objective"]
    assert entries[-1]["objective"] == entries[0]["objective"]
    [note] = json.loads((folder / "h.json").read_text())["result"]["notes"]
    assert note.startswith("F had risen by")


def test_logs_on_a_full_disk(folder: Path) -> None:
    """On one of the processes."""
    (folder / "log").mkdir()
    (folder / "log" / "rank-0001.log").symlink_to("/dev/full")
    out = folder / "b.npz"
    command = (
        "solve",
        folder / "a.npz",
        "--devices",
        5,
        "--method",
        "daba",
        "--iterations",
        4,
        "--output",
        out,
    )
    outcome = run(3, *command, "--log", folder / "log")
    assert outcome.code == 0, outcome.err
    assert "the log failed and is switched off" in outcome.err
    assert out.exists()
    assert len((folder / "log" / "rank-0002.log").read_text().splitlines()) == 6


def test_a_recording_that_fails_on_its_way(folder: Path) -> None:
    """A folder stands where the third snapshot belongs."""
    film = folder / "film"
    out = folder / "b.npz"
    script = f"""
import sys
from pathlib import Path
from daba.runtime.recording import Recorder
from daba.tools.cli import main
report = Recorder.report
def stumble(self, loop):
    if loop.comm.rank == 0 and loop.iteration == 2:
        (Path({str(film)!r}) / "iteration-00000002.npz").mkdir()
    report(self, loop)
Recorder.report = stumble
sys.exit(main())
"""
    (folder / "script.py").write_text(script)
    command = [
        "solve",
        folder / "a.npz",
        "--devices",
        5,
        "--method",
        "daba",
        "--iterations",
        4,
        "--output",
        out,
    ]
    outcome = Job(3, [folder / "script.py", *command, "--record", film]).wait()
    assert outcome.code == 0, outcome.err
    assert "the recording failed and is switched off" in outcome.err
    assert out.exists()
    assert not (film / "iteration-00000004.npz").exists()
