"""list.txt beside a Bundler file: one line for each camera, the name of its image first."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from daba.core.errors import DabaWarning
from daba.core.text import as_bytes
from daba.io.files import PathLike, open_input, open_output

NAME = "list.txt"


def load_images(path: PathLike, count: int) -> dict[str, Any]:
    """`info["images"]` for a file with so many cameras; nothing if there is no list for it."""
    beside = Path(path).with_name(NAME)
    if not beside.is_file():
        return {}
    lines = _read(beside)
    if len(lines) != count:
        _warn(
            f"{beside} is ignored: it names {len(lines)} images, but {Path(path).name} has "
            f"{count} cameras"
        )
        return {}
    return {"images": lines}


def save_images(path: PathLike, images: list[str] | None, count: int) -> None:
    """Write the list beside a file with so many cameras, if it is for that; another one that is
    there stays, with a warning."""
    target = Path(path)
    if images is None or len(images) != count or not target.is_file():  # or a device, or a pipe
        return
    beside = target.with_name(NAME)
    if not beside.exists():
        with open_output(beside) as out:
            out.write(as_bytes("".join(f"{line}\n" for line in images)))
    elif not beside.is_file() or _read(beside) != list(images):
        _warn(f"{beside} is that of other images and stays as it is; those of {path} are lost")


def _read(path: Path) -> list[str]:
    with open_input(path, compressed=False) as stream:
        text = stream.read().decode("utf-8", "surrogateescape")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _warn(message: str) -> None:
    warnings.warn(message, DabaWarning, stacklevel=4)
