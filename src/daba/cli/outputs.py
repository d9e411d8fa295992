"""Refusing what cannot be written before the work is done rather than after."""

from __future__ import annotations

import os
from pathlib import Path

from daba.errors import DabaError


def check_target(path: Path) -> None:
    """Raise `DabaError` if no file can be written there."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise DabaError(f"cannot write {path}: it is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise DabaError(
            f"cannot write {path}: the folder {target.parent} does not exist; create it first"
        )
    device = target.exists() and not target.is_file()
    if not os.access(target if device else target.parent, os.W_OK):
        raise DabaError(f"cannot write {path}: permission denied")


def check_problem_target(path: Path) -> None:
    """The same for what `daba.save` is to write, be it a store; its suffix must be known, too."""
    from daba.io import FORMATS
    from daba.io.files import split_suffix
    from daba.io.folders import check_folder

    suffix, compression = split_suffix(path)
    known = [form for form in FORMATS if form.save is not None]
    if not any(suffix in form.suffixes and (form.compressed or not compression) for form in known):
        suffixes = ", ".join(s for form in known for s in form.suffixes)
        raise DabaError(
            f"{path}: unknown kind of file '{suffix + compression}'; known are {suffixes} "
            "(.txt, .bal and .out also with .bz2 or .gz)"
        )
    if suffix == ".daba":
        check_folder(path)
    else:
        check_target(path)
