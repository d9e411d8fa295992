"""The page as a person sees it, in headless Chromium."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, needs_chromium, wait_until

import daba

pytest.importorskip("viser", reason="no viser here: pip install 'daba[viewer]'")
from daba.tools.viewer import serve
from daba.tools.viewer.subject import subject_of

pytestmark = [needs_chromium, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def scenery(browser: Browser) -> np.ndarray:
    """What lies left of the controls and below notices."""
    return browser.picture()[160:, :900].astype(int)


def lit(browser: Browser) -> float:
    """Share of pixels that are lit, on a page that is dark."""
    pixels = scenery(browser)
    light = pixels.max(axis=2) > 70
    return float(light.mean()) if not light.all() else 0.0


def colourful(browser: Browser) -> int:
    """Pixels with a colour, as devices have them and grey points have not."""
    return int((np.ptp(scenery(browser), axis=2) > 60).sum())


def test_a_scene_is_seen_coloured_and_clicked() -> None:
    start = daba.generate(daba.SceneOptions(cameras=30, points=3000, seed=2)).start
    view = serve.View(subject_of(start, devices=4), port=0)
    try:
        with Browser() as browser:
            browser.open(view.address)
            wait_until(lambda: lit(browser) > 0.01)
            time.sleep(0.5)
            plain = colourful(browser)
            view.panel.change(view.panel.colour, "device")
            wait_until(lambda: colourful(browser) > 3 * plain + 1000)
            client = next(iter(view.server.get_clients().values()))
            browser.click(*on_screen(view, client, start.num_cameras, browser))
            wait_until(lambda: "observations" in view.panel.description.content)
            assert view.scene.picked is not None
    finally:
        view.stop()


def on_screen(
    view: serve.View, client: object, cameras: int, browser: Browser
) -> tuple[float, float]:
    """Where the camera nearest to the middle of the free part of the page is drawn."""
    eye, target = view.scene.placing.first_look(view.scene.estimate.rotations, np.radians(50.0))
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    size = [browser.run(f"window.inner{name}") for name in ("Width", "Height")]
    rays = view.scene.placing(view.scene.estimate.centers) - eye
    pixels = 0.5 * size[1] / np.tan(np.radians(25.0)) / (rays @ forward)
    x, y = 0.5 * size[0] + pixels * (rays @ right), 0.5 * size[1] - pixels * (rays @ up)
    best = np.argmin(np.hypot(x - 500, y - 400))
    return float(x[best]), float(y[best])


def test_a_report_fits_on_a_phone(tmp_path: Path) -> None:
    """Nothing but tables is wider than the screen, and they scroll on their own."""
    start = daba.generate(daba.SceneOptions(cameras=8, points=80, seed=2)).start
    daba.write_report([daba.solve(start, devices=d, iterations=3) for d in (1, 2)],
                      tmp_path / "r.html")  # fmt: skip
    with Browser() as browser:
        browser.ask("Emulation.setDeviceMetricsOverride", width=390, height=844,
                    deviceScaleFactor=1, mobile=True)  # fmt: skip
        browser.open((tmp_path / "r.html").as_uri())
        wait_until(lambda: browser.run("document.readyState") == "complete")
        assert browser.run("document.documentElement.scrollWidth") == 390
        figures = "[...document.querySelectorAll('figure')].map(f => f.getBoundingClientRect()"
        widths = browser.run(f"{figures}.width)")
        assert len(widths) >= 8
        assert 300 < min(widths) <= max(widths) <= 390
