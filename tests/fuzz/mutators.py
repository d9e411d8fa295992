"""Mutations of bytes, text, JSON and arrays, all drawn from one `random.Random`."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Random = random.Random

WORDS = (
    "nan", "inf", "-inf", "-1", "0", "-0", "0.5", "1e309", "1e-400", "-1e300", "1e300", "1e18",
    "2147483647", "2147483648", "-2147483649", "9223372036854775808", "99999999999999999999",
    "", "x", "0x10", "1_0", "１", "\x00", "\x1b[31m", "é", "#", "1 2", "1,2", "1e", "--", "'",
    '"', '"\n"',
)  # fmt: skip
"""What a number in a text may become."""
VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 0.5, 10**30, -(2**63), 1e308, float("nan"), float("inf"), "", "x",
    "\ud800", "\udcff", "<script>", "\x1b[2J", "0", [], {}, [1], [[]], {"a": 1}, [None] * 3,
)  # fmt: skip
"""What a value in JSON may become."""


def mutate_bytes(data: bytes, draw: Random) -> bytes:
    """One damage, as disks, networks and editors do it."""
    at = draw.randrange(len(data) + 1)
    size = min(draw.choice((1, 1, 2, 4, 8, 64, 1000)), len(data) - at)
    end = at + size
    kind = draw.randrange(8)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[end:]
    if kind == 2:
        return data[:at] + draw.randbytes(max(size, 1)) + data[at:]
    if kind == 3:
        return data[:end] + data[at:]
    if kind == 4:
        return data[:at] + bytes(size) + data[end:]
    if kind == 5:
        return data[:at] + b"\xff" * size + data[end:]
    if kind == 6:
        return data[:at] + draw.randbytes(size) + data[end:]
    flipped = bytes(byte ^ (1 << draw.randrange(8)) for byte in data[at : at + 1])
    return data[:at] + flipped + data[at + 1 :]


def mutate_text(data: bytes, draw: Random) -> bytes:
    """A number replaced, or lines moved, lost, repeated or ended otherwise."""
    kind = draw.randrange(10)
    if kind < 5:
        numbers = list(re.finditer(rb"[^\s,]+", data))
        if numbers:
            found = draw.choice(numbers)
            word = draw.choice(WORDS).encode()
            return data[: found.start()] + word + data[found.end() :]
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    if kind == 5:
        del lines[at]
    elif kind == 6:
        lines.insert(draw.randrange(len(lines)), lines[at])
    elif kind == 7:
        ends = draw.choice((b"\r\n", b"\r", b"\n\n", b" \n", b"\n\t", b"\x0b", b"\x85", b"\x00"))
        return ends.join(lines)
    elif kind == 8:
        lines[at] = draw.choice((b"", b"#", b" ", b"\xef\xbb\xbf" + lines[at], lines[at][:-1]))
    else:
        return mutate_bytes(data, draw)
    return b"\n".join(lines)


def mutate_json(value: Any, draw: Random) -> Any:
    """One value, somewhere, replaced, lost or doubled."""
    places = _places(value)
    if not places or draw.random() < 0.02:
        return draw.choice(VALUES)
    holder, key = draw.choice(places)
    kind = draw.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.append(holder[key])
    elif kind == 2 and isinstance(holder[key], (int, float)) and holder[key]:
        holder[key] = draw.choice((-1, 2, 0.5, 1e6)) * holder[key]
    else:
        holder[key] = draw.choice(VALUES)
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value of JSON at which another could be."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else []
    )
    found = [(value, key) for key in keys]
    for key in keys:
        found += _places(value[key])
    return found


def mutate_array(array: np.ndarray, draw: Random) -> np.ndarray:
    """Numbers replaced, or another shape, type or order."""
    kind = draw.randrange(10)
    if kind < 6 and array.size:
        array = array.copy()
        extremes: tuple[float, ...] = (
            -1,
            0,
            1,
            2,
            127,
            2**31 - 1,
            -(2**31),
            2**40,
            -5.0,
            0.5,
            1e300,
            1e-300,
        )
        if array.dtype.kind == "f":
            extremes += (np.nan, np.inf, -np.inf)
        for _ in range(draw.choice((1, 1, 3))):
            at = draw.randrange(array.size)
            other = array.flat[draw.randrange(array.size)]
            with np.errstate(all="ignore"):
                array.flat[at] = np.array(draw.choice((*extremes, other))).astype(array.dtype)
        return array
    if kind == 6 and array.ndim:
        return draw.choice(
            (array[1:], array[:0], np.concatenate([array, array[:1]]), array[::-1].copy())
        )
    if kind == 7:
        shapes: tuple[Callable[[], np.ndarray], ...] = (
            lambda: array.reshape(-1), lambda: array[None], lambda: array.T.copy(),
            lambda: np.asfortranarray(array), lambda: np.array(1.0),
        )  # fmt: skip
        return draw.choice(shapes)()
    if kind == 8:
        words, numbers = ("S3", "U2"), ("f4", ">f8", "i8", "i4", "u1", "?", "c16")
        with np.errstate(all="ignore"):
            return array.astype(draw.choice(words if array.dtype.kind in "SU" else numbers + words))
    order = list(range(len(array))) if array.ndim else []
    draw.shuffle(order)
    return array[order] if array.ndim else array


def read_npy(data: bytes) -> np.ndarray:
    return np.load(io.BytesIO(data), allow_pickle=False)


def write_npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def mutate_npz(data: bytes, draw: Random, head: str = "") -> bytes:
    """An archive of NumPy with one entry changed, lost or added, or its bytes damaged.

    head   the name of an entry that holds JSON
    """
    if draw.random() < 0.3:
        return mutate_bytes(data, draw)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(list(entries))
    kind = draw.randrange(10)
    if kind == 0:
        del entries[name]
    elif kind == 1:
        entries[draw.choice(("x.npy", "info.colors.npy", "x", "../y.npy"))] = entries[name]
    elif kind == 2:
        entries[name] = mutate_bytes(entries[name], draw)
    elif kind == 3 and head in entries:
        text = bytes(read_npy(entries[head]))
        content = mutate_json(json.loads(text), draw)
        entries[head] = write_npy(np.frombuffer(json.dumps(content).encode(), np.uint8))
    elif kind == 4:
        claimed = re.sub(
            rb"'shape': \((\d+)", b"'shape': (%d" % 10 ** draw.choice((3, 9, 12, 20)), entries[name]
        )
        entries[name] = claimed
    else:
        entries[name] = write_npy(mutate_array(read_npy(entries[name]), draw))
    out = io.BytesIO()
    how = draw.choice(
        (zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)
    )
    with zipfile.ZipFile(out, "w", how) as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)
    return out.getvalue()
