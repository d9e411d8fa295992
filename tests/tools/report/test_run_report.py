"""The page about runs: complete, on its own, and clear about what it cannot use."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daba
from daba.core.camera_models import MODELS, PARAMETERS
from daba.problem.intrinsics import forward_model
from daba.problem.optics import Optics
from daba.tools.cli import main
from daba.tools.cli.console import to_json
from daba.tools.report.lenses import lens_changes
from daba.tools.report.overview import record
from daba.tools.report.runs import make_runs, read_run

Capsys = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("histories")
    start = daba.generate(daba.SceneOptions(cameras=14, points=300, seed=3)).start
    paths = []
    for devices in (1, 3):
        result = daba.solve(
            start, method="daba", devices=devices, iterations=6, loss=daba.Huber(4.0)
        )
        paths.append(folder / f"on-{devices}.json")
        paths[-1].write_text(to_json(record(result)))
    return paths


class Balanced(HTMLParser):
    """Fails on a tag that is not closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page_of(path: Path) -> tuple[str, str]:
    page = path.read_text("utf-8")
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    return page, " ".join(" ".join(parser.text).split())


def test_the_error_that_colmap_reports(histories: list[Path], tmp_path: Path) -> None:
    data = json.loads(histories[0].read_text())
    data["result"]["colmap"] = {"start_px": 2.5, "mean_px": 0.75}
    (tmp_path / "run.json").write_text(json.dumps(data))
    assert main(["report", str(tmp_path / "run.json"), "-o", str(tmp_path / "page.html")]) == 0
    text = page_of(tmp_path / "page.html")[1]
    assert "2.5 → 0.75 px mean reprojection error, as COLMAP reports it" in text


def test_one_run(histories: list[Path], tmp_path: Path, capsys: Capsys) -> None:
    target = tmp_path / "one.html"
    assert main(["report", str(histories[1]), "--output", str(target)]) == 0
    assert capsys.readouterr().out.strip() == str(target)
    page, text = page_of(target)
    data = json.loads(histories[1].read_text())
    last = data["iterations"][-1]
    assert f"{last['mean_objective']:.6g}" in text
    assert data["result"]["reason"] in text
    for words in (
        "14 cameras, 300 points", "Seen from above", "sparse Cholesky", "Peak memory",
        "pixel error", "Worst cameras", "loss huber, loss_radius 4", "numpy", "Devices: daba",
        "Intrinsics",
    ):  # fmt: skip
        assert words in text, words
    made, rounds = last["iteration"], sum(entry["rounds"] for entry in data["iterations"])
    assert f"{rounds:,} ({rounds / made:.3g})" in text
    for words in ("Filtered", "Work"):  # nothing to say of them
        assert f"<h2>{words}</h2>" not in page
    px = [data["result"][name]["rms"] for name in ("start_pixel_error", "pixel_error")]
    assert f"{px[0]:.3g} → {px[1]:.3g} px" in text
    assert 'class="worse"' not in page
    for camera in data["overview"]["worst_cameras"]:
        assert f">{camera['solution']:.4g}</td>" in page
    assert len(page) < 600_000


def test_the_page_needs_nothing_else(histories: list[Path], tmp_path: Path) -> None:
    daba.write_report([read_run(path) for path in histories], tmp_path / "a.html")
    page, _ = page_of(tmp_path / "a.html")
    assert not re.search(r"<(script|link|iframe|object)\b|@import|url\(\s*['\"]?(?!#)", page)
    used = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert used
    assert all(address.startswith(("#", "data:image/png")) for address in used)


def test_several_runs_stand_side_by_side(histories: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "both.html"
    argv = ["report", *map(str, histories), "--output", str(target), "--names", "alone", "<three>"]
    assert main(argv) == 0
    _, text = page_of(target)
    assert "2 runs side by side: alone; <three>" in text
    lows = [json.loads(p.read_text())["iterations"][-1]["mean_objective"] for p in histories]
    for low in lows:
        assert f"{low:.6g}" in text


def test_names_tell_runs_apart(histories: list[Path]) -> None:
    both = [read_run(path) for path in histories]
    assert [run.name for run in make_runs(both)] == ["lm", "daba, 3 devices"]
    assert [run.name for run in make_runs([both[1], both[1]])] == ["1: on-3", "2: on-3"]


def test_results_can_be_reported_at_once(tmp_path: Path) -> None:
    start = daba.generate(daba.SceneOptions(cameras=6, points=60, seed=3)).start
    daba.write_report([daba.solve(start, iterations=0)], tmp_path / "a.html")
    assert "solved by Levenberg–Marquardt (lm)." in page_of(tmp_path / "a.html")[1]


def test_what_got_worse_is_red(histories: list[Path], tmp_path: Path) -> None:
    data = json.loads(histories[1].read_text())
    errors, worst = data["overview"]["errors"], data["overview"]["worst_cameras"]
    errors["start"], errors["solution"] = errors["solution"], errors["start"]
    worst[2]["start"] = 0.5 * worst[2]["solution"]
    daba.write_report([data], tmp_path / "a.html")
    page, _ = page_of(tmp_path / "a.html")
    assert '<div class="card worse">' in page
    assert f'<td class="worse">{worst[2]["solution"]:.4g}</td>' in page
    assert page.count('class="worse"') == 1 + 3  # that image; rms twice, and the mean


def test_what_was_filtered_and_how_lenses_changed(tmp_path: Path) -> None:
    start = daba.generate(daba.SceneOptions(cameras=6, points=60, outliers=0.05, seed=4)).start
    names = [f"<i>{n}</i>.jpg" for n in range(6)]
    start = replace(start, info=start.info | {"images": names, "image_ids": np.arange(6) + 10})
    result = daba.solve(start, iterations=5, filter=20.0)
    assert result.dropped is not None
    daba.write_report([result], tmp_path / "a.html")
    _, text = page_of(tmp_path / "a.html")
    assert f"dropped: {result.dropped.observations} observations (" in text
    assert "most dropped in: <i>" in text
    assert "Worst images" in text
    assert "6 images" in text
    assert "image id observations start, px solution, px <i>" in text
    before, after = (forward_model(p)[:, 0] for p in (start, result.problem))
    most = int(np.argmax(np.abs(after / before - 1)))
    row = f"{most} RADIAL 1 f {before[most]:.6g} {after[most]:.6g} "
    assert row + f"{100 * (after[most] / before[most] - 1):+.2f} %" in text
    still = replace(start, free_cameras=np.repeat([[True] * 6 + [False] * 3], 6, axis=0))
    daba.write_report([daba.solve(still, iterations=2)], tmp_path / "b.html")
    assert "Intrinsics" not in page_of(tmp_path / "b.html")[1]


def test_lenses_of_other_models_and_cameras_that_images_share() -> None:
    """OPENCV and SIMPLE_RADIAL, camera by camera, with COLMAP's ids; what stays is not listed."""
    start = daba.generate(daba.SceneOptions(cameras=5, points=60, seed=3)).start
    models = np.array([MODELS[name].id for name in ("OPENCV", "SIMPLE_RADIAL", "PINHOLE")])
    params = np.zeros((3, PARAMETERS))
    params[:, :4] = 500.0, 510.0, 320.0, 240.0
    params[1, 3] = 0.01
    camera = np.array([0, 0, 0, 1, 2], np.int32)
    optics = Optics(camera, models.astype(np.int32), params, params > 0, start.pixels)
    was = replace(start, given_optics=optics, info=start.info | {"camera_ids": [7, 3, 5]})
    moved = params.copy()
    moved[0, 6] = 1e-4  # p1
    moved[1, [0, 3]] = 505.0, 0.02
    now = was.changed(given_optics=replace(optics, params=moved))
    assert lens_changes(was, now) == [
        {"camera": 3, "model": "SIMPLE_RADIAL", "images": 1, "parameters": ["f", "k"],
         "start": [500.0, 0.01], "solution": [505.0, 0.02]},
        {"camera": 7, "model": "OPENCV", "images": 3, "parameters": ["p1"],
         "start": [0.0], "solution": [1e-4]},
    ]  # fmt: skip
    assert lens_changes(was, was) == []


def test_a_history_without_an_overview(histories: list[Path], tmp_path: Path) -> None:
    """As `Result.to_dict` gives it: what is not there is said."""
    data = json.loads(histories[1].read_text())
    del data["overview"]
    daba.write_report([data], tmp_path / "a.html")
    _, text = page_of(tmp_path / "a.html")
    assert text.count("Not recorded in daba, 3 devices") == 1


def drop(*keys: str) -> Any:
    def change(data: Any) -> None:
        for key in keys[:-1]:
            data = data[key]
        del data[keys[-1]]

    return change


def put(value: Any, *keys: Any) -> Any:
    def change(data: Any) -> None:
        for key in keys[:-1]:
            data = data[key]
        data[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop("iterations"), "'iterations' is missing"),
        (put([], "iterations"), "no iterations"),
        (put("x", "iterations", 0, "seconds"), "could not convert string"),
        (put(None, "iterations", 0, "seconds"), "no time"),
        (put(1e308, "iterations", 0, "seconds"), "no solve tells a number like 1e+308"),
        (put(float("inf"), "iterations", 0, "bytes_sent"), "no solve tells a number like inf"),
        (drop("options", "devices"), "'devices' is missing"),
        (drop("overview", "map"), "'map' is missing"),
        (put("!!", "overview", "map", "points"), "base64"),
        (put([1, 2], "overview", "errors", "start", "counts"), "2 counts, not 52"),
        (put([1], "overview", "devices", "inter"), "different counts"),
        (put(3, "ranks"), "not a history of daba"),
    ],
)
def test_what_is_no_history_is_named(
    change: Any, words: str, histories: list[Path], tmp_path: Path, capsys: Capsys
) -> None:
    data = json.loads(histories[1].read_text())
    change(data)
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(data))
    assert main(["report", str(path), "--output", str(tmp_path / "a.html")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"daba: error: {path}")
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize("text", ["", "[1, 2", "3", '{"a": 1}', "[]", "\x00\x01"])
def test_what_is_no_json_is_named(text: str, tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)
    assert main(["report", str(path), "--output", str(tmp_path / "a.html")]) == 2
    assert str(path) in capsys.readouterr().err


def test_bad_requests(histories: list[Path], tmp_path: Path, capsys: Capsys) -> None:
    one = str(histories[0])
    for argv, words in (
        (["report"], "RUN.json is missing: Histories, as daba solve --history writes them."),
        (["report", str(tmp_path / "none.json")], "there is no such file"),
        (["report", str(tmp_path)], "it is a folder"),
        (["report", one, "--names", "a", "b"], "2 names for 1 runs"),
        (["report", one, "--output", one], "somewhere else"),
        (["report", one, "--output", f"{one}/a.html"], "is a file, not a folder"),
    ):
        assert main(argv) == 2
        assert words in capsys.readouterr().err


def test_solve_writes_history_and_page(tmp_path: Path, capsys: Capsys) -> None:
    scene = tmp_path / "a.npz"
    daba.save(daba.generate(daba.SceneOptions(cameras=8, points=80, seed=3)).start, scene)
    argv = ["solve", str(scene), "--devices", "2", "--iterations", "3"]
    argv += ["--history", str(tmp_path / "h.json"), "--report", str(tmp_path / "r.html")]
    assert main(argv) == 0
    capsys.readouterr()
    again = tmp_path / "again.html"
    assert main(["report", str(tmp_path / "h.json"), "--output", str(again), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert again.read_text() == (tmp_path / "r.html").read_text()
