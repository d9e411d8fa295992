"""Saying what is wrong with a BAL file, and in which line.

The reader takes a file as a stream of numbers, which is fast but knows no lines. When
something does not fit, `explain` reads the file again, line by line, and finds the first
line that is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from daba.core.errors import DabaError
from daba.io.files import PathLike, is_pipe, open_input
from daba.io.numbers import NOTHING

PIECE = 1 << 20
"""Bytes of a line that are looked at together."""
MAX_COUNT = 2**31 - 1
"""Cameras and points are numbered with 32 bits."""


def parse_header(line: bytes) -> tuple[int, int, int]:
    """Counts of cameras, points and observations, or a `DabaError` without file and line."""
    tokens = line.removeprefix(b"\xef\xbb\xbf").split()
    try:
        C, P, K = (int(token) for token in tokens)
    except ValueError:
        raise DabaError(
            "a BAL file begins with three whole numbers, 'cameras points observations', "
            f"but here is {show(line)}; is this a BAL file?"
        ) from None
    for what, count in (("cameras", C), ("points", P), ("observations", K)):
        if count <= 0:
            raise DabaError(f"the number of {what} must be positive, not {count}")
        if count > MAX_COUNT and what != "observations":
            raise DabaError(f"{count} {what} are more than the supported {MAX_COUNT}")
    return C, P, K


def explain(path: PathLike) -> DabaError:
    """The error to raise for a BAL file that could not be read as a stream of numbers."""
    name = Path(path).name
    if is_pipe(path):
        return DabaError(f"{name}: what came out of the pipe is no BAL file, or was cut short")
    with open_input(path) as stream:
        lines = lines_of(stream)
        number, line = next(lines, (0, b""))
        if not number:
            return DabaError(f"{name}: the file is empty")
        try:
            C, P, K = parse_header(line)
            for k in range(K):
                number, line = next(lines, (0, b""))
                if not number:
                    return DabaError(
                        f"{name}: the file ends after {k} of the {K} observations that its "
                        "first line announces; it was probably cut short"
                    )
                _check_observation(line, k, C, P, K)
            found, expected = 0, 9 * C + 3 * P
            for number, line in lines:  # noqa: B007 (the except clause names it)
                if found == expected and line.startswith(b"#"):
                    continue
                for token in line.split():
                    if found == expected:
                        raise DabaError(
                            f"{show(token)} follows after the last point; {C} cameras with 9 "
                            f"numbers and {P} points with 3 are complete"
                        )
                    _check_parameter(token, found, C)
                    found += 1
        except DabaError as error:
            return DabaError(f"{name}, line {number}: {error}")
        if found < expected:
            return DabaError(
                f"{name}: the file ends too early, after line {number}: {expected} numbers must "
                f"follow the observations (9 for each of {C} cameras, 3 for each of {P} points) "
                f"but there are {found}"
            )
    return DabaError(f"{name}: cannot be read as a BAL file: one observation per line is expected")


def lines_of(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers. One that is very long comes in pieces that end
    in white space; of a comment that is, only the first."""
    number, whole, comment, rest, blank = 1, True, False, b"", 0
    while piece := stream.readline(PIECE):
        ends, cut_short = piece.endswith(b"\n"), len(piece) == PIECE
        piece, rest = rest + piece, b""
        comment = piece.startswith(b"#") if whole else comment
        if cut_short and not ends and len(piece) <= 2 * PIECE:
            cut = max(map(piece.rfind, (b" ", b"\t"))) + 1
            piece, rest = piece[:cut], piece[cut:]
        blank = 0 if piece.strip() and not comment else blank + len(piece)
        if blank > NOTHING:
            raise DabaError(f"nothing follows for millions of bytes, before line {number}")
        if piece.strip() and (whole or not comment):
            yield number, piece
        whole = ends
        number += ends
    if rest.strip() and not comment:
        yield number, rest


def _check_observation(line: bytes, k: int, C: int, P: int, K: int) -> None:
    tokens = line.split()
    if len(tokens) != 4:
        raise DabaError(
            f"expected 4 values 'camera point x y', got {len(tokens)} "
            f"(this should be observation {k + 1} of {K})"
        )
    for token, what, count in ((tokens[0], "camera", C), (tokens[1], "point", P)):
        index = number_in(token)
        if index != math.floor(index):
            raise DabaError(f"the {what} index must be a whole number, not {show(token)}")
        if not 0 <= index < count:
            raise DabaError(
                f"{what} index {index:.0f} is out of range: there are {count} {what}s, "
                f"numbered from 0 to {count - 1}"
            )
    for token in tokens[2:]:
        number_in(token)


def _check_parameter(token: bytes, n: int, C: int) -> None:
    """The n-th number after the observations: 9 for each camera, then 3 for each point."""
    value = number_in(token)
    if n < 9 * C and n % 9 == 6 and not value > 0:
        raise DabaError(f"camera {n // 9}: the focal length must be positive, not {value:g}")


def number_in(token: bytes) -> float:
    try:
        if b"_" in token:  # Python's float would take it
            raise ValueError
        value = float(token)
    except ValueError:
        raise DabaError(f"{show(token)} is not a number") from None
    if not math.isfinite(value):
        raise DabaError(f"NaN or infinite value {show(token)}")
    return value


def show(text: bytes) -> str:
    """A piece of the file, quoted, that is safe to print whatever it holds."""
    short = text.strip()[:40]
    shown = repr(short.decode("ascii", "backslashreplace"))
    return shown + "…" if len(text.strip()) > len(short) else shown
