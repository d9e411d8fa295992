"""How long until `daba view` shows a million points: from the command to the first picture.

Needs viser and Chromium. Here the browser draws without a graphics card, which takes most of the
time; a scene of 4,000 points is measured beside it, to tell what the page itself takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from browser import Browser

import daba

PORT = 8390
PATIENCE = 120.0


def main() -> None:
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    with tempfile.TemporaryDirectory() as folder:
        for cameras, points in ((60, 4_000), (2_000, 1_000_000)):
            path = Path(folder) / f"{points}.npz"
            options = daba.SceneOptions(scene="city", cameras=cameras, points=points, seed=1)
            daba.save(daba.generate(options).start, path)
            ready, shown = measure(path)
            print(f"{points:>9,} points: served after {ready:.2f} s, seen after {shown:.2f} s")
    print(f"{os.cpu_count()} cores, {load}")


def measure(path: Path) -> tuple[float, float]:
    """Seconds from the command until the page is served, and until something is seen on it."""
    with Browser() as browser:
        browser.picture()
        began = time.perf_counter()
        server = subprocess.Popen(
            [sys.executable, "-m", "daba", "view", str(path), "--port", str(PORT)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            lines = iter(server.stdout.readline, "")
            address = next(line.split()[1] for line in lines if line.startswith("open "))
            ready = time.perf_counter() - began
            browser.open(address)
            while not seen(browser) and time.perf_counter() - began < PATIENCE:
                time.sleep(0.1)
            return ready, time.perf_counter() - began
        finally:
            server.terminate()
            server.wait()


def seen(browser: Browser) -> bool:
    """Whether there is a scene left of the controls: some light on a dark page."""
    try:
        light = browser.picture()[200:, :900].max(axis=2) > 70
    except RuntimeError:  # the page is just being loaded
        return False
    return 0.005 < float(np.mean(light)) < 0.9


if __name__ == "__main__":
    main()
