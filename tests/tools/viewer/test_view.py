"""The viewer's server: what the page would show, asked of the server itself, without a browser."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daba
from daba.problem.problem import Problem
from daba.runtime.recording import Recorder, read_recording
from daba.tools.cli import main

pytest.importorskip("viser", reason="no viser here: pip install 'daba[viewer]'")
from daba.tools.viewer import paint, scene, serve
from daba.tools.viewer.subject import subject_of, subject_of_recording
from daba.tools.viewer.thumbnails import Thumbnails

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:websockets")
Capsys = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def before() -> Problem:
    problem = daba.generate(daba.SceneOptions(cameras=14, points=250, seed=6)).start
    problem.info["images"] = [f"image-{n}.jpg 0 500" for n in range(14)]
    return problem


@pytest.fixture(scope="module")
def after(before: Problem) -> Problem:
    return daba.solve(before, iterations=10).problem


@pytest.fixture
def view(before: Problem, after: Problem) -> Iterator[serve.View]:
    view = serve.View(subject_of(before, after, devices=4), port=0)
    yield view
    view.stop()


def shown(view: serve.View) -> np.ndarray:
    """Places of the points, in their own order."""
    places = np.empty((250, 3), np.float32)
    for handle, batch in zip(view.scene._points, view.scene.batches, strict=True):
        places[batch] = handle.points
    return places


def colours(view: serve.View) -> np.ndarray:
    of = np.empty((250, 3), np.uint8)
    for handle, batch in zip(view.scene._points, view.scene.batches, strict=True):
        of[batch] = handle.colors
    return of


def test_the_page_is_served(view: serve.View) -> None:
    with urllib.request.urlopen(view.address, timeout=30) as answer:
        assert answer.status == 200
        assert b"<html" in answer.read().lower()
    assert f"ssh -L {view.port}:localhost:{view.port}" in view.how_to_reach()


def test_a_taken_port_is_passed_over(view: serve.View, after: Problem) -> None:
    other = serve.View(subject_of(after), port=view.port)
    try:
        assert view.port < other.port < view.port + 50
    finally:
        other.stop()


def test_points_and_cameras(view: serve.View, after: Problem) -> None:
    np.testing.assert_array_equal(shown(view), view.scene.placing(after.points))
    lines = view.scene._cameras[0].points
    assert lines.shape == (14 * 8, 2, 3)  # one set of lines for all cameras
    centres = view.scene.placing(after.centers)
    np.testing.assert_allclose(lines.reshape(14, 8, 2, 3)[:, :4, 0], centres[:, None].repeat(4, 1))


def test_before_and_after(view: serve.View, before: Problem, after: Problem) -> None:
    view.panel.change(view.panel.switch, "before")
    np.testing.assert_array_equal(shown(view), view.scene.placing(before.points))
    assert "before" in view.panel.about.content
    view.panel.change(view.panel.switch, "after")
    np.testing.assert_array_equal(shown(view), view.scene.placing(after.points))


def test_colours(view: serve.View, before: Problem) -> None:
    def choose(name: str) -> None:
        view.panel.change(view.panel.colour, name)

    choose("device")
    owners = daba.make_partition(before, 4)
    np.testing.assert_array_equal(colours(view), paint.by_device(owners.point_device))
    assert view.panel.legend.content.count("●") == 4
    choose("pixel error")
    best = colours(view)[np.nanargmin(view.scene.errors().points)]
    assert best[2] > best[0]  # blue
    view.scene.show(0)
    worst = colours(view)[np.nanargmax(view.scene.errors().points)]
    assert worst[0] > worst[2]  # red
    assert "px" in view.panel.legend.content
    choose("plain")
    assert np.ptp(colours(view).astype(int), axis=1).max() < 25  # greys
    assert view.panel.legend.content == ""


def test_a_camera_shows_what_it_sees(view: serve.View, after: Problem) -> None:
    view.panel.change(view.panel.find, str(3))
    frame, lines = view.scene._sight
    k = np.flatnonzero(after.camera_index == 3)
    assert frame.points.shape == (8, 2, 3)
    assert lines.points.shape == (len(k), 2, 3)
    place = view.scene.placing
    np.testing.assert_allclose(lines.points[:, 1], place(after.points[after.point_index[k]]))
    centre = place(after.centers[3:4])
    np.testing.assert_allclose(lines.points[:, 0], centre.repeat(len(k), axis=0), rtol=1e-6)
    assert "image-3.jpg" in view.panel.description.content
    assert f"{len(k)} observations" in view.panel.description.content
    view.panel.change(view.panel.find, "")
    assert view.scene._sight == []


def test_each_estimate_has_a_scale_of_its_own(view: serve.View) -> None:
    view.panel.measured.wait(30)
    view.panel.change(view.panel.colour, "pixel error")
    now = view.scene.error_range()
    view.panel.change(view.panel.switch, "before")
    before = view.scene.error_range()
    assert before[1] > 3 * now[1]
    assert f"{before[1]:.2g} px" in view.panel.legend.content
    view.panel.change(view.panel.one_scale, True)
    both = view.scene.error_range()
    assert both[0] < before[0]
    view.panel.change(view.panel.switch, "after")
    assert view.scene.error_range() == both


def test_the_panel_tells_the_errors(view: serve.View, before: Problem, after: Problem) -> None:
    assert view.panel.measured.wait(30)
    with view.panel.lock:  # what was measured has been shown
        words = view.panel.about.content
    was, now = daba.pixel_error(before), daba.pixel_error(after)
    assert "shown: after" in words
    assert f"rms {now.rms:.3g} px, mean {now.mean:.3g}, median {now.median:.3g}" in words
    assert f"before: rms {was.rms:.3g} px" in words
    assert view.panel.histogram.content.count("<i ") == 36
    assert view.scene.subject.spread(1).counts.sum() == after.num_observations
    view.panel.change(view.panel.switch, "before")
    assert "shown: before" in view.panel.about.content
    assert f"after: rms {now.rms:.3g} px" in view.panel.about.content


def test_only_points_with_large_errors(view: serve.View) -> None:
    view.panel.measured.wait(30)
    errors, everything = view.scene.errors().points, shown(view)
    limit = float(np.median(errors))
    view.panel.change(view.panel.threshold, limit)
    hidden = (shown(view) == 1e6).all(axis=1)
    np.testing.assert_array_equal(hidden, errors < limit)
    np.testing.assert_array_equal(shown(view)[~hidden], everything[~hidden])
    assert "opacity: 0.25" in view.panel.histogram.content
    view.panel.change(view.panel.threshold, 0.0)
    np.testing.assert_array_equal(shown(view), everything)


def test_images_are_found_by_name(view: serve.View) -> None:
    panel = view.panel
    for text, found in (("image-12.jpg", 12), ("IMAGE-7", 7), ("5", 5), ("age-1", 1)):
        panel.change(panel.find, text)
        assert view.scene.picked == found
    for following in (10, 11, 12, 13, 1):  # all that have "age-1" in their names, and round again
        panel._go_on()
        assert view.scene.picked == following
    panel.change(panel.find, "<nowhere>")
    assert view.scene.picked is None
    assert "&lt;nowhere&gt;" in panel.description.content


def test_thumbnails(after: Problem, tmp_path: Path) -> None:
    from PIL import Image

    folder = tmp_path / "images"
    (folder / "left").mkdir(parents=True)
    Image.new("RGB", (1000, 500), (10, 200, 30)).save(folder / "left" / "a.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "secret.png")
    (folder / "text.png").write_text("no image")
    thumbnails = Thumbnails(folder)
    small = thumbnails.get("left/a.png")
    assert small is not None
    assert small.shape == (240, 480, 3)
    assert small[100, 100].tolist() == [10, 200, 30]
    names = ["../secret.png", str(tmp_path / "secret.png"), "text.png", "none.png", "left", "a\0b"]
    assert [thumbnails.get(name) for name in names] == [None] * 6
    images = ["left/a.png", *(f"{n}.png" for n in range(13))]
    named = replace(after, info=after.info | {"images": images})
    view = serve.View(subject_of(named), port=0, thumbnails=thumbnails)
    try:
        view.panel.change(view.panel.find, "a.png")
        assert view.panel.thumbnail.visible
        view.panel.change(view.panel.find, "5.png")
        assert not view.panel.thumbnail.visible
    finally:
        view.stop()
    with pytest.raises(daba.DabaError, match="there is no such folder"):
        Thumbnails(tmp_path / "none")


def test_a_click_finds_the_camera(view: serve.View, after: Problem) -> None:
    eye = np.array([0.0, -12.0, 30.0])
    at = view.scene.placing(after.centers).astype(float)
    for camera in (0, 6):
        ray = at[camera] - eye
        assert view.scene.nearest(eye, ray / np.linalg.norm(ray)) == camera
    assert view.scene.nearest(eye, np.array([0.0, 0.0, 1.0])) is None


def test_sizes_and_visibility(view: serve.View) -> None:
    first = view.scene._cameras[0].points.copy()
    view.scene.resize_cameras(2 * view.scene.camera_size)
    view.scene.resize_points(0.5)
    edges = [
        np.linalg.norm(p[:, 1] - p[:, 0], axis=1) for p in (first, view.scene._cameras[0].points)
    ]
    np.testing.assert_allclose(edges[1], 2 * edges[0], rtol=1e-3)
    assert view.scene._points[0].point_size == 0.5
    view.scene.hide(points=True, cameras=False)
    assert (view.scene._points[0].visible, view.scene._cameras[0].visible) == (False, True)


def test_many_points_come_in_batches(after: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first shows all parts of the scene; the others follow when somebody looks."""
    for name, value in (("FIRST", 60), ("REST", 100), ("SOME", 5), ("PAUSE", 0.0)):
        monkeypatch.setattr(scene, name, value)
    view = serve.View(subject_of(after), port=0)
    try:
        assert [len(batch) for batch in view.scene.batches] == [60, 100, 90]
        assert len(view.scene._points) == 1
        assert [len(handle.points) for handle in view.scene._cameras] == [8 * 7]
        browser = Drawing()
        view.scene._add_rest(browser)
        assert browser.asked == 2
        assert [len(handle.points) for handle in view.scene._cameras] == [8 * 7, 8 * 7]
        np.testing.assert_array_equal(shown(view), view.scene.placing(after.points))
    finally:
        view.stop()


class Drawing:
    """A browser that draws whatever it is asked for."""

    asked = 0

    def get_render(self, *_: int, timeout: float) -> None:
        self.asked += 1


def test_a_browser_that_has_gone_gets_nothing(
    after: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene, "FIRST", 60)
    view = serve.View(subject_of(after), port=0)

    class Gone(Drawing):
        def get_render(self, *_: int, timeout: float) -> None:
            raise RuntimeError("disconnected")

    try:
        view.scene._add_rest(Gone())
        assert len(view.scene._points) == 1 < len(view.scene.batches)
    finally:
        view.stop()


def test_a_recorded_solve_can_be_played(before: Problem, tmp_path: Path) -> None:
    daba.solve(before, devices=3, iterations=4, recorder=Recorder(tmp_path / "film"))
    still, shots = read_recording(tmp_path / "film")
    view = serve.View(subject_of_recording(still, shots), port=0)
    try:
        assert (view.panel.slider.min, view.panel.slider.max, view.panel.slider.value) == (0, 4, 4)
        view.panel.change(view.panel.slider, 1)
        expected = view.scene.placing(shots[1].points + still.origin)
        np.testing.assert_allclose(shown(view), expected)
        assert "iteration 1" in view.panel.about.content
        assert "3 cameras" not in view.panel.description.content
        assert "does not hold observations" in view.scene.pick(2)
    finally:
        view.stop()


def test_a_solve_can_be_watched(before: Problem, capsys: Capsys) -> None:
    live = serve.LiveView(port=0)
    daba.solve(before, devices=2, iterations=5, recorder=Recorder(watchers=[live]))
    assert live.view is not None
    try:
        assert live.view.address in capsys.readouterr().out
        assert live.view.scene.number == live.view.panel.slider.value == 5
        live.view.panel.change(live.view.panel.slider, 2)
        live.view.panel.grow(live.view.panel.subject.estimates[0])  # who looks back is left alone
        assert live.view.scene.number == 2
        assert live.view.panel.slider.max == 6
    finally:
        live.view.stop()


@pytest.fixture
def files(before: Problem, after: Problem, tmp_path: Path) -> tuple[str, str]:
    daba.save(before, tmp_path / "x.npz")
    daba.save(after, tmp_path / "y.npz")
    return str(tmp_path / "x.npz"), str(tmp_path / "y.npz")


def test_the_command(
    files: tuple[str, str], tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "wait", lambda: None)
    assert main(["view", *files, "--port", "0"]) == 0
    out = capsys.readouterr().out
    assert "14 images, 250 points" in out
    assert "open http://localhost:" in out
    film = str(tmp_path / "film")
    argv = ["solve", files[0], "--devices", "2", "--iterations", "3", "--record", film, "--view"]
    assert main([*argv, "--view-port", "0"]) == 0
    assert "the page stays" in capsys.readouterr().out
    assert main(["view", film, "--port", "0", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    store = str(tmp_path / "x.daba")
    assert main(["partition", files[0], "--devices", "3", "--output", store]) == 0
    assert main(["view", store, "--port", "0", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["none.npz"], "none.npz"),
        (["--port", "70000"], "--port must lie between"),
        (["--host", "no such host"], "--host no such host"),
        (["--host", "192.0.2.1"], "cannot listen on --host 192.0.2.1"),
        (["--devices", "0"], "--devices must be at least 1"),
    ],
)
def test_bad_requests(more: list[str], words: str, files: tuple[str, str], capsys: Capsys) -> None:
    assert main(["view", files[0], *more]) == 2
    assert words in capsys.readouterr().err


def test_without_viser(
    files: tuple[str, str], capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "viser", None)
    assert main(["view", files[0]]) == 2
    assert "pip install 'daba[viewer]'" in capsys.readouterr().err
    assert main(["solve", files[0], "--view"]) == 2
    assert "pip install 'daba[viewer]'" in capsys.readouterr().err
