"""Kernels by name, for those who run them: found when first called, as machine code in the cache
(`objects.py`), or by Numba, and in both cases compiled by a worker if nobody has yet.

Nothing that defines a kernel is imported here: it would import Numba.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from daba.backends.cpu import cache, objects, symbols
from daba.backends.cpu.cache import Job, Name, job
from daba.backends.cpu.threads import follow

HERE = __name__.rpartition(".")[0]
NUMBERS = {"int": {int, np.int64}, "float": {float, np.float64}, "bool": {bool, np.bool_}}
"""Types that a number may have."""


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
            linked = objects.read(one.object)
        except objects.DamageError:
            one.forget()
            cache.compile_jobs([one], tell=False)
            linked = objects.read(one.object)
        return parse(linked.signature), objects.install(linked)
    except (*objects.FAILURES, ImportError, OSError, ValueError, AttributeError):
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
