"""Bundler's `bundle.out` (version 0.3), which 1DSfM, VisualSFM and others write, too.

    # Bundle file v0.3
    cameras points
    f k1 k2  R (3×3)  t         15 numbers per camera
    X Y Z  r g b                6 numbers per point, then its views:
    count  camera key x y …     pixels, from the centre of the image, y up

BAL was made from such files: cameras mean the same, and `forward` makes them ours. Cameras with
f = 0 were never registered. They are left out of the problem and written again where they were.

The numbers come as one stream (`numbers`), block by block. How long a point is stands in it, so
one loop in Python goes from point to point; all that is in the points, observations above all,
is then taken out of the block with array operations.

What Bundler has and the method does not is kept in `problem.info`:

    colors   (P,3)              keys       (K,) number of each observation's image feature
    images   lines of list.txt  registered (C,) number in the file of each camera, if some of
                                its `cameras_in_file` are left out
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.core.types import starts
from daba.io import bal_weights
from daba.io.errors.bal import MAX_COUNT
from daba.io.errors.bundler import MAGIC, MOST_VIEWS, explain, is_rotation, parse_counts
from daba.io.files import PathLike, open_input, open_output
from daba.io.forward import (
    ForwardCameras,
    ForwardObservations,
    Reading,
    check_intrinsics,
    divisors,
    from_problem,
    pixels,
    to_problem,
)
from daba.io.image_list import load_images, save_images
from daba.io.numbers import MisfitError, check_size, chunks, first_line, numbers, write_rows
from daba.problem.problem import Floats, Problem

_CAMERA, _POINT, _VIEW = 15, 7, 4  # numbers of each; a point's seventh counts its views
_AT_ONCE = 1 << 13  # points written at once


class _Points(NamedTuple):
    """Some points of a file: (n,7) with the count of views last, and all views, (m,4)."""

    heads: Floats
    views: Floats


def load(path: PathLike, intrinsics: Reading = "standard") -> Problem:
    """Read a Bundler file, and the names of its images if list.txt is beside it.

    intrinsics   how k1 and k2 are read, as in `daba.io.bal.load`. The published problems of BAL
                 hold them in units of pixels, Bundler's own files do not: there "paper" makes
                 sense only where they are 0.
    """
    check_intrinsics(intrinsics)
    try:
        with open_input(path) as stream:
            cameras, (heads, views) = _read(stream)
    except MisfitError:
        raise explain(path) from None
    found = {"colors": _colours(heads[:, 3:6])} | load_images(path, len(cameras))
    registered = np.flatnonzero(cameras[:, 0] > 0)
    point = np.repeat(np.arange(len(heads), dtype=np.int32), heads[:, 6].astype(np.int64))
    camera = views[:, 0].astype(np.int32)
    if len(registered) < len(cameras):
        found |= {"registered": registered, "cameras_in_file": len(cameras)}
        number = np.full(len(cameras), -1, np.int32)
        number[registered] = np.arange(len(registered))
        camera = number[camera]
        if (camera < 0).any():
            _warn_of_lost_views(path, int((camera < 0).sum()))
            views, point, camera = views[camera >= 0], point[camera >= 0], camera[camera >= 0]
    found["keys"] = views[:, 1].astype(np.int32)
    problem = to_problem(
        path,
        intrinsics,
        _cameras(cameras[registered]),
        heads[:, :3].copy(),
        ForwardObservations(camera, point, views[:, 2:].copy()),
    )
    problem.info.update(found)
    return problem


def save(problem: Problem, path: PathLike) -> None:
    """Write a Bundler file in the standard forward model, and list.txt if names are known.

    Views are written point by point, those of a point in the order of the problem. As with BAL,
    a file with .weights.json after its name keeps what the objective needs.
    """
    cameras = from_problem(problem)
    order = np.argsort(problem.point_index, kind="stable")
    counts = np.bincount(problem.point_index, minlength=problem.num_points)
    ends = starts(counts)
    number, total = _numbers_in_file(problem)
    with open_output(path) as out:
        out.write(MAGIC + b"\n%d %d\n" % (total, problem.num_points))
        rows = np.zeros((total, _CAMERA))
        rows[number] = np.hstack([cameras.model, cameras.R.reshape(-1, 9), cameras.t])
        for c in chunks(total):
            write_rows(out, "%.17g %.17g %.17g\n" * 5, list(rows[c].T))
        for c in chunks(problem.num_points, _AT_ONCE):
            views = order[ends[c.start] : ends[c.stop]]
            _write_points(out, problem, c, counts[c], views, number)
    f = cameras.model[:, 0]
    bal_weights.save(path, f, divisors(problem, f))
    save_images(path, problem.info.get("images"), total)


def _read(stream: IO[bytes]) -> tuple[Floats, _Points]:
    """All cameras (C,15), and all points, as in the file."""
    if first_line(stream).removeprefix(b"\xef\xbb\xbf").split() != MAGIC.split():
        raise MisfitError
    try:
        C, P = parse_counts(first_line(stream))
    except DabaError:
        raise MisfitError from None
    check_size(stream, _CAMERA * C + _POINT * P)
    blocks = numbers(stream)
    cameras, rest = _take(blocks, _CAMERA * C)
    cameras = cameras.reshape(C, _CAMERA)
    pieces: list[_Points] = []
    left = P
    while left:
        first, end = _walk(rest, left, MOST_VIEWS * C)
        if len(first):
            pieces.append(_part(rest[:end], first, C))
            left, rest = left - len(first), rest[end:]
        else:
            more, _ = _take(blocks, 1, whole=True)
            rest = np.concatenate([rest, more])
    if len(rest) or any(len(block) for block in blocks):
        raise MisfitError
    f, R = cameras[:, 0], cameras[:, 3:12].reshape(-1, 3, 3)
    if not (np.isfinite(cameras).all() and (f >= 0).all() and is_rotation(R[f > 0]).all()):
        raise MisfitError
    return cameras, _Points(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


def _take(blocks: Iterator[Floats], count: int, whole: bool = False) -> tuple[Floats, Floats]:
    """The next `count` numbers (or the blocks they are in), and what follows in the last block."""
    found: list[Floats] = []
    have = 0
    while have < count:
        try:
            found.append(next(blocks))
        except StopIteration:
            raise MisfitError from None
        have += len(found[-1])
    values = np.concatenate(found)
    cut = have if whole else count
    return values[:cut], values[cut:]


def _walk(values: Floats, most: int, views: int) -> tuple[list[int], int]:
    """Where the points begin that are complete in `values`, at most so many, each with at most so
    many views, and their end."""
    begins: list[int] = []
    at, size, number = 0, len(values), memoryview(values.data)  # quicker than NumPy's own indexing
    while len(begins) < most and at + _POINT <= size:
        count = number[at + _POINT - 1]
        if not 0 <= count <= views or count % 1:
            raise MisfitError
        after = at + _POINT + _VIEW * int(count)
        if after > size:
            break
        begins.append(at)
        at = after
    return begins, at


def _part(values: Floats, begins: list[int], C: int) -> _Points:
    """The points that begin there, checked."""
    heads_at = np.array(begins)[:, None] + np.arange(_POINT)
    in_view = np.ones(len(values), bool)
    in_view[heads_at] = False
    heads, views = values[heads_at], values[in_view].reshape(-1, _VIEW)
    index = views[:, :2]
    whole = (index == np.floor(index)) & (np.abs(index) <= MAX_COUNT)
    seen = (index[:, 0] >= 0) & (index[:, 0] < C)
    if not (np.isfinite(values).all() and whole.all() and seen.all()):
        raise MisfitError
    return _Points(heads, views)


def _cameras(rows: Floats) -> ForwardCameras:
    # Nearest rotations: those in the file have lost digits, and solvers take them as exact.
    U, _, V = np.linalg.svd(rows[:, 3:12].reshape(-1, 3, 3))
    return ForwardCameras(U @ V, rows[:, 12:], rows[:, :3])


def _colours(values: Floats) -> np.ndarray:
    plain = values.clip(0, 255).astype(np.uint8)
    return plain if (plain == values).all() else values.copy()


def _warn_of_lost_views(path: PathLike, count: int) -> None:
    warnings.warn(
        f"{Path(path).name}: {count} views are left out, because their cameras were never "
        "registered (their focal length is 0)",
        DabaWarning,
        stacklevel=3,
    )


def _numbers_in_file(problem: Problem) -> tuple[np.ndarray, int]:
    """The number each camera gets in a file, and how many cameras that has."""
    C, total = problem.num_cameras, problem.info.get("cameras_in_file", 0)
    known = np.asarray(problem.info.get("registered", ()), np.int64)
    if len(known) == C and (known >= 0).all() and (known < total).all():
        return known, int(total)
    return np.arange(C), C


def _write_points(
    out: IO[bytes],
    problem: Problem,
    points: slice,
    counts: np.ndarray,
    views: np.ndarray,
    number: np.ndarray,
) -> None:
    """Some points and their views, formatted by one call of `%`."""
    begins = starts(_POINT + _VIEW * counts)
    values = np.empty(begins[-1])
    heads_at = begins[:-1, None] + np.arange(_POINT)
    in_view = np.ones(len(values), bool)
    in_view[heads_at] = False
    colours = _fitting(problem.info, "colors", (problem.num_points, 3))[points]
    values[heads_at] = np.column_stack([-problem.points[points], colours, counts])
    keys = _fitting(problem.info, "keys", (problem.num_observations,))[views]
    camera = number[problem.camera_index[views]]
    values[in_view] = np.column_stack([camera, keys, pixels(problem, views)]).ravel()
    head = "%.17g %.17g %.17g\n%.17g %.17g %.17g\n%d"
    # 15 digits give back the decimal numbers that were read before dividing by f.
    text = "".join([head + " %d %d %.15g %.15g" * n + "\n" for n in counts.tolist()])
    out.write((text % tuple(values.tolist())).encode("ascii"))


def _fitting(info: dict[str, Any], key: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array of `info`, or zeros where it is missing or belongs to another problem."""
    array = np.asarray(info.get(key, ()))
    return array if array.shape == shape else np.zeros(shape)
