"""The server of a page: where it is, and how to reach it from elsewhere."""

from __future__ import annotations

import socket
import warnings
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Any

from daba.core.errors import DabaError
from daba.core.text import printable
from daba.runtime.recording import Snapshot, Still
from daba.tools.viewer.origins import only_own_pages
from daba.tools.viewer.panel import Panel
from daba.tools.viewer.scene import ViewerScene
from daba.tools.viewer.subject import Subject, estimate_of, subject_of_recording
from daba.tools.viewer.thumbnails import Thumbnails

HOST = "localhost"
PORT = 8080
"""Where a page is served unless told otherwise."""


class View:
    """A page about a subject, served until it is stopped."""

    def __init__(
        self,
        subject: Subject,
        host: str = HOST,
        port: int = PORT,
        thumbnails: Thumbnails | None = None,
    ) -> None:
        self.server = _server(host, port, subject.name)
        self.host, self.port = host, int(self.server.get_port())
        self.scene = ViewerScene(self.server, subject)
        self.panel = Panel(self.server, self.scene, thumbnails)

    @property
    def address(self) -> str:
        host = "localhost" if self.host in ("0.0.0.0", "") else self.host
        return f"http://{host}:{self.port}"

    def how_to_reach(self) -> str:
        """The address, and the command that brings it to another machine over SSH."""
        lines = [f"open {self.address}"]
        if self.host in ("localhost", "127.0.0.1"):
            lines.append(
                f"from another machine: ssh -L {self.port}:localhost:{self.port} "
                f"{socket.gethostname()}, then open http://localhost:{self.port} there"
            )
        return "\n".join(lines)

    def stop(self) -> None:
        self.scene.stop()
        with redirect_stdout(StringIO()):  # viser would say so
            self.server.stop()


class LiveView:
    """A watcher of `daba.Recorder`: a page that grows with the solve."""

    def __init__(self, host: str = HOST, port: int = PORT, say: Any = print) -> None:
        import_viser()  # an extra that is missing is reported before the solve
        self.host, self.port, self.say = host, port, say
        self.view: View | None = None

    def __call__(self, still: Still, shot: Snapshot) -> None:
        if self.view is None:
            self.view = View(subject_of_recording(still, [shot]), self.host, self.port)
            self.say(self.view.how_to_reach())
        else:
            self.view.panel.grow(estimate_of(still, shot))


def wait() -> None:
    """Until Ctrl-C."""
    import time

    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        pass


def import_viser() -> Any:
    try:
        import viser
    except ImportError as error:
        raise DabaError(
            f"the viewer needs viser, which is not here ({error}): pip install 'daba[viewer]'"
        ) from error
    return viser


def _server(host: str, port: int, label: str) -> Any:
    viser = import_viser()
    port = _free_port(host, port)
    # a browser may be closed at any time, and then nothing is wrong
    warnings.filterwarnings("ignore", message="Queued a .* on a closed connection")
    with only_own_pages(host), redirect_stdout(StringIO()):  # viser has a banner of its own
        server = viser.ViserServer(
            host=host, port=port, label=f"daba: {printable(label)}", verbose=False
        )
    server.gui.configure_theme(
        dark_mode=True, show_logo=False, show_share_button=False, brand_color=(96, 165, 250)
    )
    server.scene.set_up_direction("+z")
    return server


def _free_port(host: str, port: int) -> int:
    """The port, or the next that is free; viser itself would wait for ever where there is none."""
    if not 0 <= port <= 65535:
        raise DabaError(f"--port must lie between 0 and 65535, not {port}")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except OSError as error:
        raise DabaError(f"cannot listen on --host {host}: {error.strerror}") from error
    for number in range(port, 65536):
        with socket.socket(family, kind) as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address[0], number, *address[2:]))
            return number
    raise DabaError(f"no port from {port} on is free")
