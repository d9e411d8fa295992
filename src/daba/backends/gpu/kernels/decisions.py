"""`core/decisions.py` once more, with its names bound to Triton's."""

from pathlib import Path

import triton.language as tl

from daba.backends.gpu.kernels.jit import jit
from daba.core import decisions as _decisions


@jit
def sqrt(x):
    return tl.sqrt(x)


@jit
def where(condition, yes, no):
    return tl.where(condition, yes, no)


@jit
def maximum(x, y):
    return tl.maximum(x, y)


@jit
def minimum(x, y):
    return tl.minimum(x, y)


@jit
def cube(x):
    return x * x * x


_path = Path(_decisions.__file__)
exec(compile(_path.read_text("utf-8"), str(_path), "exec"))
globals().update(
    {name: tl.constexpr(value) for name, value in vars(_decisions).items() if name.isupper()}
)
