"""Who may talk to the viewer's server: pages that it has served itself, and programs.

A browser lets every page it has open connect to a web socket on this machine, and a page elsewhere
can give its own name the address of this machine. So a request is answered only if it was sent to
this machine by a name of its own, and, when it comes from a page, if that page was, too.
"""

from __future__ import annotations

import http
import ipaddress
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from inspect import isawaitable
from typing import Any
from urllib.parse import urlsplit

from daba.core.errors import DabaError

REFUSED = "daba view answers only to pages that it has served itself\n"


def allowed(headers: Mapping[str, str], names: set[str]) -> bool:
    """Whether a request is answered by a machine with those names.

    Programs send no Origin, and are let in: they could read the files as well.
    """
    asked = headers.get("Host", "")
    name = _name(asked)
    if not (name in names or _is_number(name)):
        return False
    origin = headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == asked


def own_names(host: str) -> set[str]:
    """What this machine is called when it listens on `host`; another name may lead here, but is
    not ours."""
    names = {"localhost", host, socket.gethostname()}
    if host not in ("localhost", "127.0.0.1", "::1"):
        names.add(socket.getfqdn())
    return {name.lower() for name in names}


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(netloc: str) -> str:
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:  # [ without ]
        return ""


@contextmanager
def only_own_pages(host: str) -> Iterator[None]:
    """A server that viser starts within this context refuses all others.

    viser has no option for it, but starts its server by `websockets`, which asks a function about
    every request: ours is put before viser's. Where viser does otherwise there is no viewer.
    """
    server: Any = import_module("websockets.asyncio.server")
    original, names = server.serve, own_names(host)
    used: list[bool] = []

    def serve(*args: Any, process_request: Callable[..., Any] | None = None, **more: Any) -> Any:
        used.append(True)

        async def check(connection: Any, request: Any) -> Any:
            if not allowed(request.headers, names):
                return connection.respond(http.HTTPStatus.FORBIDDEN, REFUSED)
            answer = None if process_request is None else process_request(connection, request)
            return await answer if isawaitable(answer) else answer

        return original(*args, process_request=check, **more)

    server.serve = serve
    try:
        yield
    finally:
        server.serve = original
    if not used:
        raise DabaError("this viser starts its server in another way: pip install viser==1.1.1")
