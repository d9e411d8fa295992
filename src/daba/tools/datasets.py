"""The problems of Bundle Adjustment in the Large, and how to fetch one.

    path = fetch(find("ladybug-49"))      # from the cache, or from the collection's site

A download is written to FILE.part, which a later attempt goes on from, and takes its name only
after the whole of it has been read and holds what its name promises: there are no official
checksums.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from daba.core.errors import DabaError
from daba.core.types import frozen
from daba.core.version import __version__
from daba.io.files import reason

SITE = "https://grail.cs.washington.edu/projects/bal/data"
MIRROR = "DABA_MIRROR"
"""Environment variable: an address that has what `SITE` has."""
TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up."""

_BLOCK = 1 << 18  # bytes received at once

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here, and of how many there will be if the server says so."""


@frozen
class Dataset:
    """One problem of the collection."""

    collection: str
    cameras: int
    points: int
    observations: int | None = None
    """None where no source at hand tells."""

    @property
    def name(self) -> str:
        return f"{self.collection}-{self.cameras}"

    @property
    def file(self) -> str:
        """Its name on this machine; on the site, files of different collections look alike."""
        return f"{self.collection}-{self.cameras}-{self.points}-pre.txt.bz2"

    @property
    def paper(self) -> str:
        """The row of the paper's tables that this problem is, or ''."""
        return PAPER.get(self.name, "")

    def address(self, mirror: str | None = None) -> str:
        site = (mirror or os.environ.get(MIRROR) or SITE).rstrip("/")
        if not site.startswith(("http://", "https://")):
            raise DabaError(f"a mirror's address begins with http:// or https://, not {site!r}")
        return f"{site}/{self.collection}/problem-{self.cameras}-{self.points}-pre.txt.bz2"


PAPER = {
    "trafalgar-257": "Trafalgar",
    "ladybug-1723": "Ladybug",
    "dubrovnik-356": "Dubrovnik",
    "venice-1778": "Venice",
    "final-13682": "Final",
}
"""Problems of the paper; its other fifteen are 1DSfM, among them another Trafalgar."""

# cameras-points, and -observations where known: from the paper's tables, from files at hand, and
# from the sizes of these problems that other projects have published.
_PROBLEMS = {
    "ladybug": """
        49-7776-31843 73-11032-46122 138-19878-85217 318-41628 372-47423 412-52215 460-56811
        539-65220-277273 598-69218 646-73584 707-78455 783-84444 810-88814 856-93344 885-97473
        931-102699 969-105826 1031-110968 1064-113655 1118-118384 1152-122269 1197-126327
        1235-129634 1266-132593 1340-137079 1469-145199 1514-147317 1587-150845 1642-153820
        1695-155710 1723-156502-678718""",
    "trafalgar": """
        21-11315-36455 39-18060 50-20431 126-40037-148328 138-44033-165899 161-48126 170-49267
        174-50489 193-53101 201-54427 206-54562 215-55910 225-57665 257-65132-225911""",
    "dubrovnik": """
        16-22106-83718 88-64298-383937 135-90642-553336 142-93602-565608 150-95821-568119
        161-103832-592019 173-111908-634570 182-116770-668705 202-132796-751652
        237-154414-858331 253-163691 262-169354 273-176305 287-182023 308-195089
        356-226730-1255268""",
    "venice": """
        52-64053 89-110973 245-198739 427-310384 744-543562-3058863 951-708276-3748892
        1102-780462-4052340 1158-802917-4130503 1184-816583-4179047 1238-843534-4290503
        1288-866452-4383006 1350-894716-4517126 1408-912229-4634530 1425-916895 1473-930345
        1490-935273 1521-939551 1544-942409 1638-976803 1666-983911 1672-986962 1681-983415
        1682-983268 1684-983269 1695-984689 1696-984816 1706-985529 1776-993909
        1778-993923-5001946""",
    "final": """
        93-61203 394-100368-534408 871-527480 961-187103 1936-649673-5213733 3068-310854
        4585-1324582-9125125 13682-4456117-28987644""",
}

DATASETS = tuple(
    Dataset(collection, *map(int, counts.split("-")))
    for collection, problems in _PROBLEMS.items()
    for counts in problems.split()
)
"""All 98, by collection and then by size."""


def find(name: str) -> Dataset:
    """The problem called `name`: ladybug-49, or its file's name here or on the site."""
    short = name.strip().lower().removesuffix(".bz2").removesuffix(".txt").removesuffix("-pre")
    short = short.replace("/problem-", "-")
    for dataset in DATASETS:
        tail = f"{dataset.cameras}-{dataset.points}"
        if short in (dataset.name, f"{dataset.collection}-{tail}", f"problem-{tail}"):
            return dataset
    near = get_close_matches(short, [dataset.name for dataset in DATASETS], n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`daba download --list` shows all"
    raise DabaError(f"there is no problem '{name}' in the collection; {hint}")


def cache_folder() -> Path:
    """Where downloads are kept, by the platform's convention."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "")
        if not base.is_absolute():  # the standard says to ignore such a path
            base = Path.home() / ".cache"
    return base / "daba" / "datasets"


def fetch(
    dataset: Dataset,
    folder: Path | None = None,
    mirror: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """The path of a problem's file, which is downloaded if it is not there.

    folder     where it is kept; `cache_folder()` if absent
    mirror     an address to use instead of the collection's own, or of $DABA_MIRROR
    progress   called now and then while bytes arrive
    """
    target = (cache_folder() if folder is None else folder) / dataset.file
    if target.is_file():  # it was checked before it got its name
        return target
    url, part = dataset.address(mirror), target.with_name(target.name + ".part")
    with _writing(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    with _network(url, target):
        _download(url, part, progress or (lambda here, total: None))
    try:
        check(part, dataset)
    except DabaError as error:
        part.unlink()
        raise DabaError(
            f"{url} is not the problem its name promises, so it was removed: {error}"
        ) from error
    with _writing(target):
        os.replace(part, target)
    return target


def check(path: Path, dataset: Dataset) -> None:
    """Read a whole file, and raise `DabaError` unless it holds what the dataset's name says."""
    from daba.io.bal import scan

    cameras, points, observations = scan(path)
    if (cameras, points) != (dataset.cameras, dataset.points) or observations != (
        dataset.observations or observations
    ):
        expected = "" if dataset.observations is None else f" and {dataset.observations}"
        raise DabaError(
            f"it holds {cameras} cameras, {points} points and {observations} observations, where "
            f"{dataset.name} has {dataset.cameras}, {dataset.points}{expected}"
        )


def _download(url: str, part: Path, progress: Progress) -> None:
    """Fill `part`, from where an earlier attempt left it if the server can."""
    start = part.stat().st_size if part.is_file() else 0
    request = Request(url, headers={"User-Agent": f"daba/{__version__}"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        answer = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        if not (error.code == 416 and start):
            raise
        error.close()  # no bytes after ours: it is complete, or a piece of something else
        if error.headers.get("Content-Range", "").strip() == f"bytes */{start}":
            return
        part.unlink()
        return _download(url, part, progress)
    with answer:
        if answer.status != 206 or not answer.headers.get("Content-Range", "").startswith(
            f"bytes {start}-"
        ):
            start = 0  # the server sends the whole file again
        length = answer.headers.get("Content-Length")
        total = None if length is None else start + int(length)
        here = _receive(answer, part, start, total, progress)
    if total is not None and here < total:
        raise DabaError(
            f"{url} broke off after {here:,} of {total:,} bytes; they are kept, and the same "
            "command goes on from there"
        )


def _receive(
    answer: HTTPResponse, part: Path, start: int, total: int | None, progress: Progress
) -> int:
    """Write what arrives after the first `start` bytes; returns how many bytes are there then."""
    here = start
    with _writing(part):
        out = open(part, "ab" if start else "wb")  # noqa: SIM115 - only opening is reported as writing
    with out:
        progress(here, total)
        while block := answer.read(_BLOCK):
            with _writing(part):
                out.write(block)
            here += len(block)
            progress(here, total)
    return here


@contextmanager
def _network(url: str, target: Path) -> Iterator[None]:
    """What goes wrong between us and the server, in words, with the address and a way out."""
    try:
        yield
    except HTTPError as error:
        error.close()
        raise DabaError(
            f"cannot download {url}: the server answers {error.code} {error.reason}"
        ) from error
    except (URLError, HTTPException, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        words = getattr(why, "strerror", None) or str(why) or type(why).__name__
        raise DabaError(
            f"cannot download {url}: {words}; check the connection and try again, or fetch it by "
            f"other means and put it at {target}"
        ) from error


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Apart from `_network`: both complain with OSError."""
    try:
        yield
    except OSError as error:
        raise DabaError(f"cannot write {path}: {reason(error)}") from error
