"""How a camera of each of COLMAP's models sees a point, with derivatives: every formula once.

A lens takes a point (u, v, w) in the camera's frame to (X, Y), its image before focal lengths and
principal point: by a projection on a plane and a distortion of that plane, with the model's extra
parameters k in one of the two.

    (u, v, w)  →  (x, y)  →  (X, Y),      pixel = (fx X + cx, fy Y + cy)

Every function returns its two values, their derivatives, and those with respect to k. As
`formulas.py`, this file is plain arithmetic: imported, it works on NumPy arrays; the backends load
it again with `jit`, `sqrt`, … bound to Numba's and to Triton's. `k` is anything indexable.
"""

if "jit" not in globals():
    from daba.core.formulas import arctan2, jit, sqrt, tan, where

NEAR = 1e-4
"""Squared angle or radius below which series stand for quotients: their error is below 1e-15."""
TURN = 0.15915494309189535
"""1 / 2π."""
HALF_TURN = 0.3183098861837907
"""1 / π."""
EDGE = 1e-16
"""Squared angle to the plane of a camera: what is nearer to it is not seen. Wide lenses have an
image there, and a file's quaternions turn it by 1e-16, centres far from the origin by 1e-10, to the
other side."""
RIM = 1e-12
"""The same where a division lens ends, of w²."""


@jit
def in_front(u, v, w):
    return (w > 0.0) & (w * w > EDGE * (u * u + v * v))


# Projections on a plane: x, y, ∂x/∂(u, v, w), ∂y/∂(u, v, w), whether it is seen, ∂/∂k of both


@jit
def perspective(k, u, v, w):
    """(u, v) / w."""
    seen = in_front(u, v, w)
    i = 1.0 / where(seen, w, 1.0)
    x = u * i
    y = v * i
    zero = 0.0 * i
    return x, y, i, zero, -x * i, zero, i, -y * i, seen, (zero,), (zero,)


@jit
def lines(k, u, v, w):
    """(u, v) / w, also of what is behind: Bundler's cameras see lines, not rays."""
    seen = w * w > EDGE * (u * u + v * v)
    i = 1.0 / where(seen, w, 1.0)
    x = u * i
    y = v * i
    zero = 0.0 * i
    return x, y, i, zero, -x * i, zero, i, -y * i, seen, (zero,), (zero,)


@jit
def equidistant(k, u, v, w):
    """θ (u, v) / |(u, v)|, θ the angle to the axis: what fisheye lenses come near."""
    seen = in_front(u, v, w)
    r2 = u * u + v * v
    n2 = r2 + w * w
    z = where(seen, w, 1.0)
    t2 = r2 / (z * z)
    near = t2 < NEAR
    r = sqrt(where(near, 1.0, r2))
    # a = θ / r and b = (∂a/∂r) / r, with ∂θ/∂r = w / n² and ∂θ/∂w = −r / n²
    a = where(near, (1.0 + t2 * (-1.0 / 3.0 + t2 * (0.2 - t2 / 7.0))) / z, arctan2(r, w) / r)
    b = where(
        near,
        (-2.0 / 3.0 + t2 * (0.8 - t2 * (6.0 / 7.0))) / (z * z * z),
        (w / where(near, 1.0, n2) - a) / (r * r),
    )
    c = -1.0 / where(n2 > 0.0, n2, 1.0)
    d = u * v * b
    zero = 0.0 * c
    return (
        a * u, a * v, a + u * u * b, d, c * u, d, a + v * v * b, c * v, seen, (zero,), (zero,),
    )  # fmt: skip


@jit
def division(k, u, v, w):
    """Fitzgibbon's: the straight ray is (X, Y) / (1 + k (X² + Y²)); (X, Y) = 2 (u, v) / (w + q),
    q = √(w² − 4 k (u² + v²))."""
    q2 = w * w - 4.0 * k[0] * (u * u + v * v)
    seen = (q2 > RIM * w * w) & (w + sqrt(where(q2 > 0.0, q2, 0.0)) > 0.0)
    q = sqrt(where(seen, q2, 1.0))
    i = 1.0 / where(seen, w + q, 1.0)
    X = 2.0 * u * i
    Y = 2.0 * v * i
    # ∂q/∂u = −4ku/q, ∂q/∂w = w/q, ∂q/∂k = −2(u² + v²)/q
    a = 4.0 * k[0] * i / q
    c = -i * (1.0 + w / q)
    e = 2.0 * (u * u + v * v) * i / q
    return (
        X, Y, 2.0 * i + a * u * X, a * v * X, c * X, a * u * Y, 2.0 * i + a * v * Y, c * Y, seen,
        (e * X,), (e * Y,),
    )  # fmt: skip


@jit
def eucm(k, u, v, w):
    """Extended unified model: (u, v) / (α d + (1 − α) w), d = √(β (u² + v²) + w²), with α ≥ 0 and
    β > 0: beyond that no lens is, and a solve that went there did not find back."""
    r2 = u * u + v * v
    d2 = k[1] * r2 + w * w
    d = sqrt(where(d2 > 0.0, d2, 1.0))
    n = k[0] * d + (1.0 - k[0]) * w
    seen = in_front(u, v, w) & (d2 > 0.0) & (n > 0.0) & (k[0] >= 0.0) & (k[1] > 0.0)
    i = 1.0 / where(seen, n, 1.0)
    X = u * i
    Y = v * i
    a = -i * k[0] * k[1] / d
    c = -i * (k[0] * w / d + 1.0 - k[0])
    alpha = -i * (d - w)
    beta = -i * k[0] * r2 / (2.0 * d)
    return (
        X, Y, i + a * u * X, a * v * X, c * X, a * u * Y, i + a * v * Y, c * Y, seen,
        (alpha * X, beta * X), (alpha * Y, beta * Y),
    )  # fmt: skip


@jit
def panorama(k, u, v, w):
    """Longitude and latitude, as shares of a whole circle and a half one, less one half."""
    h2 = u * u + w * w
    n2 = h2 + v * v
    seen = h2 > 0.0
    h = sqrt(where(seen, h2, 1.0))
    i = 1.0 / where(seen, h2, 1.0) * TURN
    j = 1.0 / where(n2 > 0.0, n2, 1.0) * HALF_TURN
    zero = 0.0 * h
    return (
        arctan2(u, w) * TURN, arctan2(v, h) * HALF_TURN,
        w * i, zero, -u * i, -j * v * u / h, j * h, -j * v * w / h, seen, (zero,), (zero,),
    )  # fmt: skip


# Distortions of a plane: X, Y, ∂X/∂(x, y), ∂Y/∂(x, y), ∂X/∂k, ∂Y/∂k


@jit
def radial(x, y, f, slope):
    """(X, Y) = f(s) (x, y) with s = x² + y² and slope = f'(s)."""
    a = 2.0 * slope * x
    return x * f, y * f, f + a * x, a * y, a * y, f + 2.0 * slope * y * y


@jit
def radial_1(k, x, y):
    s = x * x + y * y
    X, Y, Xx, Xy, Yx, Yy = radial(x, y, 1.0 + k[0] * s, k[0])
    return X, Y, Xx, Xy, Yx, Yy, (x * s,), (y * s,)


@jit
def radial_2(k, x, y):
    s = x * x + y * y
    X, Y, Xx, Xy, Yx, Yy = radial(x, y, 1.0 + s * (k[0] + s * k[1]), k[0] + 2.0 * s * k[1])
    return X, Y, Xx, Xy, Yx, Yy, (x * s, x * s * s), (y * s, y * s * s)


@jit
def radial_4(k, x, y):
    s = x * x + y * y
    f = 1.0 + s * (k[0] + s * (k[1] + s * (k[2] + s * k[3])))
    slope = k[0] + s * (2.0 * k[1] + s * (3.0 * k[2] + s * (4.0 * k[3])))
    X, Y, Xx, Xy, Yx, Yy = radial(x, y, f, slope)
    s2 = s * s
    s3 = s2 * s
    s4 = s2 * s2
    return X, Y, Xx, Xy, Yx, Yy, (x * s, x * s2, x * s3, x * s4), (y * s, y * s2, y * s3, y * s4)


@jit
def tangential(p, q, x, y):
    """(2 p x y + q (s + 2 x²), 2 q x y + p (s + 2 y²)): a lens that is not centred."""
    xy = 2.0 * x * y
    xx = 3.0 * x * x + y * y
    yy = x * x + 3.0 * y * y
    c = 2.0 * (p * x + q * y)
    return (
        p * xy + q * xx,
        q * xy + p * yy,
        2.0 * p * y + 6.0 * q * x,
        c,
        c,
        2.0 * q * x + 6.0 * p * y,
        xy,
        xx,
        yy,
    )


@jit
def opencv(k, x, y):
    """k1, k2, p1, p2."""
    s = x * x + y * y
    X, Y, Xx, Xy, Yx, Yy = radial(x, y, 1.0 + s * (k[0] + s * k[1]), k[0] + 2.0 * s * k[1])
    A, B, Ax, Ay, Bx, By, xy, xx, yy = tangential(k[2], k[3], x, y)
    s2 = s * s
    return (
        X + A, Y + B, Xx + Ax, Xy + Ay, Yx + Bx, Yy + By,
        (x * s, x * s2, xy, xx), (y * s, y * s2, yy, xy),
    )  # fmt: skip


@jit
def full_opencv(k, x, y):
    """k1, k2, p1, p2, k3, k4, k5, k6: a quotient of polynomials."""
    s = x * x + y * y
    s2 = s * s
    s3 = s2 * s
    n = 1.0 + k[0] * s + k[1] * s2 + k[4] * s3
    i = 1.0 / (1.0 + k[5] * s + k[6] * s2 + k[7] * s3)
    f = n * i
    n_slope = k[0] + 2.0 * k[1] * s + 3.0 * k[4] * s2
    d_slope = k[5] + 2.0 * k[6] * s + 3.0 * k[7] * s2
    X, Y, Xx, Xy, Yx, Yy = radial(x, y, f, (n_slope - f * d_slope) * i)
    A, B, Ax, Ay, Bx, By, xy, xx, yy = tangential(k[2], k[3], x, y)
    a = x * i
    b = y * i
    return (
        X + A, Y + B, Xx + Ax, Xy + Ay, Yx + Bx, Yy + By,
        (a * s, a * s2, xy, xx, a * s3, -a * f * s, -a * f * s2, -a * f * s3),
        (b * s, b * s2, yy, xy, b * s3, -b * f * s, -b * f * s2, -b * f * s3),
    )  # fmt: skip


@jit
def fov(k, x, y):
    """Devernay and Faugeras' field of view ω: (X, Y) = atan(r t) / (r ω) (x, y), t = 2 tan(ω/2)."""
    o = k[0]
    o2 = o * o
    narrow = o2 < NEAR
    some = where(narrow, 1.0, o)
    t = where(narrow, o * (1.0 + o2 / 12.0), 2.0 * tan(0.5 * some))
    g = where(narrow, 1.0 + o2 * (1.0 / 12.0 + o2 / 120.0), t / some)  # t / ω
    t_slope = 1.0 + 0.25 * t * t
    g_slope = where(narrow, o * (1.0 / 6.0 + o2 / 30.0), (t_slope - g) / some)
    s = x * x + y * y
    z = s * t * t
    near = z < NEAR
    r = sqrt(where(near, 1.0, z))
    h = where(near, 1.0 + z * (-1.0 / 3.0 + z * (0.2 - z / 7.0)), arctan2(r, 1.0 + 0.0 * r) / r)
    h_slope = where(
        near, -1.0 / 3.0 + z * (0.4 - z * (3.0 / 7.0)), 0.5 * (1.0 / (1.0 + z) - h) / (r * r)
    )
    X, Y, Xx, Xy, Yx, Yy = radial(x, y, g * h, g * h_slope * t * t)
    f_slope = g_slope * h + g * h_slope * 2.0 * s * t * t_slope
    return X, Y, Xx, Xy, Yx, Yy, (x * f_slope,), (y * f_slope,)


@jit
def thin_prism(k, x, y):
    """k1, k2, p1, p2, k3, k4, sx1, sy1."""
    X, Y, Xx, Xy, Yx, Yy, (x1, x2, x3, x4), (y1, y2, y3, y4) = radial_4(
        (k[0], k[1], k[4], k[5]), x, y
    )
    A, B, Ax, Ay, Bx, By, xy, xx, yy = tangential(k[2], k[3], x, y)
    s = x * x + y * y
    zero = 0.0 * s
    return (
        X + A + k[6] * s,
        Y + B + k[7] * s,
        Xx + Ax + 2.0 * k[6] * x,
        Xy + Ay + 2.0 * k[6] * y,
        Yx + Bx + 2.0 * k[7] * x,
        Yy + By + 2.0 * k[7] * y,
        (x1, x2, xy, xx, x3, x4, s, zero),
        (y1, y2, yy, xy, y3, y4, zero, s),
    )


@jit
def rad_tan_thin_prism(k, x, y):
    """k0 … k5, p0, p1, s0 … s3: radial first, then the rest of what it makes."""
    s = x * x + y * y
    s2 = s * s
    s3 = s2 * s
    s4 = s2 * s2
    s5 = s4 * s
    s6 = s3 * s3
    f = 1.0 + k[0] * s + k[1] * s2 + k[2] * s3 + k[3] * s4 + k[4] * s5 + k[5] * s6
    slope = (
        k[0]
        + 2.0 * k[1] * s
        + 3.0 * k[2] * s2
        + 4.0 * k[3] * s3
        + 5.0 * k[4] * s4
        + 6.0 * k[5] * s5
    )
    P, Q, Px, Py, Qx, Qy = radial(x, y, f, slope)
    A, B, Ap, Aq, Bp, Bq, pq, pp, qq = tangential(k[7], k[6], P, Q)
    m = P * P + Q * Q
    m2 = m * m
    d = 2.0 * (k[8] + 2.0 * k[9] * m)
    e = 2.0 * (k[10] + 2.0 * k[11] * m)
    Xp = 1.0 + Ap + d * P
    Xq = Aq + d * Q
    Yp = Bp + e * P
    Yq = 1.0 + Bq + e * Q
    a = Xp * x + Xq * y
    b = Yp * x + Yq * y
    zero = 0.0 * m
    return (
        P + A + k[8] * m + k[9] * m2,
        Q + B + k[10] * m + k[11] * m2,
        Xp * Px + Xq * Qx,
        Xp * Py + Xq * Qy,
        Yp * Px + Yq * Qx,
        Yp * Py + Yq * Qy,
        (a * s, a * s2, a * s3, a * s4, a * s5, a * s6, pp, pq, m, m2, zero, zero),
        (b * s, b * s2, b * s3, b * s4, b * s5, b * s6, pq, qq, zero, zero, m, m2),
    )


@jit
def chain(Xx, Xy, Yx, Yy, xu, xv, xw, yu, yv, yw):
    """Derivatives of a distortion after a projection."""
    return (
        Xx * xu + Xy * yu, Xx * xv + Xy * yv, Xx * xw + Xy * yw,
        Yx * xu + Yy * yu, Yx * xv + Yy * yv, Yx * xw + Yy * yw,
    )  # fmt: skip
