"""A folder (a store, a COLMAP model, a checkpoint) appears complete or not at all.

It is filled under another name beside its own and renamed when everything is on the disk; an older
one is moved aside for that moment and deleted afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from daba.core.errors import DabaError
from daba.core.text import parse_json
from daba.io.files import PathLike, folder_target, is_pipe, writing_folder

FORMAT = "daba store"
MANIFEST = "manifest.json"

_OURS = re.compile(r"manifest\.json|device-\d{4,}|(info|optics)-.*\.npy")


def check_folder(path: PathLike) -> None:
    """Raise `DabaError` if no store can be written there."""
    target = folder_target(path, "a store")
    if target.is_dir():
        with writing_folder(path):
            names = os.listdir(target)
        if names and not (all(map(_OURS.fullmatch, names)) and is_store(target)):
            raise DabaError(
                f"cannot write {path}: there is a folder of that name that is not a daba store; "
                "choose another name or remove it first"
            )


def is_store(folder: Path) -> bool:
    """Whether a manifest of ours, of whatever version, is in the folder."""
    if is_pipe(folder / MANIFEST):
        return False
    try:
        manifest = parse_json((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


Check = Callable[[PathLike], object]
"""Raises `DabaError` if a folder cannot be written there."""


def begin_folder(path: PathLike, check: Check = check_folder) -> Path:
    """A new folder beside `path`, to be filled."""
    check(path)
    folder = _beside(path, "tmp")
    with writing_folder(path):
        folder.mkdir(parents=True)
    return folder


def finish_folder(folder: Path, path: PathLike, check: Check = check_folder) -> None:
    """Give the filled folder its name."""
    target = Path(os.path.realpath(path))
    with writing_folder(path):
        check(path)  # things may have changed meanwhile
        if not target.exists() or not os.listdir(target):
            os.replace(folder, target)
            return
        old = _beside(path, "old")
        try:
            os.replace(target, old)
            os.replace(folder, target)
        except BaseException:  # a signal, perhaps between the two
            if old.exists() and not target.exists():
                os.replace(old, target)
            raise
        finally:
            _remove(old)


def abandon_folder(folder: Path) -> None:
    _remove(folder)


def _remove(folder: Path) -> None:
    """A folder and all that is in it; a signal meanwhile does not end it."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def output_folder(path: PathLike, check: Check = check_folder) -> Iterator[Path]:
    """The three in one: a folder to be filled, renamed at the end or removed on any failure."""
    folder = begin_folder(path, check)
    try:
        with writing_folder(path):
            yield folder
        finish_folder(folder, path, check)
    finally:
        abandon_folder(folder)  # unless it has its name


def _beside(path: PathLike, suffix: str) -> Path:
    target = Path(os.path.realpath(path))
    return target.with_name(f".{target.name}.{os.urandom(4).hex()}.{suffix}")
