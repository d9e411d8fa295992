"""Headless Chromium for the tests: open a page, wait, click, and take its picture."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
LIMIT = 60.0
"""Seconds after which the browser is given up."""

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here: install the package `chromium`"
)


class Browser:
    """One page of a browser that draws without a screen or a graphics card."""

    def __init__(self, width: int = 1280, height: int = 800) -> None:
        self.folder = tempfile.mkdtemp(prefix="daba-browser-")
        self.process = subprocess.Popen(
            [
                str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
                "--hide-scrollbars", "--no-first-run", f"--window-size={width},{height}",
                f"--user-data-dir={self.folder}", "--remote-debugging-port=0", "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self.count = 0

    def __enter__(self) -> Browser:
        from websockets.sync.client import connect

        mark = Path(self.folder) / "DevToolsActivePort"
        wait_until(lambda: mark.is_file() and mark.read_text().count("\n"))
        self.port = int(mark.read_text().splitlines()[0])
        pages: list[dict[str, Any]] = []

        def there() -> bool:
            url = f"http://127.0.0.1:{self.port}/json/list"
            with urllib.request.urlopen(url, timeout=LIMIT) as answer:
                pages[:] = [p for p in json.load(answer) if p["type"] == "page"]
            return bool(pages)

        wait_until(there)
        self.socket = connect(pages[0]["webSocketDebuggerUrl"], max_size=None, open_timeout=LIMIT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        try:
            self.socket.close()
        finally:
            os.killpg(self.process.pid, 9)
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol."""
        self.count += 1
        number = self.count
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv(timeout=LIMIT))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])

    def open(self, address: str) -> None:
        """Go to a page, and wait until it is the one that is asked about."""
        self.ask("Page.navigate", url=address)
        wait_until(lambda: self.run("location.href").startswith(address))

    def run(self, script: str) -> Any:
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get(
            "value"
        )

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: Path | None = None) -> np.ndarray:
        """Pixels (height, width, 3)."""
        from PIL import Image

        data = base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            path.write_bytes(data)
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def wait_until(holds: Any, limit: float = LIMIT) -> None:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.05)
    raise TimeoutError("it did not come true")
