"""The problems of a benchmark: files, and scenes that are made when they are first needed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from daba.core.errors import DabaError
from daba.core.types import frozen
from daba.io.files import split_suffix, writing_folder

SCENES = ("city:100:10000", "orbit:60:6000")
"""What is solved by default."""


@frozen
class BenchProblem:
    """A problem that can be read when its turn comes."""

    name: str
    path: Path
    checksum: str
    """Checksum of its content: another file of the same name is another problem."""

    @property
    def size(self) -> int:
        """Bytes, roughly, as text; only the time left is estimated by it."""
        return self.path.stat().st_size * (4 if split_suffix(self.path)[1] else 1)


def find_problems(given: Iterable[str], folder: Path) -> list[BenchProblem]:
    """Sources of files and of scenes such as city:100:10000 (scene, cameras, points), which are
    written to `folder` unless they are there."""
    sources = [_source(_scene(text, folder) if ":" in text else Path(text)) for text in given]
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise DabaError(f"two problems are called '{name}'; rename one of the files")
    return sources


def _source(path: Path) -> BenchProblem:
    if not path.is_file():
        raise DabaError(f"cannot read {path}: there is no such file")
    name = path.name.split(".")[0]
    return BenchProblem(name, path, hashlib.sha256(path.read_bytes()).hexdigest()[:16])


def _scene(text: str, folder: Path) -> Path:
    found = re.fullmatch(r"([a-z]+):(\d+):(\d+)", text)
    if found is None:
        raise DabaError(f"'{text}' is no scene; write SCENE:CAMERAS:POINTS, as in {SCENES[0]}")
    path = folder / f"{text.replace(':', '-')}.txt"
    if not path.exists():
        from daba.io.formats import save
        from daba.tools.synthetic import SceneOptions, generate

        kind: Any = found[1]
        options = SceneOptions(scene=kind, cameras=int(found[2]), points=int(found[3]))
        start = generate(options.validated()).start
        with writing_folder(folder):
            folder.mkdir(parents=True, exist_ok=True)
        save(start, path)
    return path
