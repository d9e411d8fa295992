"""A file's text stays text on the page, and other pages cannot talk to the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, needs_chromium, wait_until
from command_line import run, small_scene

import daba

pytest.importorskip("viser", reason="no viser here: pip install 'daba[viewer]'")
from daba.tools.viewer import origins, serve
from daba.tools.viewer.subject import subject_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:websockets")
EVIL = "<img src=x onerror='window.hacked=1'><iframe srcdoc='<script>top.hacked=1</script>'>"
TERMINAL = "\x1b]0;owned\x07\x1b[2J\x9b31m"


@pytest.fixture(scope="module")
def problem() -> daba.Problem:
    small = small_scene(4, 30)
    names = [EVIL, "[x](javascript:hacked=1)", "{window.hacked=1}", "\udcff.jpg"]
    return replace(small, name=EVIL + TERMINAL, info=small.info | {"images": names})


@pytest.fixture
def view(problem: daba.Problem) -> Iterator[serve.View]:
    view = serve.View(subject_of(problem, problem), port=0)
    yield view
    view.stop()


def everything(view: serve.View) -> list[str]:
    """The HTML of a page, with each camera picked."""
    panel, found = view.panel, [view.panel.name.content]
    for camera in range(4):
        panel.change(panel.find, str(camera))
        found.append(panel.description.content)
    return [*found, panel.about.content, panel.legend.content]


def test_no_tag_of_a_file_reaches_the_page(view: serve.View) -> None:
    for content in everything(view):
        assert "<img" not in content
        assert "<iframe" not in content
        content.encode()
    assert "&lt;iframe" in view.panel.name.content
    kinds = {type(handle).__name__ for handle in vars(view.panel).values()}
    assert "GuiMarkdownHandle" not in kinds  # it would let HTML through


@needs_chromium
def test_nothing_runs_in_the_browser(view: serve.View) -> None:
    with Browser() as browser:
        browser.open(view.address)
        wait_until(lambda: "onerror" in (browser.run("document.body.innerText") or ""))
        view.panel.change(view.panel.find, str(0))
        wait_until(lambda: "observations, mean" in (browser.run("document.body.innerText") or ""))
        assert browser.run("window.hacked") is None
        assert browser.run("document.querySelectorAll('iframe, img[src=x]').length") == 0


def connects(view: serve.View, origin: str | None, host: str | None = None) -> bool:
    import viser
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    address = f"ws://{host or 'localhost'}:{view.port}"
    more: dict[str, Any] = {"subprotocols": [f"viser-v{viser.__version__}"], "proxy": None}
    try:
        with connect(address, origin=origin, sock=_to(view), **more):  # type: ignore[arg-type]
            return True
    except InvalidStatus as error:
        return error.response.status_code != 403


def _to(view: serve.View) -> Any:
    import socket

    return socket.create_connection(("localhost", view.port))


def test_other_pages_cannot_connect(view: serve.View) -> None:
    port = view.port
    assert connects(view, f"http://localhost:{port}")
    assert connects(view, f"http://127.0.0.1:{port}", "127.0.0.1")
    assert connects(view, None)  # a program
    assert not connects(view, "http://evil.example")
    assert not connects(view, f"http://localhost:{port + 1}")  # another server of this machine
    assert not connects(view, "null")  # a sandboxed frame, or a file
    assert not connects(view, f"http://evil.example:{port}", "evil.example")  # its name leads here


@pytest.mark.parametrize(
    ("host", "origin", "answer"),
    [
        ("localhost:8080", None, True),
        ("LOCALHOST:8080", None, True),
        ("192.0.2.7:8080", "http://192.0.2.7:8080", True),
        ("[::1]:8080", "http://[::1]:8080", True),
        ("server.example:9000", "http://server.example:9000", True),
        ("server.example.evil:9000", None, False),
        ("[::1", None, False),
        ("", None, False),
        ("localhost:8080", "http://localhost:8080.evil.example", False),
    ],
)
def test_who_is_answered(host: str, origin: str | None, answer: bool) -> None:
    headers = {"Host": host} | ({} if origin is None else {"Origin": origin})
    assert origins.allowed(headers, {"localhost", "server.example"}) is answer


def test_a_viser_that_cannot_be_guarded_is_refused() -> None:
    with (
        pytest.raises(daba.DabaError, match="pip install viser"),
        origins.only_own_pages("localhost"),
    ):
        pass  # a server that was started in another way


def test_nothing_commands_the_terminal(
    problem: daba.Problem,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "wait", lambda: None)
    path = tmp_path / "evil.npz"
    images = [TERMINAL, *problem.info["images"][1:]]
    daba.save(replace(problem, info=problem.info | {"images": images}), path)
    commands: list[list[str | Path]] = [
        ["view", path, "--port", "0"],
        ["info", path],
        ["info", path, "--json"],
        ["solve", path, "--iterations", "1", "--filter", "0.0001"],
        ["solve", path, "--fix", TERMINAL],
    ]
    for argv in commands:
        done = run(capsys, *argv)
        assert "owned" in done.out + done.err
        assert not set("\x1b\x07\x9b") & set(done.out + done.err)
