"""Reading and writing problems; the format follows from the file's name.

A new format is a new module here and one line in `FORMATS`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.core.types import Floats, frozen
from daba.io import colmap
from daba.io.colmap.model import NEEDED
from daba.io.files import PathLike, split_suffix
from daba.io.folders import is_store

if TYPE_CHECKING:
    from daba.io.colmap.reading import Rigs
    from daba.io.colmap.writing import Kind
    from daba.io.forward import Intrinsics, Reading
    from daba.io.source import Source
    from daba.problem.problem import Problem

__all__ = ["FORMATS", "Format", "load", "open_source", "save"]

LARGEST_D2 = 10.0
"""|d2| of half of the cameras, beyond which a file is not meant as the paper reads it: 0.5 at most
in problems of the BAL collection, thousands in solutions."""


@frozen
class Format:
    """How one kind of file is recognised, read and written."""

    name: str
    suffixes: tuple[str, ...]
    load: Callable[..., Problem] | None
    save: Callable[..., None] | None
    compressed: bool = False
    """Whether .bz2 or .gz may follow the suffix."""
    intrinsics: Reading | None = None
    """What "auto" stands for; None if `load` knows only one reading and takes no `intrinsics`."""
    open_source: Callable[[PathLike, Path], Source] | None = None
    """How observations are read without holding them, where that is possible."""


def _of(module: str, name: str) -> Callable[..., Any]:
    """A function of a module here, which is loaded when it is called: a solve needs one format."""

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(f"daba.io.{module}"), name)(*arguments, **options)

    return call


FORMATS = (
    Format(
        "bal", (".txt", ".bal"), _of("bal", "load"), _of("bal", "save"), True, "paper",
        _of("bal", "open_source"),
    ),
    Format("bundler", (".out",), _of("bundler", "load"), _of("bundler", "save"), True, "standard"),
    Format("colmap", (), _of("colmap", "load"), _of("colmap", "save")),
    Format(
        "npz", (".npz",), _of("native", "load"), _of("native", "save"),
        open_source=_of("native", "open_source"),
    ),
    Format("ply", (".ply",), None, _of("ply", "save")),
    Format("store", (".daba",), _of("store", "load"), _of("store", "save")),
)  # fmt: skip


def load(
    path: PathLike | Any,
    intrinsics: Intrinsics = "auto",
    format: str | None = None,
    rigs: Rigs = "keep",
) -> Problem:
    """Read a problem from a file or a folder.

    Args:
        path: BAL (.txt or .bal) or Bundler (.out), both also with .bz2 or .gz, daba's own .npz, or
            the folder of a COLMAP model or of a store, whatever its name; or a
            `pycolmap.Reconstruction`
        intrinsics: how k1 and k2 are read: "paper", as the paper's authors do, or "standard", as
            BAL and Bundler define them; "auto" is the first for BAL, the second for Bundler; other
            formats have only one reading
        format: "bal", "bundler", "colmap", "npz" or "store" if the file's name does not say
        rigs: COLMAP: "keep" lets the images of a frame of a rig move only together; "free" takes
            every image for itself
    """
    if colmap.is_reconstruction(path):
        return colmap.load_reconstruction(path, rigs)
    if not split_suffix(path)[0]:
        must_exist(Path(path))
    form = _find(path, format)
    if form.load is None:
        raise DabaError(f"{path}: {form.name} files are written, never read")
    options: dict[str, Any] = {}
    if form.intrinsics is not None:
        options["intrinsics"] = form.intrinsics if intrinsics == "auto" else intrinsics
    if form.name == "colmap":
        options["rigs"] = rigs
    problem = form.load(path, **options)
    if intrinsics == "auto" and form.intrinsics == "paper":
        _doubt_the_paper(path, problem.cameras, problem.focal)
    return problem


def open_source(path: PathLike, intrinsics: Intrinsics, scratch: Path) -> Source:
    """Read a problem chunk by chunk; observations that must wait do so in the folder `scratch`.

    "standard" intrinsics are fitted to all observations of a camera: such a file is loaded as a
    whole, and so are Bundler's and stores.
    """
    form = _find(path, None)
    if form.open_source is None or (form.intrinsics and intrinsics not in ("auto", "paper")):
        from daba.io.source import Source

        return Source.of(load(path, intrinsics))
    source = form.open_source(path, scratch)
    if intrinsics == "auto" and form.intrinsics == "paper":
        _doubt_the_paper(path, source.cameras, source.focal)
    return source


def _doubt_the_paper(path: PathLike, cameras: Floats, focal: Floats) -> None:
    """A word where no lens is as the paper reads a file: a solution, for example."""
    size = np.abs(cameras[:, 13])
    if np.sort(size)[len(size) // 2] <= LARGEST_D2:
        return
    camera = int(np.argmax(size > LARGEST_D2))
    k1 = cameras[camera, 13] / focal[camera] ** 2
    warnings.warn(
        f"{Path(path).name}: k1 = {k1:.3g} of camera {camera} makes no sense as the paper reads "
        "BAL files; solutions and files of others are to be read with --intrinsics standard, "
        'from Python with intrinsics="standard"',
        DabaWarning,
        stacklevel=3,
    )


def save(
    problem: Problem,
    path: PathLike,
    format: str | None = None,
    kind: Kind = "same",
    overwrite: bool = False,
) -> None:
    """Write a problem to a file or a folder, whole or not at all.

    Args:
        path: BAL (.txt or .bal) or Bundler (.out), both also with .bz2 or .gz, daba's own .npz,
            which loses nothing, .ply, points and cameras for a viewer, or .daba, a store for one
            device (`daba.io.store.save` writes one for several); any other name, if the
            problem was read from a COLMAP model, is the folder of that model, adjusted
        format: "bal", "bundler", "colmap", "npz", "ply" or "store" if the file's name does not say
        kind: COLMAP: "binary" or "text"; "same" is as it was read
        overwrite: COLMAP: whether the folder may be the one that was read
    """
    form = target_format(path, colmap.is_colmap(problem), format)
    if form.save is None:
        raise DabaError(f"{path}: {form.name} files are read, never written")
    options = {"kind": kind, "overwrite": overwrite} if form.name == "colmap" else {}
    form.save(problem, path, **options)


def must_exist(path: Path) -> None:
    """Raise `DabaError` for what is to be read, and is not there."""
    if not path.exists():
        raise DabaError(f"cannot read {path}: there is no such file or folder")


def target_format(path: PathLike, from_colmap: bool, name: str | None = None) -> Format:
    """The format in which a problem, read from a COLMAP model or not, is written to `path`."""
    suffix = split_suffix(path)[0]
    # a name such as model.obj is meant for a file, sparse/ba and sparse/0.5 are folders
    file = re.fullmatch(r"\.[a-z]+", suffix) and not Path(path).is_dir()
    folder = not file and not is_store(Path(path)) and suffix != ".daba"
    return _find(path, "colmap" if name is None and from_colmap and folder else name)


def _point_to_models(path: PathLike) -> None:
    """COLMAP numbers its models: sparse holds 0, 1, …, and is itself none."""
    if Path(path).is_dir():
        models = sorted(entry.name for entry in Path(path).iterdir() if colmap.is_model(entry))
        if models:
            raise DabaError(
                f"{path} holds COLMAP models ({', '.join(models[:5])}) and is none itself: give "
                f"one of them, such as {Path(path) / models[0]}"
            )


def _point_to_folder(path: Path) -> None:
    """Of what is one of a model's own files."""
    own = path.suffix in (".bin", ".txt") and path.stem in NEEDED
    if own and path.is_file() and colmap.is_model(path.parent):
        raise DabaError(f"{path} is part of a COLMAP model: give its folder, {path.parent}")


def _find(path: PathLike, name: str | None) -> Format:
    if name is not None:
        for form in FORMATS:
            if form.name == name:
                return form
        known = ", ".join(form.name for form in FORMATS)
        raise DabaError(f"unknown format {name!r}; known are {known}")
    suffix, compression = split_suffix(path)
    if not is_store(Path(path)):
        if colmap.is_model(path):
            return _find(path, "colmap")
        _point_to_models(path)
        _point_to_folder(Path(path))
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
    raise DabaError(
        f"{path}: unknown kind of file '{suffix + compression}'; known are {known}, and folders "
        "with a COLMAP model"
    )
