"""Downloads from a server on this machine: whole, broken off, wrong, and not at all."""

from __future__ import annotations

import bz2
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from web_server import Server, running

from daba.core.errors import DabaError
from daba.tools import datasets
from daba.tools.datasets import DATASETS, SITE, Dataset, cache_folder, fetch, find

TINY = Dataset("ladybug", 2, 2, 4)
PATH = "/ladybug/problem-2-2-pre.txt.bz2"
FILE = "ladybug-2-2-pre.txt.bz2"
CONTENT = bz2.compress(
    b"2 2 4\n0 0 10 20\n0 1 -30 40\n1 0 5 -6\n1 1 7 8\n"
    b"0 0 0 0 0 0 500 0 0\n0.1 0 0 0 0 0.5 600 0 0\n0.1 0.2 -5\n-0.3 0.4 -6\n"
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("DABA_MIRROR", raising=False)
    with running() as server:
        server.files[PATH] = CONTENT
        yield server


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_whole_download(server: Server, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    folder = tmp_path / "made" / "when needed"
    path = fetch(TINY, folder, server.address + "/", lambda *now: told.append(now))
    assert path == folder / FILE
    assert path.read_bytes() == CONTENT
    assert names(folder) == [FILE]
    assert server.requests == [(PATH, None)]
    assert told[0] == (0, len(CONTENT))
    assert told[-1] == (len(CONTENT), len(CONTENT))


def test_what_is_there_is_not_downloaded_again(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        fetch(TINY, tmp_path, server.address)
    assert len(server.requests) == 1


def test_a_broken_download_goes_on(server: Server, tmp_path: Path) -> None:
    server.cut = 50
    with pytest.raises(DabaError, match=rf"broke off after 50 of {len(CONTENT)} bytes.*goes on"):
        fetch(TINY, tmp_path, server.address)
    assert names(tmp_path) == [FILE + ".part"]
    server.cut = None
    told: list[int] = []
    path = fetch(TINY, tmp_path, server.address, lambda here, _: told.append(here))
    assert server.requests[-1] == (PATH, "bytes=50-")
    assert told[0] == 50
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == [FILE]


def test_a_server_without_ranges_sends_all_of_it_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / f"{FILE}.part").write_bytes(CONTENT[:50])
    assert fetch(TINY, tmp_path, server.address).read_bytes() == CONTENT
    assert server.requests == [(PATH, "bytes=50-")]


def test_a_part_that_is_complete_needs_no_bytes(server: Server, tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.part").write_bytes(CONTENT)
    assert fetch(TINY, tmp_path, server.address).read_bytes() == CONTENT
    assert names(tmp_path) == [FILE]


def test_a_part_that_is_too_long_is_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.part").write_bytes(CONTENT + b"more")
    assert fetch(TINY, tmp_path, server.address).read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [f"bytes={len(CONTENT) + 4}-", None]


def test_a_part_of_something_else_is_found_out(server: Server, tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.part").write_bytes(b"x" * 50)
    with pytest.raises(DabaError, match="is not the problem its name promises"):
        fetch(TINY, tmp_path, server.address)
    assert fetch(TINY, tmp_path, server.address).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bz2.decompress(CONTENT).replace(b"2 2 4", b"2 1 4"), "line 3: point index 1 is out of"),
        (b"1 1 1\n0 0 1 1\n0 0 0 0 0 0 9 0 0\n1 2 3\n", "holds 1 cameras, 1 points and 1 obs"),
        (b"<html>Please log in</html>", "is this a BAL file"),
        (CONTENT[:-20], "the compressed file is damaged"),
        (b"", "the file is empty"),
    ],
)
def test_wrong_content_is_removed(
    content: bytes, reason: str, server: Server, tmp_path: Path
) -> None:
    server.files[PATH] = content
    with pytest.raises(DabaError, match=reason) as caught:
        fetch(TINY, tmp_path, server.address)
    assert server.address + PATH in str(caught.value)
    assert names(tmp_path) == []


def test_known_observations_are_compared(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DabaError, match="4 observations, where ladybug-2 has 2, 2 and 5"):
        fetch(Dataset("ladybug", 2, 2, 5), tmp_path, server.address)
    assert fetch(Dataset("ladybug", 2, 2), tmp_path, server.address).is_file()


def test_not_found(server: Server, tmp_path: Path) -> None:
    missing = Dataset("venice", 2, 2)
    with pytest.raises(DabaError, match=r"http.*venice/problem-2-2-pre.*answers 404 Not Found"):
        fetch(missing, tmp_path, server.address)
    assert names(tmp_path) == []


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    monkeypatch.setenv("DABA_MIRROR", f"http://127.0.0.1:{port}")
    with pytest.raises(DabaError, match=rf"cannot download http://127.0.0.1:{port}/.*refused") as e:
        fetch(TINY, tmp_path)
    assert str(tmp_path / FILE) in str(e.value)


def test_a_server_that_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(datasets, "TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mirror = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DabaError, match="timed out"):
            fetch(TINY, tmp_path, mirror)


@pytest.mark.parametrize("mirror", ["ftp://example.org", "example.org", "file:///tmp"])
def test_mirrors_are_web_sites(mirror: str, tmp_path: Path) -> None:
    with pytest.raises(DabaError, match="http:// or https://"):
        fetch(TINY, tmp_path, mirror)


def test_a_folder_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DabaError, match="cannot write"):
        fetch(TINY, tmp_path / "file" / "folder", server.address)
    assert server.requests == []


def test_the_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DABA_MIRROR", raising=False)
    counts: dict[str, int] = {}
    for dataset in DATASETS:
        counts[dataset.collection] = counts.get(dataset.collection, 0) + 1
    assert counts == {"ladybug": 31, "trafalgar": 14, "dubrovnik": 16, "venice": 29, "final": 8}
    assert len({dataset.name for dataset in DATASETS}) == 98
    assert [d.name for d in DATASETS if d.paper] == [
        "ladybug-1723", "trafalgar-257", "dubrovnik-356", "venice-1778", "final-13682",
    ]  # fmt: skip
    assert all(d.observations is None or d.observations >= 2 * d.points for d in DATASETS)
    assert find("ladybug-49").address() == f"{SITE}/ladybug/problem-49-7776-pre.txt.bz2"


@pytest.mark.parametrize(
    "name",
    [
        "ladybug-49",
        "Ladybug-49",
        "ladybug-49-7776",
        "ladybug-49-7776-pre.txt.bz2",
        "ladybug/problem-49-7776-pre.txt.bz2",
        "problem-49-7776-pre",
    ],
)
def test_names(name: str) -> None:
    assert find(name) == Dataset("ladybug", 49, 7776, 31843)


def test_unknown_names() -> None:
    with pytest.raises(DabaError, match=r"'ladybug-50'.*did you mean"):
        find("ladybug-50")
    with pytest.raises(DabaError, match="--list"):
        find("???")


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("linux", "cache/daba/datasets"),
        ("darwin", "home/Library/Caches/daba/datasets"),
        ("win32", "local/daba/datasets"),
    ],
)
def test_the_cache(
    platform: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / expected
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("LOCALAPPDATA", "")
    assert cache_folder().is_relative_to(tmp_path / "home")
