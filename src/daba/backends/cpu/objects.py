"""Machine code that is loaded without Numba, whose import and loading take half a second of a
process: a worker links what it has compiled, and who runs it only maps it into memory
(`compiled.py`).

Numba compiles for the large code model, so all that ties an object to the rest of a process are
whole addresses. A worker lays the sections out and notes where in this image an address stands,
and of what: of another place in it, or of a symbol (`symbols.py`). Whatever is not of this kind, of
another system, or wants Python objects that only Numba makes, is left to Numba.
"""

from __future__ import annotations

import mmap
import struct
from typing import Any

import numpy as np

from daba.backends.cpu.compiled import Linked, LinkError

_SECTION = np.dtype([
    ("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"),
    ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8"),
])  # fmt: skip
_SYMBOL = np.dtype([
    ("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
    ("size", "<u8"),
])  # fmt: skip
_RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
WRITE, ALLOCATE = 1, 2
"""Flags of sections."""
SYMBOLS, RELOCATIONS, EMPTY, UNWINDING = 2, 4, 8, 0x70000001
"""Types of sections."""
COMMON = 0xFFF2
"""Section of a symbol that is given room by whoever links."""
ADDRESS = 1
"""Type of a relocation: 64 bits, symbol + addend."""
CONSTANTS = "PyList_GetItem"
"""With it kernels get at Python objects that Numba makes for them, such as types of results."""
IMAGE = -1
"""Not of a symbol."""


def link(elf: bytes, wrapper: str, environment: str, signature: list[Any]) -> Linked:
    """An object file of x86-64 as an image. The wrapper is what Python calls; it looks whether the
    environment that Numba would give it is there."""
    table, count = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<H", elf, 60)[0]
    sections = np.frombuffer(elf, _SECTION, count, table)
    symbols, names = _symbols(elf, sections)
    place, end, writable = _lay_out(sections)
    known, end = _find(symbols, place, end)
    image = np.zeros(end, np.uint8)
    for s, at in place.items():
        if sections[s]["type"] != EMPTY:
            content = _content(elf, sections[s], np.dtype(np.uint8))
            image[at : at + len(content)] = content
    outer: dict[str, int] = {}
    addresses = []
    for relocations in sections[sections["type"] == RELOCATIONS]:
        begin = place.get(int(relocations["info"]))
        for r in () if begin is None else _content(elf, relocations, _RELOCATION).tolist():
            offset, kind, symbol, addend = r
            if kind != ADDRESS:
                raise LinkError(f"a relocation of type {kind}")
            if symbol in known:
                of, addend = IMAGE, addend + known[symbol]
            else:
                of = outer.setdefault(names[symbol], len(outer))
            addresses.append((begin + offset, of, addend))
    by_name = {names[symbol]: at for symbol, at in known.items()}
    if CONSTANTS in outer or not by_name.keys() >= {wrapper, environment}:
        raise LinkError(f"{CONSTANTS}, or no wrapper")
    addresses.append((by_name[environment], IMAGE, 0))  # any: it is never looked into
    where = np.array(addresses, np.int64)
    return Linked(by_name[wrapper], writable, list(outer), signature, where, image.tobytes())


def _find(symbols: Any, place: dict[int, int], end: int) -> tuple[dict[int, int], int]:
    """Places of symbols; those that have none yet get one at the end, which moves."""
    known = {}
    for n, (_, _, _, section, value, size) in enumerate(symbols.tolist()):
        if section in place:
            known[n] = place[section] + value
        elif section == COMMON:
            known[n], end = end, end + -(-size // 8) * 8
    return known, end


def _content(elf: bytes, section: Any, kind: np.dtype[Any]) -> Any:
    count = int(section["size"]) // kind.itemsize
    return np.frombuffer(elf, kind, count, int(section["offset"]))


def _symbols(elf: bytes, sections: Any) -> tuple[Any, list[str]]:
    (table,) = sections[sections["type"] == SYMBOLS]
    symbols = _content(elf, table, _SYMBOL)
    text = _content(elf, sections[table["link"]], np.dtype("u1")).tobytes()
    return symbols, [text[at : text.index(b"\0", at)].decode() for at in symbols["name"]]


def _lay_out(sections: Any) -> tuple[dict[int, int], int, int]:
    """Places of sections, what is never written first; where they end; where the others begin."""
    used = (sections["flags"] & ALLOCATE > 0) & (sections["type"] != UNWINDING)
    written = sections["flags"] & WRITE > 0
    place, end = {}, 0
    for kind in (used & ~written, used & written):
        writable = end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        for s in np.flatnonzero(kind):
            align = max(int(sections[s]["align"]), 1)
            place[int(s)] = end = -(-end // align) * align
            end += int(sections[s]["size"])
    return place, -(-end // 8) * 8, writable
