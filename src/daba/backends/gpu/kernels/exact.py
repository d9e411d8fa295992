"""Numbers of the options, exact: Triton rounds a plain float to single precision, whatever it is
used with. So they are handed over as the bits of a double."""

import struct

import triton.language as tl

from daba.backends.gpu.kernels import formulas
from daba.backends.gpu.kernels.jit import jit

plain_penalty = formulas.penalty
plain_majorizer = formulas.majorizer


def bits(x: float) -> int:
    """A double as an integer."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


@jit
def double(BITS: tl.constexpr):
    """The double again."""
    return tl.full([], BITS, tl.int64).to(tl.float64, bitcast=True)


@jit
def penalty(KIND: tl.constexpr, RADIUS: tl.constexpr, weight, ex, ey, ez):
    """`formulas.penalty`, with the radius as bits."""
    return plain_penalty(KIND, double(RADIUS).to(weight.dtype), weight, ex, ey, ez)


@jit
def majorizer(
    KIND: tl.constexpr, RADIUS: tl.constexpr, THETA: tl.constexpr, weight, ux, uy, c, l, base_c,
    base_l,
):  # fmt: skip
    """`formulas.majorizer`, with radius and θ as bits."""
    radius = double(RADIUS).to(weight.dtype)
    theta = double(THETA).to(weight.dtype)
    return plain_majorizer(KIND, radius, theta, weight, ux, uy, c, l, base_c, base_l)
