"""Tangent and arctangent in double precision: Triton has none that its interpreter runs, too."""

import triton.language as tl

from daba.backends.gpu.kernels.jit import jit

HALF_PI = tl.constexpr(1.5707963267948966)
PI = tl.constexpr(3.141592653589793)


@jit
def tan(x):
    return tl.sin(x) / tl.cos(x)


@jit
def arctan(x):
    """Of 0 ≤ x ≤ 1: the angle is halved twice, tan(θ/2) = x / (1 + √(1 + x²)), and what is left,
    below 0.2, has a short series."""
    y = x / (1.0 + tl.sqrt(1.0 + x * x))
    y = y / (1.0 + tl.sqrt(1.0 + y * y))
    s = y * y
    series = 1.0 / 21.0 - s * (1.0 / 23.0)
    series = 1.0 / 19.0 - s * series
    series = 1.0 / 17.0 - s * series
    series = 1.0 / 15.0 - s * series
    series = 1.0 / 13.0 - s * series
    series = 1.0 / 11.0 - s * series
    series = 1.0 / 9.0 - s * series
    series = 1.0 / 7.0 - s * series
    series = 1.0 / 5.0 - s * series
    series = 1.0 / 3.0 - s * series
    return 4.0 * (y - y * s * series)


@jit
def arctan2(y, x):
    """The angle of (x, y)."""
    a = tl.abs(x)
    b = tl.abs(y)
    steep = b > a
    large = tl.maximum(a, b)
    angle = arctan(tl.minimum(a, b) / tl.where(large > 0.0, large, 1.0))
    angle = tl.where(steep, -angle + HALF_PI, angle)
    angle = tl.where(x < 0.0, -angle + PI, angle)
    return tl.where(y < 0.0, -angle, angle)
