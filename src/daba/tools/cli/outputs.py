"""Refusing what cannot be written before the work is done rather than after."""

from __future__ import annotations

from pathlib import Path

from daba.core.errors import DabaError


def check_problem_target(path: Path, source: Path | None = None, overwrite: bool = False) -> None:
    """The same for what `daba.save` is to write, be it a folder; its suffix must be known, too, or
    `source`, what is read, be a COLMAP model."""
    from daba.io.colmap.writing import check_target as check_model
    from daba.io.files import file_target, split_suffix
    from daba.io.folders import check_folder
    from daba.io.formats import FORMATS, target_format

    model = None if source is None else colmap_folder(source)
    if model is not None and target_format(path, True).name == "colmap":
        return check_model(path, model, overwrite)
    suffix, compression = split_suffix(path)
    known = [form for form in FORMATS if form.save is not None]
    if not any(suffix in form.suffixes and (form.compressed or not compression) for form in known):
        suffixes = ", ".join(s for form in known for s in form.suffixes)
        raise DabaError(
            f"{path}: unknown kind of file '{suffix + compression}'; known are {suffixes} "
            "(.txt, .bal and .out also with .bz2 or .gz), and folders if a COLMAP model is read"
        )
    if suffix == ".daba":
        check_folder(path)
    else:
        file_target(path)


def colmap_folder(source: Path) -> str | None:
    """The folder of the COLMAP model that is read, be it from a store; None if it is none."""
    from daba.io.colmap import is_model
    from daba.io.folders import is_store
    from daba.io.store.store import Store

    if is_store(source):
        about = Store(source).info.get("colmap")
        return None if about is None else str(about["path"])
    return str(source) if is_model(source) else None
