"""Saying what is wrong with a Bundler file, and in which line, as `bal.py` does for BAL."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from daba.core.errors import DabaError
from daba.io.errors.bal import MAX_COUNT, lines_of, number_in, show
from daba.io.files import PathLike, is_pipe, open_input

MAGIC = b"# Bundle file v0.3"
MOST_VIEWS = 100
"""Views of one point that one camera can have; one is right, and more than a few is no file of
cameras and points."""


def parse_counts(line: bytes) -> tuple[int, int]:
    """Counts of cameras and points, or a `DabaError` without file and line."""
    try:
        C, P = (int(token) for token in line.split())
    except ValueError:
        raise DabaError(
            f"expected two whole numbers, 'cameras points', but here is {show(line)}"
        ) from None
    for what, count in (("cameras", C), ("points", P)):
        if count <= 0:
            raise DabaError(f"the number of {what} must be positive, not {count}")
        if count > MAX_COUNT:
            raise DabaError(f"{count} {what} are more than the supported {MAX_COUNT}")
    return C, P


def is_rotation(R: np.ndarray) -> np.ndarray:
    """Which of some matrices, (n,3,3), are rotations to the digits that files give."""
    off = np.abs(np.einsum("nij,nkj->nik", R, R) - np.eye(3)).max(axis=(1, 2))
    return np.asarray((off < 1e-3) & (np.linalg.det(R) > 0))


def explain(path: PathLike) -> DabaError:
    """The error to raise for a Bundler file that could not be read as a stream of numbers."""
    name = Path(path).name
    if is_pipe(path):
        return DabaError(f"{name}: what came out of the pipe is no Bundler file, or was cut short")
    with open_input(path) as stream:
        reader = _Reader(stream)
        try:
            reader.read()
        except DabaError as error:
            return DabaError(f"{name}, line {reader.line}: {error}")
        except EOFError:
            if not reader.line:
                return DabaError(f"{name}: the file is empty")
            return DabaError(
                f"{name}: the file ends too early, after line {reader.line}, in {reader.section}; "
                "it was probably cut short"
            )
    return DabaError(f"{name}: cannot be read as a Bundler file")


class _Reader:
    """Reads one number after the other, and remembers where it is."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.lines = lines_of(stream)
        self.line = 0
        self.section = "its first lines"

    def read(self) -> None:
        line = self._next_line().removeprefix(b"\xef\xbb\xbf")
        if line.split() != MAGIC.split():
            raise DabaError(
                f"a Bundler file begins with '{MAGIC.decode()}', but here is {show(line)}; is this "
                "a Bundler file?"
            )
        C, P = parse_counts(self._next_line())
        tokens = self._tokens()
        for camera in range(C):
            self.section = f"camera {camera} of {C}"
            self._read_camera(tokens, camera)
        for point in range(P):
            self.section = f"point {point} of {P}"
            self._read_point(tokens, point, C)
        for token in tokens:
            raise DabaError(
                f"{show(token)} follows after the last point; {C} cameras and {P} points are "
                "complete"
            )

    def _read_camera(self, tokens: Iterator[bytes], camera: int) -> None:
        f = self._number(tokens)
        if f < 0:
            raise DabaError(f"camera {camera}: the focal length must not be negative, but is {f:g}")
        values = [self._number(tokens) for _ in range(11)]
        if f > 0 and not is_rotation(np.reshape(values[2:], (1, 3, 3)))[0]:
            raise DabaError(f"camera {camera}: its rotation matrix, which ends here, is none")
        for _ in range(3):
            self._number(tokens)

    def _read_point(self, tokens: Iterator[bytes], point: int, C: int) -> None:
        for _ in range(6):
            self._number(tokens)
        count = self._whole(tokens, f"point {point}: the number of its views")
        if not 0 <= count <= MOST_VIEWS * C:
            raise DabaError(f"point {point}: the number of its views must not be {count}")
        for _ in range(count):
            camera = self._whole(tokens, "the camera of a view")
            if not 0 <= camera < C:
                raise DabaError(
                    f"camera {camera} of a view is out of range: there are {C} cameras, numbered "
                    f"from 0 to {C - 1}"
                )
            self._whole(tokens, "the key of a view")
            for _ in range(2):
                self._number(tokens)

    def _next_line(self) -> bytes:
        found = next(self.lines, None)
        if found is None:
            raise EOFError
        self.line, line = found
        return line

    def _tokens(self) -> Iterator[bytes]:
        for number, line in self.lines:
            self.line = number
            if not line.startswith(b"#"):
                yield from line.split()

    def _number(self, tokens: Iterator[bytes]) -> float:
        for token in tokens:
            return number_in(token)
        raise EOFError

    def _whole(self, tokens: Iterator[bytes], what: str) -> int:
        value = self._number(tokens)
        if value != math.floor(value) or abs(value) > MAX_COUNT:
            raise DabaError(f"{what} must be a whole number up to {MAX_COUNT}, not {value:g}")
        return int(value)
