"""Kernels by name, for those who run them: found when first called, as machine code in the cache
that is only mapped into memory, or by Numba, and in both cases compiled by a worker if nobody has
yet.

Nothing that defines a kernel is imported here: it would import Numba.
"""

from __future__ import annotations

import ctypes
import functools
import json
import mmap
import os
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daba.backends.cpu import cache, symbols
from daba.backends.cpu.cache import Job, Name, job
from daba.backends.cpu.symbols import address_of
from daba.backends.cpu.threads import follow

HERE = __name__.rpartition(".")[0]
NUMBERS = {"int": {int, np.int64}, "float": {float, np.float64}, "bool": {bool, np.bool_}}
"""Types that a number may have."""
CHECKSUM = 4
"""Bytes, before all others. Against damage, not against evil: whoever can write here is trusted."""


class Kernel:
    """A kernel. Its variants are those of `job`; for arguments of other types Numba has it compiled
    when it is called."""

    def __init__(self, name: Name) -> None:
        self.name = name
        self.variants: list[tuple[list[Any], Callable[..., Any]]] | None = None

    def __call__(self, *arguments: Any) -> Any:
        return self.checked(*arguments)(*arguments)

    def checked(self, *arguments: Any) -> Callable[..., Any]:
        """What runs it, for arguments of these kinds only, which are not looked at again."""
        if self.variants is None:
            with _lock:
                if self.variants is None:
                    self.variants = self._load()
        for signature, function in self.variants:
            if fit(arguments, signature):
                return lambda *others: function(None, others, None)
        return self._by_numba

    def _load(self) -> list[tuple[list[Any], Callable[..., Any]]]:
        if cache.FOLDER is None or not symbols.usable():
            return []
        jobs = [job(self, constrained) for constrained in (False, True)]
        found = [_loaded(one) for one in jobs if one.finished]
        follow()
        return [variant for variant in found if variant is not None]

    @functools.cached_property
    def _by_numba(self) -> Any:
        from daba.backends.cpu.kernels.binding import find_kernel

        kernel = find_kernel(self.name)
        follow()
        return kernel


_lock = threading.RLock()
"""Of those who load."""


def _loaded(one: Job) -> tuple[list[Any], Callable[..., Any]] | None:
    """What a job has compiled, once more should that be damaged; None for what is Numba's."""
    try:
        try:
            linked = read(one.object)
        except DamageError:
            one.forget()
            cache.compile_jobs([one], tell=False)
            linked = read(one.object)
        return parse(linked.signature), install(linked)
    except (LinkError, DamageError, ImportError, OSError, ValueError, AttributeError):
        return None


class Kernels:
    """All kernels of a module, or of those that one of its factories makes."""

    def __init__(self, module: str, factory: str, arguments: tuple[Any, ...]) -> None:
        self._place = module, factory, arguments

    def __getattr__(self, kernel: str) -> Kernel:
        module, factory, arguments = self._place
        found = Kernel(Name(f"{HERE}.{module}", kernel, factory, arguments))
        setattr(self, kernel, found)
        return found


@functools.cache
def compiled(module: str, factory: str = "", *arguments: Any) -> Any:
    """The kernels of a module of this folder, by name."""
    return Kernels(module, factory, arguments)


def parse(kinds: list[Any]) -> list[Any]:
    """A signature as it is looked at: numbers by sets of types, arrays by type and dimensions,
    None, and bundles by lists of their members."""
    return [parse(kind) if isinstance(kind, list) else _parse_word(kind) for kind in kinds]


@functools.cache
def _parse_word(kind: str) -> Any:
    if kind == "none":
        return None
    return NUMBERS[kind] if kind in NUMBERS else (np.dtype(kind[:-1]), int(kind[-1]))


def fit(values: Sequence[Any], signature: list[Any]) -> bool:
    """Whether these are arguments that a kernel was compiled for; arrays are contiguous and may be
    written to. Numba takes half as long to find out: so `Pool` asks once for all threads."""
    if len(values) != len(signature):
        return False
    for value, kind in zip(values, signature, strict=True):
        form = type(kind)
        if form is tuple:
            dtype, dimensions = kind
            if (
                type(value) is not np.ndarray
                or value.dtype != dtype
                or value.ndim != dimensions
                or not value.flags.carray
            ):
                return False
        elif form is list:
            if not (isinstance(value, tuple) and fit(value, kind)):
                return False
        elif kind is None:
            if value is not None:
                return False
        elif type(value) not in kind:
            return False
    return True


class LinkError(Exception):
    """Left to Numba."""


class DamageError(Exception):
    """Not what a worker has written."""


class Linked(NamedTuple):
    """An image, and what is to be done to it."""

    wrapper: int
    """Its place."""
    writable: int
    """Begin of what is not code or constant, on a page of its own."""
    symbols: list[str]
    signature: list[Any]
    """Types of arguments, as `kernels/signatures.py` spells them."""
    addresses: np.ndarray
    """Places, what stands there (the address of a symbol by its number, of the image if that is
    −1), and what is added, (·, 3)."""
    image: bytes


def save(file: Path, linked: Linked | None) -> None:
    """For others to read; None: it is Numba's."""
    text = b""
    if linked is not None:
        *words, addresses, image = linked
        text = json.dumps([*words, len(addresses)]).encode() + b"\n" + addresses.tobytes() + image
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_bytes(zlib.crc32(text).to_bytes(CHECKSUM) + text)
    new.replace(file)


def read(file: Path) -> Linked:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise DamageError(str(error)) from error
    text = raw[CHECKSUM:]
    if len(raw) < CHECKSUM or zlib.crc32(text).to_bytes(CHECKSUM) != raw[:CHECKSUM]:
        raise DamageError(f"{file} is not as it was written")
    if not text:
        raise LinkError("it was found so when it was compiled")
    line, _, rest = text.partition(b"\n")
    wrapper, writable, symbols, signature, count = json.loads(line)
    addresses = np.frombuffer(rest, np.int64, 3 * count).reshape(count, 3)
    image = rest[addresses.nbytes :]
    return Linked(wrapper, writable, symbols, signature, addresses, image)


_WRAPPER = ctypes.PYFUNCTYPE(*[ctypes.py_object] * 4)
_kept: list[Any] = []
"""Code stays for as long as the process."""


def install(linked: Linked) -> Callable[..., Any]:
    """Map an image into memory; returns what is called with None, a tuple of arguments, None."""
    memory = mmap.mmap(-1, len(linked.image), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(linked.image)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    of = np.array([*map(address_of, linked.symbols), base])  # of the image by −1
    place, number, added = linked.addresses.T
    code = np.frombuffer(memory, np.uint8)
    code[place[:, None] + np.arange(8)] = (of[number] + added).view(np.uint8).reshape(-1, 8)
    size, rights = ctypes.c_size_t(linked.writable), mmap.PROT_READ | mmap.PROT_EXEC
    if ctypes.pythonapi.mprotect(ctypes.c_void_p(base), size, rights):
        raise LinkError("memory that was written to cannot be executed here")
    _kept.append(code)
    return _WRAPPER(base + linked.wrapper)
