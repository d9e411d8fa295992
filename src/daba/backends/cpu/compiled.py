"""Kernels by name, for those who run them: found when first called, as machine code in the cache
(`objects.py`), or by Numba, and in both cases compiled by a worker if nobody has yet.

Nothing that defines a kernel is imported here: it would import Numba.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from daba.backends.cpu import cache, objects, symbols
from daba.backends.cpu.cache import Job, Name, job
from daba.backends.cpu.threads import follow

HERE = __name__.rpartition(".")[0]
NUMBERS = {"int": (int, np.int64), "float": (float, np.float64), "bool": (bool, np.bool_)}
"""Types that a number may have."""


class Kernel:
    """A kernel. Its variants are those of `job`; for arguments of other types Numba has it compiled
    when it is called."""

    def __init__(self, name: Name) -> None:
        self.name = name
        self.variants: list[tuple[list[Any], Callable[..., Any]]] | None = None

    def __call__(self, *arguments: Any) -> Any:
        for signature, function in self.variants or ():
            if fit(arguments, signature):
                return function(None, arguments, None)
        if self.variants is None:
            with _lock:
                if self.variants is None:
                    self.variants = self._load()
            return self(*arguments)
        return self._by_numba(*arguments)

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
            linked, image = objects.read(one.object)
        except objects.DamageError:
            one.forget()
            cache.compile_jobs([one], tell=False)
            linked, image = objects.read(one.object)
        return parse(linked.signature), objects.install(linked, image)
    except (
        objects.DamageError,
        objects.LinkError,
        ImportError,
        OSError,
        ValueError,
        AttributeError,
    ):
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


class Array(NamedTuple):
    """A contiguous array that may be written to."""

    dtype: Any
    dimensions: int


def parse(kinds: list[Any]) -> list[Any]:
    """A signature as it is looked at: numbers by their types, None, arrays, lists of members."""
    return [
        parse(kind) if isinstance(kind, list)
        else None if kind == "none"
        else NUMBERS[kind] if kind in NUMBERS
        else Array(np.dtype(kind[:-1]), int(kind[-1]))
        for kind in kinds
    ]  # fmt: skip


def fit(values: Sequence[Any], signature: list[Any]) -> bool:
    """Whether these are arguments that a kernel was compiled for."""
    if len(values) != len(signature):
        return False
    for value, kind in zip(values, signature, strict=True):
        if type(kind) is Array:
            if (
                type(value) is not np.ndarray
                or value.ndim != kind.dimensions
                or value.dtype != kind.dtype
                or not value.flags.carray
            ):
                return False
        elif kind is None:
            if value is not None:
                return False
        elif type(kind) is list:
            if not (isinstance(value, tuple) and fit(value, kind)):
                return False
        elif type(value) not in kind:
            return False
    return True
