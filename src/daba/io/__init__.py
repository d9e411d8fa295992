"""Reading and writing problems; the format follows from the file's name.

A new format is a new module here and one line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from daba.errors import DabaError
from daba.io import bal, native, ply
from daba.io.bal import Intrinsics
from daba.io.files import PathLike, split_suffix
from daba.problem import Problem

__all__ = ["FORMATS", "Format", "load", "save"]


@dataclass(frozen=True)
class Format:
    """How one kind of file is recognised, read and written."""

    name: str
    suffixes: tuple[str, ...]
    load: Callable[..., Problem] | None
    save: Callable[[Problem, PathLike], None] | None
    compressed: bool = False
    """Whether .bz2 or .gz may follow the suffix."""
    reads_intrinsics: bool = False
    """Whether `load` takes `intrinsics`."""


FORMATS = (
    Format("bal", (".txt", ".bal"), bal.load, bal.save, compressed=True, reads_intrinsics=True),
    Format("npz", (".npz",), native.load, native.save),
    Format("ply", (".ply",), None, ply.save),
)


def load(path: PathLike, intrinsics: Intrinsics = "paper", format: str | None = None) -> Problem:
    """Read a problem from a file.

    path         BAL (.txt or .bal, also with .bz2 or .gz) or daba's own .npz
    intrinsics   how BAL's k1 and k2 are read: "paper", as the paper's authors do, or
                 "standard", as BAL defines them; other formats have only one reading
    format       "bal" or "npz" if the file's name does not say
    """
    form = _find(path, format)
    if form.load is None:
        raise DabaError(f"{path}: {form.name} files are written, never read")
    options: dict[str, Any] = {"intrinsics": intrinsics} if form.reads_intrinsics else {}
    return form.load(path, **options)


def save(problem: Problem, path: PathLike, format: str | None = None) -> None:
    """Write a problem to a file, whole or not at all.

    path     BAL (.txt or .bal, also with .bz2 or .gz), daba's own .npz, which loses nothing,
             or .ply, points and cameras for a viewer
    format   "bal", "npz" or "ply" if the file's name does not say
    """
    form = _find(path, format)
    if form.save is None:
        raise DabaError(f"{path}: {form.name} files are read, never written")
    form.save(problem, path)


def _find(path: PathLike, name: str | None) -> Format:
    if name is not None:
        for form in FORMATS:
            if form.name == name:
                return form
        known = ", ".join(form.name for form in FORMATS)
        raise DabaError(f"unknown format {name!r}; known are {known}")
    suffix, compression = split_suffix(path)
    for form in FORMATS:
        if suffix in form.suffixes and (form.compressed or not compression):
            return form
    known = ", ".join(
        f"{s} ({form.name}{', also with .bz2 or .gz' if form.compressed else ''})"
        for form in FORMATS
        for s in form.suffixes
    )
    raise DabaError(f"{path}: unknown kind of file '{suffix + compression}'; known are {known}")
