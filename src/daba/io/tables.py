"""Small tables that tell of cameras and points: priors (CSV with a header) and lists of numbers or
image names. Errors name the file and the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from daba.core.errors import DabaError
from daba.core.losses import Loss
from daba.core.types import distinct, frozen
from daba.io.files import PathLike, open_input
from daba.problem.checks import LARGEST
from daba.problem.priors import Targets
from daba.problem.problem import Floats, Ints, Problem

SEVERAL = -1
"""In the place of the number of an image whose name others have, too."""
COVARIANCE = ("cxx", "cxy", "cxz", "cyy", "cyz", "czz")
SPREADS = (("sigma",), ("sx", "sy", "sz"), COVARIANCE)
"""Columns that may tell how well a position is known."""


def read_positions(path: PathLike, problem: Problem, loss: Loss) -> Targets:
    """Known centres of cameras, by number (column camera) or by image name (column image); or the
    pose priors of a COLMAP database."""
    if str(path).endswith(".db"):
        from daba.io.colmap.priors import read_pose_priors

        return read_pose_priors(path, problem, loss, names_of(problem))
    return _read(path, ("camera", "image"), problem, loss, names_of(problem))


def read_control_points(path: PathLike, problem: Problem, loss: Loss) -> Targets:
    """Known points, by number (column point)."""
    return _read(path, ("point",), problem, loss, {})


def read_list(path: PathLike, what: str, problem: Problem) -> Ints:
    """Numbers of cameras or points, or names of images, separated by white space or commas; what
    follows a # is not read."""
    names = names_of(problem) if what == "camera" else {}
    number = _numbering(what, problem)
    found = []
    for line, text in enumerate(io.StringIO(_text(path), newline=None), start=1):
        words = text.partition("#")[0].replace(",", " ").split()
        found += [_which(word, what, number, names, f"{path}, line {line}") for word in words]
    if not found:
        raise DabaError(f"{path}: no {what} is named in it")
    return distinct(np.array(found, np.int32))


def names_of(problem: Problem) -> dict[str, int]:
    """Camera of each image name, where the file had names; SEVERAL if more than one has it."""
    found: dict[str, int] = {}
    for i, name in enumerate(problem.image_names):
        found[name] = SEVERAL if name in found else i
    return found


@frozen
class _Row:
    which: int
    position: Floats
    covariance: Floats


def _read(
    path: PathLike, keys: tuple[str, ...], problem: Problem, loss: Loss, names: dict[str, int]
) -> Targets:
    lines = _rows(path)
    header = [word.strip().lower() for word in next(lines, (1, []))[1]]
    spread = _columns(path, header, keys)
    key = next(key for key in keys if key in header)
    what = "point" if key == "point" else "camera"
    number = _numbering(what, problem)
    rows: dict[int, int] = {}
    found: list[_Row] = []
    for line, words in lines:
        where = f"{path}, line {line}"
        if not any(word.strip() for word in words) or words[0].lstrip().startswith("#"):
            continue
        if len(words) != len(header):
            raise DabaError(f"{where}: {len(words)} values, but the header has {len(header)}")
        values = dict(zip(header, (word.strip() for word in words), strict=True))
        known = names if key != "point" else {}
        which = _which(values[key], what, number, known, where, named=key == "image")
        if which in rows:
            raise DabaError(f"{where}: {what} {values[key]} is on line {rows[which]} already")
        rows[which] = line
        position = np.array([_number(values, name, where) for name in "xyz"])
        numbers = [_number(values, name, where) for name in spread]
        found.append(_Row(which, position, _covariance(numbers, where)))
    if not found:
        raise DabaError(f"{path}: there is no {what} in it, only a header")
    sign = float(problem.info.get("world_sign", 1))
    return Targets.make(
        [row.which for row in found],
        sign * np.array([row.position for row in found]),
        covariance=np.array([row.covariance for row in found]),
        loss=loss,
    )


def _rows(path: PathLike) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table and their lines, which may end as on any system."""
    rows = csv.reader(io.StringIO(_text(path), newline=None), skipinitialspace=True)
    try:
        for words in rows:
            yield rows.line_num, words
    except csv.Error as error:
        raise DabaError(f"{path}, line {rows.line_num}: no table: {error}") from None


def _columns(path: PathLike, header: list[str], keys: tuple[str, ...]) -> tuple[str, ...]:
    """Check the header; which columns tell the spread."""
    wanted = f"{' or '.join(keys)}, x, y, z and one of sigma; sx, sy, sz; {', '.join(COVARIANCE)}"
    spreads = [spread for spread in SPREADS if set(spread) <= set(header)]
    complete = any(key in header for key in keys) and {"x", "y", "z"} <= set(header)
    if not complete or not spreads or len(set(header)) < len(header):
        raise DabaError(f"{path}, line 1: the header must name the columns {wanted}")
    return spreads[-1]


def _covariance(numbers: list[float], where: str) -> Floats:
    if len(numbers) < 6:
        sigma = np.broadcast_to(np.array(numbers), 3)
        if not (sigma > 0).all():
            raise DabaError(f"{where}: standard deviations must be positive")
        if (sigma < 1.0 / LARGEST).any():
            raise DabaError(f"{where}: a standard deviation below {1.0 / LARGEST:g} is none")
        return np.diag(np.square(sigma))
    xx, xy, xz, yy, yz, zz = numbers
    matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if not np.linalg.eigvalsh(matrix)[0] > LARGEST**-2:
        raise DabaError(f"{where}: the covariance is not positive definite")
    return matrix


def _number(values: dict[str, str], name: str, where: str) -> float:
    try:
        value = float(values[name])
    except ValueError:
        raise DabaError(f"{where}: {name} must be a number, not '{values[name]}'") from None
    if not abs(value) <= LARGEST:
        raise DabaError(f"{where}: {name} must be finite, and no such number: '{values[name]}'")
    return value


def _which(
    word: str,
    what: str,
    number: Callable[[int], int],
    names: dict[str, int],
    where: str,
    named: bool = False,
) -> int:
    """The camera or point that a word stands for."""
    if names.get(word) == SEVERAL:
        raise DabaError(f"{where}: more than one image is named '{word}': give their numbers")
    if word in names:
        return names[word]
    if named:
        why = "the problem has no image of that name" if names else "the problem has no image names"
        raise DabaError(f"{where}: '{word}': {why}")
    try:
        found = number(int(word))
    except ValueError:
        raise DabaError(f"{where}: '{word}' is not the number of a {what}") from None
    if found < 0:
        raise DabaError(f"{where}: there is no {what} {word}")
    return found


def _numbering(what: str, problem: Problem) -> Callable[[int], int]:
    """From a number in a file to the problem's; −1 if there is none. Points that have ids in their
    own file go by these."""
    count = problem.num_cameras if what == "camera" else problem.num_points
    ids = problem.info.get("point_ids") if what == "point" else None
    if ids is not None:
        by_id = {int(name): i for i, name in enumerate(ids)}
        return lambda name: by_id.get(name, -1)
    return lambda number: number if 0 <= number < count else -1


def _text(path: PathLike) -> str:
    with open_input(path, compressed=False) as stream:
        data = stream.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DabaError(f"{Path(path)}: not a text file") from None
