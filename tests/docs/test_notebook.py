"""The notebook runs, shows what it should, and is stored with what it shows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import small_scene

import daba
from daba.runtime.summary import curve
from run_notebook import NOTEBOOK, run_notebook


@pytest.mark.usefixtures("compiled")
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    ran, stored = run_notebook(), json.loads(NOTEBOOK.read_text("utf-8"))
    kinds = []
    for now, then in zip(ran["cells"], stored["cells"], strict=True):
        if now["cell_type"] == "code":
            found, kept = ([sorted(o.get("data", o)) for o in c["outputs"]] for c in (now, then))
            assert found == kept, "python docs/run_notebook.py writes what it shows"
            kinds += [kind for output in found for kind in output]
    assert kinds.count("text/html") == 2
    assert kinds.count("image/png") == 1
    for name in ("better.txt", "better.ply", "how.html"):
        assert (tmp_path / name).stat().st_size > 1000
    assert NOTEBOOK.stat().st_size < 150_000


@pytest.mark.usefixtures("compiled")
def test_results_show_themselves() -> None:
    scene = small_scene()
    problem = replace(scene, name="<script>x", info=scene.info | {"images": ["a"] * 8})
    result = daba.solve(problem, iterations=2)
    for shown in (problem._repr_html_(), result._repr_html_()):
        assert "<script" not in shown
        assert "&lt;script&gt;x: 8 images, 80 points" in shown
    assert f"rms {daba.pixel_error(problem).rms:.4g} px" in problem._repr_html_()
    assert result._repr_html_().count("<tr>") == len(result.rows())
    assert "<polyline" in result._repr_html_()
    assert (
        repr(problem) == f"<Problem <script>x: 8 images, 80 points, {len(problem.u)} observations>"
    )
    assert result.reason in repr(result)


def test_a_curve_of_costs() -> None:
    assert curve([1.0]) == curve([]) == curve([1.0, float("nan")]) == ""
    line = curve([100.0, 10.0, 1.0], width=100, height=54)
    assert 'points="0.0,2.0 50.0,27.0 100.0,52.0"' in line
    assert 'points="0.0,2.0 100.0,2.0"' in curve([5.0, 5.0], width=100)
