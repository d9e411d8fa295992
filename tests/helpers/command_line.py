"""What the tests of the command line share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import daba
from daba.problem.problem import Problem
from daba.tools.cli import main

BAL = [
    "2 2 4",
    "0 0 10 20",
    "0 1 -30 40",
    "1 0 5 -6",
    "1 1 7 8",
    "0 0 0 0 0 0 500 0 0",
    "0.1 0 0 0 0 0.5 600 0 0",
    "0.1 0.2 -5",
    "-0.3 0.4 -6",
]
"""A tiny file, line by line."""


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> Outcome:
    """Run `daba ARGV` in this process."""
    capsys.readouterr()
    code = main([str(argument) for argument in argv])
    return Outcome(code, *capsys.readouterr())


def start(*argv: str | Path, **options: object) -> subprocess.Popen[str]:
    """Start `daba ARGV` as a process of its own."""
    source = str(Path(daba.__file__).parents[1])
    environment = os.environ | {
        "PYTHONPATH": source,
        "PYTHONWARNINGS": "error,ignore::DeprecationWarning",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "daba", *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,  # type: ignore[call-overload]
    )


def small_scene(cameras: int = 8, points: int = 80) -> Problem:
    options = daba.SceneOptions(scene="orbit", cameras=cameras, points=points, seed=1)
    return daba.generate(options).start


def write_bal(path: Path, line: int = 0, text: str = "") -> Path:
    """The tiny file, with one line (counted from 1) replaced."""
    lines = BAL.copy()
    if line:
        lines[line - 1] = text
    path.write_text("\n".join(lines) + "\n")
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
