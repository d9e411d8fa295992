"""The pages about COLMAP models: every command in them runs, in its order."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from colmap_models import mean_error, perturbed, read, synthetic, written
from places import ROOT

from daba.tools.cli import main

HOW_TO = ROOT / "docs" / "how-to"


def follow(page: Path) -> None:
    """Run the commands and the Python of a page in the present folder; what is fenced as bash is
    of other tools, or installs something."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
    assert [kind for kind, _ in blocks].count("bash") == 1
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, str(page), "exec"), {})
        elif kind == "sh":
            for line in text.splitlines():
                program, *arguments = shlex.split(line)
                if program == "mv":
                    shutil.move(arguments[0], arguments[1])
                else:
                    assert program == "daba"
                    assert main(arguments) == 0, line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("daba.tools.viewer.serve.wait", lambda: None)
    return tmp_path


@pytest.mark.usefixtures("compiled")
def test_a_colmap_model(folder: Path) -> None:
    written(perturbed(synthetic("SIMPLE_RADIAL", points=80)), folder / "sparse" / "0")
    written(perturbed(synthetic(sensors=2, points=80)), folder / "sparse" / "rig")
    follow(HOW_TO / "colmap.md")
    start = mean_error(read(Path("sparse/0")))
    for name in ("ba", "robust", "shared", "cluster", "python"):
        assert mean_error(read(Path("sparse") / name)) < 0.2 * start


@pytest.mark.usefixtures("compiled")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:websockets")
def test_recipes_for_other_tools(folder: Path) -> None:
    pytest.importorskip("viser", reason="no viser here: pip install 'daba[viewer]'")
    model = perturbed(synthetic("SIMPLE_RADIAL", points=80))
    for name in ("data/colmap/sparse/0", "scene/sparse/0", "outputs/sfm"):
        written(model, folder / name)
    (folder / "data" / "images").mkdir()
    follow(HOW_TO / "coming-from.md")
    start = mean_error(model)
    for name in ("data/colmap/sparse/better", "scene/sparse/0", "outputs/sfm-better",
                 "outputs/sfm-python"):  # fmt: skip
        made = read(folder / name)
        assert mean_error(made) < 0.2 * start
        assert {i.image_id: i.name for i in made.images.values()} == {
            i.image_id: i.name for i in model.images.values()
        }
