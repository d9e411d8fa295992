"""A short campaign over every format; `make fuzz` runs long ones."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from random import Random

import kills
import pytest
from campaign import attempt, command_line, perform
from mutators import mutate_bytes
from subjects import SUBJECTS, Subject

pytest.importorskip("pycolmap", reason="pycolmap is not installed, which makes some examples")
pytestmark = [
    pytest.mark.usefixtures("compiled"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # numbers of 1e300 overflow
]
MUTANTS = 4
"""Of each format, in this process: a crash would be seen."""


@pytest.mark.parametrize("name", SUBJECTS)
def test_mutants(name: str, tmp_path: Path) -> None:
    example = tmp_path / "example"
    example.mkdir()
    with contextlib.redirect_stdout(io.StringIO()):
        made = SUBJECTS[name].make(example).relative_to(example)
    draw = Random(name)
    perform_unchanged(SUBJECTS[name], example, made, draw)
    for number in range(MUTANTS):
        assert attempt(name, number, 0, example, made, tmp_path / "mutant") == ""


def perform_unchanged(subject: Subject, example: Path, made: Path, draw: Random) -> None:
    """The example itself is right, or every mutant would be refused for the same reason."""
    argv = command_line(subject, example / made, example, draw)
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = perform(argv)
    told = [line for line in err.getvalue().splitlines() if "compil" not in line]
    assert (code, told) == (0, [])
    for path in example.glob("out*"):
        path.rename(example.parent / path.name)


def test_a_violation_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is not blind: a reader that fails in another way is told of."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    example = tmp_path / "example"
    example.mkdir()
    made = SUBJECTS["bal"].make(example).relative_to(example)
    monkeypatch.setattr("daba.io.formats.load", broken)
    monkeypatch.setattr("daba.io.formats.open_source", broken)
    monkeypatch.setattr("daba.io.store.streaming.open_source", broken)
    assert "exit code 1" in attempt("bal", 0, 0, example, made, tmp_path / "mutant")


@pytest.mark.slow
def test_kills() -> None:
    assert kills.campaign(2, seed=3) == []


def test_mutants_follow_from_their_seed() -> None:
    data = bytes(range(100))
    same = {mutate_bytes(data, Random("a")) for _ in range(3)}
    assert len(same) == 1
    assert len({mutate_bytes(data, Random(seed)) for seed in range(50)}) > 40
