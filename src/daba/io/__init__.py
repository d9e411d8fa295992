"""Reading and writing problems; the format follows from the file's name.

A new format is a new module here and one line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daba.errors import DabaError
from daba.io import bal, bundler, native, ply, store
from daba.io.files import PathLike, split_suffix
from daba.io.folders import is_store
from daba.io.forward import Intrinsics, Reading
from daba.io.source import Source
from daba.problem import Problem

__all__ = ["FORMATS", "Format", "load", "open_source", "save"]


@dataclass(frozen=True)
class Format:
    """How one kind of file is recognised, read and written."""

    name: str
    suffixes: tuple[str, ...]
    load: Callable[..., Problem] | None
    save: Callable[[Problem, PathLike], None] | None
    compressed: bool = False
    """Whether .bz2 or .gz may follow the suffix."""
    intrinsics: Reading | None = None
    """What "auto" stands for; None if `load` knows only one reading and takes no `intrinsics`."""
    open_source: Callable[[PathLike, Path], Source] | None = None
    """How observations are read without holding them, where that is possible."""


FORMATS = (
    Format("bal", (".txt", ".bal"), bal.load, bal.save, True, "paper", bal.open_source),
    Format("bundler", (".out",), bundler.load, bundler.save, True, "standard"),
    Format("npz", (".npz",), native.load, native.save, open_source=native.open_source),
    Format("ply", (".ply",), None, ply.save),
    Format("store", (".daba",), store.load, store.save),
)


def load(path: PathLike, intrinsics: Intrinsics = "auto", format: str | None = None) -> Problem:
    """Read a problem from a file or a store.

    path         BAL (.txt or .bal) or Bundler (.out), both also with .bz2 or .gz, daba's own
                 .npz, or the folder of a store, whatever its name
    intrinsics   how k1 and k2 are read: "paper", as the paper's authors do, or "standard", as
                 BAL and Bundler define them; "auto" is the first for BAL, the second for
                 Bundler; other formats have only one reading
    format       "bal", "bundler", "npz" or "store" if the file's name does not say
    """
    form = _find(path, format)
    if form.load is None:
        raise DabaError(f"{path}: {form.name} files are written, never read")
    options: dict[str, Any] = {}
    if form.intrinsics is not None:
        options["intrinsics"] = form.intrinsics if intrinsics == "auto" else intrinsics
    return form.load(path, **options)


def open_source(path: PathLike, intrinsics: Intrinsics, scratch: Path) -> Source:
    """Read a problem chunk by chunk; observations that must wait do so in the folder `scratch`.

    "standard" intrinsics are fitted to all observations of a camera: such a file is loaded as a
    whole, and so are Bundler's and stores.
    """
    form = _find(path, None)
    if form.open_source is None or (form.intrinsics and intrinsics not in ("auto", "paper")):
        return Source.of(load(path, intrinsics))
    return form.open_source(path, scratch)


def save(problem: Problem, path: PathLike, format: str | None = None) -> None:
    """Write a problem to a file, whole or not at all.

    path     BAL (.txt or .bal) or Bundler (.out), both also with .bz2 or .gz, daba's own .npz,
             which loses nothing, .ply, points and cameras for a viewer, or .daba, a store for
             one device (`daba.io.store.save` writes one for several)
    format   "bal", "bundler", "npz", "ply" or "store" if the file's name does not say
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
    if is_store(Path(path)) or (not suffix and Path(path).is_dir()):  # stores may have any name
        suffix, compression = ".daba", ""
    for form in FORMATS:
        if suffix in form.suffixes and (form.compressed or not compression):
            return form
    known = ", ".join(
        f"{s} ({form.name}{', also with .bz2 or .gz' if form.compressed else ''})"
        for form in FORMATS
        for s in form.suffixes
    )
    raise DabaError(f"{path}: unknown kind of file '{suffix + compression}'; known are {known}")
