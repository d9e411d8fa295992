"""`core/decisions.py` once more, with its names bound to Numba's."""

from math import sqrt  # noqa: F401
from pathlib import Path

from daba.backends.cpu.kernels.binding import inline as jit
from daba.core import decisions as _decisions


@jit
def where(condition, yes, no):
    return yes if condition else no


@jit
def maximum(x, y):
    return max(x, y)


@jit
def minimum(x, y):
    return min(x, y)


@jit
def cube(x):
    return x**3


_path = Path(_decisions.__file__)
exec(compile(_path.read_text(), str(_path), "exec"))
