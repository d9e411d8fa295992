"""docs/how-to/colmap.md: every command in it runs, in its order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from colmap_models import mean_error, perturbed, read, synthetic, written
from places import ROOT

from daba.tools.cli import main

PAGE = ROOT / "docs" / "how-to" / "colmap.md"


@pytest.mark.usefixtures("compiled")
def test_everything_on_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(perturbed(synthetic("SIMPLE_RADIAL", points=80)), tmp_path / "sparse" / "0")
    written(perturbed(synthetic(sensors=2, points=80)), tmp_path / "sparse" / "rig")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert [kind for kind, _ in blocks].count("bash") == 1  # how it is installed
    for kind, text in blocks:
        if kind == "bash":
            continue
        if kind == "python":
            exec(compile(text, str(PAGE), "exec"), {})
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "daba"
            assert main(arguments) == 0, line
    capsys.readouterr()
    start = mean_error(read(Path("sparse/0")))
    for name in ("ba", "robust", "shared", "cluster", "python"):
        assert mean_error(read(Path("sparse") / name)) < 0.2 * start
