"""A folder with a COLMAP model: which files it has, and what they hold, read when first used."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from daba.core.errors import DabaError
from daba.io.colmap import binary, text
from daba.io.colmap.parts import Camera, Cameras, Frames, Images, Points, Rig
from daba.io.files import PathLike, open_input
from daba.io.numbers import MisfitError

KINDS: dict[str, ModuleType] = {"binary": binary, "text": text}
NEEDED = ("cameras", "images", "points3D")
RIGGED = ("rigs", "frames")

KEPT = 1 << 26
"""Bytes of files that are kept in memory while their problem is: reading them again would take half
the time of writing them."""

T = TypeVar("T")


def is_model(folder: PathLike) -> bool:
    """Whether the folder holds at least one file of a COLMAP model."""
    return any(
        (Path(folder) / (part + kind.SUFFIX)).is_file()
        for part in NEEDED
        for kind in KINDS.values()
    )


class Model:
    """The files of a folder; like COLMAP, binary is taken where there are both kinds."""

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        have = {
            kind: [part for part in NEEDED if (self.folder / (part + files.SUFFIX)).is_file()]
            for kind, files in KINDS.items()
        }
        self.kind = max(have, key=lambda kind: len(have[kind]))
        missing = [part for part in NEEDED if part not in have[self.kind]]
        if missing:
            raise DabaError(
                f"{folder} is no complete COLMAP model: {missing[0]}{self.files.SUFFIX} is missing"
            )
        rigged = [part for part in RIGGED if self.path(part).is_file()]
        if len(rigged) == 1:
            other = RIGGED[1 - RIGGED.index(rigged[0])]
            raise DabaError(
                f"{folder} is no complete COLMAP model: it has {self.path(rigged[0]).name}, but "
                f"{self.path(other).name} is missing"
            )
        self.has_rigs = bool(rigged)
        self._data: dict[str, bytes] = {}

    @property
    def files(self) -> ModuleType:
        return KINDS[self.kind]

    @property
    def parts(self) -> tuple[str, ...]:
        return NEEDED + RIGGED if self.has_rigs else NEEDED

    def path(self, part: str) -> Path:
        return self.folder / (part + self.files.SUFFIX)

    def where(self, part: str) -> str:
        return str(self.path(part))

    def data(self, part: str) -> bytes:
        if part not in self._data:
            with open_input(self.path(part), compressed=False) as stream:
                self._data[part] = stream.read()
        return self._data[part]

    def state(self) -> tuple[tuple[int, int, int], ...]:
        """Changes whenever a file does, or is replaced."""
        found = (os.stat(self.path(part)) for part in self.parts)
        return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)

    @cached_property
    def cameras(self) -> Cameras:
        return self._read("cameras", self.files.read_cameras)

    @cached_property
    def images(self) -> Images:
        return self._read("images", self.files.read_images)

    @cached_property
    def points(self) -> Points:
        return self._read("points3D", self.files.read_points)

    @cached_property
    def rigs(self) -> list[Rig]:
        return self._read("rigs", self.files.read_rigs)

    @cached_property
    def frames(self) -> Frames:
        return self._read("frames", self.files.read_frames)

    @cached_property
    def camera_by_id(self) -> dict[int, Camera]:
        return {camera.id: camera for camera in self.cameras.all}

    def _read(self, part: str, read: Callable[[bytes], T]) -> T:
        path = self.path(part)
        try:
            return read(self.data(part))
        except MisfitError as error:
            raise DabaError(f"{path}: {error}") from None
        except (ValueError, IndexError, OverflowError, struct.error):
            raise DabaError(f"{path}: it is damaged or cut short") from None


class Origin(dict[str, str]):
    """What `problem.info` says of the model a problem was read from: "path", "kind" and "rigs".

    A small model stays in memory for the time that its problem does, so that it need not be read
    again to be written, unless its files have changed.
    """

    def __init__(self, content: dict[str, str], model: Model | None = None) -> None:
        super().__init__(content)
        self._kept = None
        if model is not None and sum(size for _, size, _ in model.state()) <= KEPT:
            self._kept = model.state(), model

    def model(self) -> Model:
        model = Model(self["path"])
        if self._kept is not None and self._kept[0] == model.state():
            return self._kept[1]
        return model


def resolved(folder: PathLike) -> str:
    return os.path.realpath(folder)
