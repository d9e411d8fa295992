"""Text that is nothing but numbers, read in large blocks and written in large pieces.

Lines do not matter to the reader, which makes it fast; when something does not fit, the reader of
a format raises `MisfitError` and has a slower one find the line that is wrong.
"""

from __future__ import annotations

import io
import os
import stat
import warnings
from collections.abc import Iterator
from typing import IO

import numpy as np

from daba.problem.problem import Floats

BLOCK = 1 << 22  # bytes of text parsed at once
NOTHING = 1 << 20
"""Bytes without a number, blank or comments, that may follow each other: a small compressed file
must not be read for hours to find that nothing is in it."""
_CHUNK = 1 << 16  # rows handled at once


class MisfitError(Exception):
    """The numbers are not what the format asks for; who reads line by line will find out why."""


def numbers(stream: IO[bytes]) -> Iterator[Floats]:
    """The numbers of a text, block by block; lines with # may follow at the end."""
    rest, blank = b"", 0
    while True:
        block = stream.read(BLOCK)
        text = rest + block
        # Cut after white space, so that no number is torn; at the end there is nothing to cut.
        cut = max(map(text.rfind, (b"\n", b" ", b"\t"))) + 1 if block else len(text)
        text, rest = text[:cut], text[cut:]
        if len(rest) > BLOCK:  # no white space in millions of bytes: not text
            raise MisfitError
        text, mark, comment = text.partition(b"#")
        text = text.strip()
        if text:  # NumPy reads a number out of nothing but white space
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")  # NumPy 1 only warns of what it cannot read
                    values = np.fromstring(text, sep=" ")
            except (ValueError, DeprecationWarning):
                raise MisfitError from None
            yield values
        if mark:
            lines = (mark + comment + rest + stream.read(NOTHING)).splitlines()
            if not all(line.startswith(b"#") or not line.strip() for line in lines):
                raise MisfitError
            block = stream.read(1)
        blank = 0 if text else blank + len(block)
        if blank > NOTHING or (mark and block):
            raise MisfitError
        if mark or not block:
            return


def first_line(stream: IO[bytes]) -> bytes:
    """The next line that is not blank, or b'' at the end and where there is none for long."""
    blank = 0
    while (line := stream.readline(1000)) and not line.strip():
        blank += len(line)
        if blank > NOTHING:
            return b""
    return line


def check_size(stream: IO[bytes], count: int) -> None:
    """Refuse a file that is too small for so many numbers before memory is taken for them."""
    if isinstance(stream, io.BufferedReader):  # not compressed
        status = os.fstat(stream.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size < 2 * count:
            raise MisfitError


def write_rows(out: IO[bytes], row: str, columns: list[np.ndarray]) -> None:
    """Format one row for each entry of the columns; one call of `%` for all is fastest."""
    count, width = len(columns[0]), len(columns)
    values: list[float] = [0] * (count * width)
    for i, column in enumerate(columns):
        values[i::width] = column.tolist()
    out.write(((row * count) % tuple(values)).encode("ascii"))


def chunks(count: int, size: int = _CHUNK) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
