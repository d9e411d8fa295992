"""Mutations that know the format: one field of a COLMAP model, or of JSON, made what it never is.

A byte changed at random is mostly a digit of a coordinate. Counts, ids, names and flags, which a
reader trusts most, are few: here they are as likely as anything else.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

NAMES = (
    b"", b"\n", b"a\nb", b"\x1b[2J\x1b[31m", b"\xff\xfe", b"../../up.jpg", b"/etc/passwd", b" ",
    b"#", b"x" * 5000, "\u202egpj.exe".encode(), b"<script>alert(1)</script>",
    b"\xed\xa0\x80",
)  # fmt: skip
"""What an image may be called."""
FLOATS = (
    0.0, -0.0, 5e-324, -5e-324, 1e-308, 1e308, -1e308, 1e155, 1e17, float("nan"), float("inf"),
    float("-inf"), -1.0,
)  # fmt: skip
BOMBS = (
    b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000, b"1e999", b"-Infinity", b"NaN", b'""', b"null",
    b'"\\ud800"', b"[]", b"{}", b"-0.0", b"1e-999", b"1" + b"0" * 400, b"true",
)  # fmt: skip
"""JSON that readers stumble over."""


class Field(NamedTuple):
    """A number, or a name that ends with a zero, in a file."""

    start: int
    size: int
    kind: str
    """As in `struct`; "name" for a name."""


class _Walk:
    """Reads a file of COLMAP from its beginning and keeps where everything stands."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.found = data, 0, list[Field]()

    def take(self, kinds: str) -> int:
        """Fields that follow; the value of the last."""
        value = 0
        for kind in kinds:
            field = Field(self.at, struct.calcsize("<" + kind), kind)
            (value,) = struct.unpack_from("<" + kind, self.data, self.at)
            self.at += field.size
            self.found.append(field)
        return value

    def name(self) -> None:
        size = self.data.index(b"\0", self.at) + 1 - self.at
        self.found.append(Field(self.at, size, "name"))
        self.at += size


def _cameras(walk: _Walk) -> None:
    counts = {0: 3, 1: 4, 2: 4, 3: 5}  # of the models that the examples have
    for _ in range(walk.take("Q")):
        model = walk.take("Ii")
        walk.take("QQ" + counts[model] * "d")


def _images(walk: _Walk) -> None:
    for _ in range(walk.take("Q")):
        walk.take("I" + 7 * "d" + "I")
        walk.name()
        for _ in range(walk.take("Q")):
            walk.take("ddQ")


def _points(walk: _Walk) -> None:
    for _ in range(walk.take("Q")):
        for _ in range(walk.take("QdddBBBdQ")):
            walk.take("II")


def _rigs(walk: _Walk) -> None:
    for _ in range(walk.take("Q")):
        sensors = walk.take("II")
        walk.take("iI" if sensors else "")
        for _ in range(sensors - 1):
            if walk.take("iIB"):
                walk.take(7 * "d")


def _frames(walk: _Walk) -> None:
    for _ in range(walk.take("Q")):
        for _ in range(walk.take("II" + 7 * "d" + "I")):
            walk.take("iIQ")


WALKS: dict[str, Callable[[_Walk], None]] = {
    "cameras": _cameras, "images": _images, "points3D": _points, "rigs": _rigs, "frames": _frames,
}  # fmt: skip


def fields(stem: str, data: bytes) -> list[Field]:
    """Every field of a binary file of COLMAP."""
    walk = _Walk(data)
    WALKS[stem](walk)
    assert walk.at == len(data)
    return walk.found


def mutate_binary(stem: str, data: bytes, draw: Random) -> bytes:
    """One field changed; each kind of field is as likely as any other, however many there are."""
    found = fields(stem, data)
    kind = draw.choice(sorted({field.kind for field in found}))
    alike = [field for field in found if field.kind == kind]
    field = draw.choice(alike)
    other = draw.choice(alike)
    end = field.start + field.size
    if kind == "name":
        name = draw.choice((*NAMES, data[other.start : other.start + other.size - 1]))
        return data[: field.start] + name + b"\0" + data[end:]
    was = data[field.start : end]
    new = draw.choice(list(_instead(kind, was, data[other.start : other.start + other.size])))
    return data[: field.start] + new + data[end:]


def _instead(kind: str, was: bytes, other: bytes) -> Iterator[bytes]:
    yield other  # an id twice, a count of somebody else
    if kind == "d":
        yield from (struct.pack("<d", value) for value in FLOATS)
        return
    (value,) = struct.unpack("<" + kind, was)
    bits = 8 * struct.calcsize("<" + kind)
    for number in (value + 1, value - 1, 0, 1, 2**31 - 1, 2**31, -1, -2, 2**62, 1000):
        yield (number % 2**bits).to_bytes(bits // 8, "little")


def mutate_words(data: bytes, draw: Random) -> bytes:
    """One word of a text made an extreme number or an odd name, or the whole text encoded or ended
    as on other systems."""
    kind = draw.randrange(12)
    if kind == 0:
        return data.decode().encode(draw.choice(("utf-16", "utf-32", "utf-8-sig", "utf-16-be")))
    if kind == 1:
        return data.replace(b"\n", b"\r\n")
    if kind == 2:
        return data.replace(b" ", draw.choice((b"\t", b"  ", b"\xa0", "\u2003".encode(), b",")))
    lines = data.split(b"\n")
    full = [n for n, line in enumerate(lines) if line.split()]
    at = draw.choice(full)
    words = lines[at].split(b" ")
    n = draw.randrange(len(words))
    if kind == 3:
        del words[n]
    elif kind == 4:
        words.insert(n, words[n])
    elif kind == 5:
        words[n] = draw.choice(NAMES)
    elif kind == 6:
        other = lines[draw.choice(full)].split(b" ")
        words[n] = other[min(n, len(other) - 1)]
    else:
        extremes = ("4294967295", "18446744073709551615", "18446744073709551616", "-1", "1" * 400)
        words[n] = draw.choice((*map(repr, FLOATS), *extremes)).encode()
    lines[at] = b" ".join(words)
    return b"\n".join(lines)


def mutate_document(data: bytes, draw: Random) -> bytes:
    """JSON in which one value, somewhere, is what readers stumble over."""
    value = json.loads(data)
    holders = list(_holders(value))
    if not holders or draw.random() < 0.05:
        return draw.choice(BOMBS)
    holder, key = draw.choice(holders)
    holder[key] = "@HERE@"
    return json.dumps(value).encode().replace(b'"@HERE@"', draw.choice(BOMBS), 1)


def _holders(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Places in a document, those near the top more often."""
    keys: Any = range(len(value)) if isinstance(value, list) else ()
    if isinstance(value, dict):
        keys = list(value)
    for key in keys:
        for _ in range(max(1, 6 - 2 * depth)):
            yield value, key
        yield from _holders(value[key], depth + 1)
