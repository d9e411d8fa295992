"""`kernels/formulas.py` once more, with its names bound to Triton's."""

from pathlib import Path

import triton.language as tl

from daba.backends.gpu.kernels.jit import jit
from daba.core import formulas as _formulas


@jit
def sqrt(x):
    return tl.sqrt(x)


@jit
def sin(x):
    return tl.sin(x)


@jit
def exp(x):
    return tl.exp(x)


@jit
def where(condition, yes, no):
    return tl.where(condition, yes, no)


@jit
def expm1(x):
    """exp(x) − 1 without cancellation: the rounding of exp is taken back by its logarithm."""
    y = tl.exp(x)
    z = y - 1.0
    plain = (z == 0.0) | (z == -1.0)  # too near to tell, and nothing left of exp
    return tl.where(z == 0.0, x, tl.where(plain, z, z * x / tl.where(plain, 1.0, tl.log(y))))


@jit
def log1p(x):
    """log(1 + x), by the same trick."""
    y = 1.0 + x
    near = y == 1.0
    return tl.where(near, x, tl.log(y) * x / tl.where(near, 1.0, y - 1.0))


_path = Path(_formulas.__file__)
exec(compile(_path.read_text("utf-8"), str(_path), "exec"))

TRIVIAL, HUBER, WELSCH, CAUCHY, GEMAN_MCCLURE, SOFT_L1 = map(tl.constexpr, range(6))
