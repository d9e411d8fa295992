"""From a problem that was read from a COLMAP model to a folder with the model, adjusted.

The files are those of the model with numbers replaced, so everything else in them stays: names,
colours, tracks, ids, images without a pose, 2D points without a 3D point, rigs.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal

from daba.core.errors import DabaError
from daba.io.colmap.model import KINDS, NEEDED, RIGGED, Model, resolved
from daba.io.colmap.parts import Edits
from daba.io.colmap.solution import edits_of, is_colmap, model_of
from daba.io.colmap.theirs import pycolmap
from daba.io.files import PathLike, folder_target, to_disk, writing_folder
from daba.io.folders import output_folder
from daba.problem.problem import Problem

Kind = Literal["same", "binary", "text"]

BESIDE = "project.ini"
"""What COLMAP may have put beside a model; it is copied."""
OURS = {f"{part}{kind.SUFFIX}" for part in NEEDED + RIGGED for kind in KINDS.values()} | {BESIDE}


def save(problem: Problem, path: PathLike, kind: Kind = "same", overwrite: bool = False) -> None:
    """Write the model with the problem's estimate; the folder appears complete or not at all.

    kind        "binary" or "text"; "same" is as it was read
    overwrite   whether this may be the folder the problem was read from
    """
    if not is_colmap(problem):
        raise DabaError(
            f"cannot write {path} as a COLMAP model: '{problem.name}' was not read from one, and "
            "images, colours and tracks would be missing"
        )
    if kind not in ("same", "binary", "text"):
        raise DabaError(f"kind must be 'same', 'binary' or 'text', not {kind!r}")
    if "path" not in problem.info["colmap"]:
        raise DabaError(
            f"cannot write {path}: '{problem.name}' came from a pycolmap.Reconstruction, not from "
            "files; let daba.colmap.update put the result into it, and pycolmap write it"
        )
    check_target(path, problem.info["colmap"]["path"], overwrite)
    model = model_of(problem)
    edits = edits_of(problem, model)
    with output_folder(path, _check_folder) as folder:
        _write(model, edits, folder)
        if kind not in ("same", model.kind):
            _change_kind(folder, kind)


def check_target(path: PathLike, source: PathLike, overwrite: bool) -> None:
    """Raise `DabaError` if no model read from `source` can be written there."""
    _check_folder(path)
    if resolved(path) == resolved(source) and not overwrite:
        raise DabaError(
            f"cannot write {path}: this is the model that is read; choose another folder, or allow "
            "it with --overwrite"
        )


def _check_folder(path: PathLike) -> None:
    target = folder_target(path, "a COLMAP model")
    if target.is_dir():
        with writing_folder(path):
            others = sorted(set(os.listdir(target)) - OURS)
        if others:
            raise DabaError(
                f"cannot write {path}: the folder holds '{others[0]}', which is not part of a "
                "COLMAP model; choose another name"
            )


def _write(model: Model, edits: Edits, folder: Path) -> None:
    files, written = model.files, []

    def put(part: str, data: bytes) -> None:
        written.append(folder / model.path(part).name)
        written[-1].write_bytes(data)

    put("cameras", files.write_cameras(model.data("cameras"), model.cameras, edits))
    put("images", files.write_images(model.data("images"), model.images, edits))
    points = files.write_points(model.data("points3D"), model.points, model.images, edits)
    put("points3D", points)
    if edits.frames is not None:
        put("rigs", files.write_rigs(model.data("rigs"), edits.sensors))
        put("frames", files.write_frames(model.data("frames"), model.frames, edits.frames))
    if (model.folder / BESIDE).is_file():
        shutil.copy(model.folder / BESIDE, folder / BESIDE)
    to_disk(written)


def _change_kind(folder: Path, kind: str) -> None:
    """Let pycolmap write the model in its other form."""
    model = Model(folder)
    theirs = pycolmap().Reconstruction(os.fspath(folder))
    for part in model.parts:
        model.path(part).unlink()
    (theirs.write_text if kind == "text" else theirs.write_binary)(os.fspath(folder))
