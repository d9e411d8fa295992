"""Ray, error, derivatives and losses: every scalar formula of the method, written once.

Imported as it is, the formulas work on NumPy arrays (of one value per observation, broadcast).
`backends/cpu/kernels/binding.py` and `backends/gpu/kernels/formulas.py` load this file again with
`jit`, `sqrt`, … bound to Numba's and to Triton's.
A camera `c` is anything indexable by 0…14 (R row by row, t, d), a point `l` by 0…2.
"""

if "jit" not in globals():  # NumPy's meaning of the names that this and other files are written in
    from numpy import (  # noqa: F401
        arctan2,
        exp,
        expm1,
        log1p,
        maximum,
        minimum,
        sin,
        sqrt,
        tan,
        where,
    )

    def jit(function):
        """Nothing to compile: NumPy evaluates the formulas as they stand."""
        return function

    def cube(x):
        return x**3


TRIVIAL, HUBER, WELSCH, CAUCHY, GEMAN_MCCLURE, SOFT_L1 = range(6)


@jit
def rho(kind, radius, s):
    """Robust loss ρ(s) and its derivative ρ'(s); s is a squared pixel error."""
    if kind == TRIVIAL:
        return s, 0.0 * s + 1.0
    a2 = radius * radius
    x = s / a2
    if kind == HUBER:
        root = sqrt(where(x > 1.0, x, 1.0))
        return where(x > 1.0, a2 * (2.0 * root - 1.0), s), 1.0 / root
    if kind == WELSCH:
        return -a2 * expm1(-x), exp(-x)
    if kind == CAUCHY:
        return a2 * log1p(x), 1.0 / (1.0 + x)
    if kind == GEMAN_MCCLURE:
        y = 1.0 / (1.0 + x)
        return s * y, y * y
    root = sqrt(1.0 + x)
    return 2.0 * s / (root + 1.0), 1.0 / root


@jit
def rotated_ray(c, ux, uy):
    """q = R p with p = (u_x, u_y, d1 + d2 s + d3 s²), s = |u|²; returns q and s."""
    s = ux * ux + uy * uy
    pz = c[12] + s * (c[13] + s * c[14])
    qx = c[0] * ux + c[1] * uy + c[2] * pz
    qy = c[3] * ux + c[4] * uy + c[5] * pz
    qz = c[6] * ux + c[7] * uy + c[8] * pz
    return qx, qy, qz, s


@jit
def error(c, l, ux, uy):
    """Reprojection error e = q − λ δ, with δ = l − t and λ = δ·q / |δ|².

    Returns e (3), λ, δ (3), q (3), s.
    """
    qx, qy, qz, s = rotated_ray(c, ux, uy)
    dx = l[0] - c[9]
    dy = l[1] - c[10]
    dz = l[2] - c[11]
    lam = (dx * qx + dy * qy + dz * qz) / (dx * dx + dy * dy + dz * dz)
    return qx - lam * dx, qy - lam * dy, qz - lam * dz, lam, dx, dy, dz, qx, qy, qz, s


@jit
def penalty(kind, radius, weight, ex, ey, ez):
    """F_ij = ½ ρ(ω² |e|²), w = ω² ρ', and the squared pixel error ω² |e|²."""
    w2 = weight * weight
    square = w2 * (ex * ex + ey * ey + ez * ez)
    value, slope = rho(kind, radius, square)
    return 0.5 * value, w2 * slope, square


@jit
def normal_basis(dx, dy, dz):
    """Two unit vectors that span the plane normal to δ, where e lives."""
    n = 1.0 / sqrt(dx * dx + dy * dy + dz * dz)
    x = dx * n
    y = dy * n
    z = dz * n
    sign = where(z < 0.0, -1.0, 1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    return 1.0 + sign * x * x * a, sign * b, -sign * x, b, sign + y * y * a, -y


@jit
def derivative_row(c, lam, qx, qy, qz, bx, by, bz):
    """b·∂e for one basis vector b of the plane normal to δ, along (ω, t) and the factor of d.

    b·∂e/∂ω = q × b, b·∂e/∂t = λ b = −b·∂e/∂l, b·∂e/∂d = (b·R₃) (1, s, s²). The part of ∂e
    along δ is left out: e has no component there, so the gradient is the same, and the
    Gauss–Newton matrix is nearer to the Hessian, whose missing term is −e eᵀ/|δ|².
    """
    return (
        qy * bz - qz * by,
        qz * bx - qx * bz,
        qx * by - qy * bx,
        lam * bx,
        lam * by,
        lam * bz,
        c[2] * bx + c[5] * by + c[8] * bz,
    )


@jit
def point_block(w, lam, dx, dy, dz, ex, ey, ez):
    """What an observation adds to V, w λ² P as its upper triangle (6), and to g_l, −w λ e (3); P is
    the projection I − δδᵀ/|δ|²."""
    n = 1.0 / (dx * dx + dy * dy + dz * dz)
    y = w * lam
    x = y * lam
    return (
        x * (1.0 - dx * dx * n),
        -x * dx * dy * n,
        -x * dx * dz * n,
        x * (1.0 - dy * dy * n),
        -x * dy * dz * n,
        x * (1.0 - dz * dz * n),
        -y * ex,
        -y * ey,
        -y * ez,
    )


@jit
def across(dx, dy, dz, x, y, z):
    """P x, the part of a vector across δ: P = I − δδᵀ/|δ|² = b₁b₁ᵀ + b₂b₂ᵀ."""
    n = (dx * x + dy * y + dz * z) / (dx * dx + dy * dy + dz * dz)
    return x - n * dx, y - n * dy, z - n * dz


@jit
def along_camera(c, lam, qx, qy, qz, s, v):
    """How e moves when the camera moves along v = (ω, t, d): v_ω × q + λ v_t + R₃ (v_d·(1, s, s²)),
    of which only the part across δ counts."""
    a = v[6] + s * (v[7] + s * v[8])
    return (
        v[1] * qz - v[2] * qy + lam * v[3] + a * c[2],
        v[2] * qx - v[0] * qz + lam * v[4] + a * c[5],
        v[0] * qy - v[1] * qx + lam * v[5] + a * c[8],
    )


@jit
def camera_pull(c, lam, qx, qy, qz, s, x, y, z):
    """The transpose of `along_camera`: what a pull (x, y, z) at e is along (ω, t, d)."""
    a = c[2] * x + c[5] * y + c[8] * z
    return (
        qy * z - qz * y,
        qz * x - qx * z,
        qx * y - qy * x,
        lam * x,
        lam * y,
        lam * z,
        a,
        s * a,
        s * s * a,
    )


@jit
def exponential(wx, wy, wz):
    """exp(ω̂) row by row, by Rodrigues' formula."""
    t2 = wx * wx + wy * wy + wz * wz
    small = t2 <= 1e-8
    t = sqrt(where(small, 1.0, t2))
    half = sin(0.5 * t) / t
    a = where(small, 1.0 - t2 / 6.0, sin(t) / t)
    b = where(small, 0.5 - t2 / 24.0, 2.0 * half * half)
    return (
        1.0 - b * (wy * wy + wz * wz),
        b * wx * wy - a * wz,
        b * wx * wz + a * wy,
        b * wx * wy + a * wz,
        1.0 - b * (wx * wx + wz * wz),
        b * wy * wz - a * wx,
        b * wx * wz - a * wy,
        b * wy * wz + a * wx,
        1.0 - b * (wx * wx + wy * wy),
    )


@jit
def multiply3(a, b):
    """A B for 3×3 matrices given row by row."""
    return (
        a[0] * b[0] + a[1] * b[3] + a[2] * b[6],
        a[0] * b[1] + a[1] * b[4] + a[2] * b[7],
        a[0] * b[2] + a[1] * b[5] + a[2] * b[8],
        a[3] * b[0] + a[4] * b[3] + a[5] * b[6],
        a[3] * b[1] + a[4] * b[4] + a[5] * b[7],
        a[3] * b[2] + a[4] * b[5] + a[5] * b[8],
        a[6] * b[0] + a[7] * b[3] + a[8] * b[6],
        a[6] * b[1] + a[7] * b[4] + a[8] * b[7],
        a[6] * b[2] + a[7] * b[5] + a[8] * b[8],
    )


@jit
def polar_step(m):
    """One step of Newton's iteration for the rotation nearest to m (det m > 0): ½ (m + m⁻ᵀ)."""
    x0 = m[4] * m[8] - m[5] * m[7]
    x1 = m[5] * m[6] - m[3] * m[8]
    x2 = m[3] * m[7] - m[4] * m[6]
    n = 1.0 / (m[0] * x0 + m[1] * x1 + m[2] * x2)
    return (
        m[0] + 0.5 * (x0 * n - m[0]),
        m[1] + 0.5 * (x1 * n - m[1]),
        m[2] + 0.5 * (x2 * n - m[2]),
        m[3] + 0.5 * ((m[2] * m[7] - m[1] * m[8]) * n - m[3]),
        m[4] + 0.5 * ((m[0] * m[8] - m[2] * m[6]) * n - m[4]),
        m[5] + 0.5 * ((m[1] * m[6] - m[0] * m[7]) * n - m[5]),
        m[6] + 0.5 * ((m[1] * m[5] - m[2] * m[4]) * n - m[6]),
        m[7] + 0.5 * ((m[2] * m[3] - m[0] * m[5]) * n - m[7]),
        m[8] + 0.5 * ((m[0] * m[4] - m[1] * m[3]) * n - m[8]),
    )


@jit
def camera_majorizer(theta, w, lam, ex, ey, ez, c, base, ux, uy):
    """P_ij(c | base) less its share θ a of the constant: w/(2θ) |Δq + λ Δt + θ e|²."""
    qx, qy, qz, _ = rotated_ray(c, ux, uy)
    px, py, pz, _ = rotated_ray(base, ux, uy)
    x = qx - px + lam * (c[9] - base[9]) + theta * ex
    y = qy - py + lam * (c[10] - base[10]) + theta * ey
    z = qz - pz + lam * (c[11] - base[11]) + theta * ez
    return 0.5 * w / theta * (x * x + y * y + z * z)


@jit
def point_majorizer(theta, w, lam, ex, ey, ez, l, base):
    """Q_ij(l | base) less its share (1−θ) a of the constant: w/(2(1−θ)) |λ Δl − (1−θ) e|²."""
    x = lam * (l[0] - base[0]) - (1.0 - theta) * ex
    y = lam * (l[1] - base[1]) - (1.0 - theta) * ey
    z = lam * (l[2] - base[2]) - (1.0 - theta) * ez
    return 0.5 * w / (1.0 - theta) * (x * x + y * y + z * z)


@jit
def majorizer_from(theta, f, w, lam, ex, ey, ez, ux, uy, c, l, base_c, base_l):
    """P_ij(c | base) + Q_ij(l | base), from F_ij, w, λ and e at the base."""
    a = f - 0.5 * w * (ex * ex + ey * ey + ez * ez)
    p = camera_majorizer(theta, w, lam, ex, ey, ez, c, base_c, ux, uy)
    q = point_majorizer(theta, w, lam, ex, ey, ez, l, base_l)
    return p + q + a


@jit
def majorizer(kind, radius, theta, weight, ux, uy, c, l, base_c, base_l):
    """P_ij(c | base) + Q_ij(l | base) ≥ F_ij(c, l), with equality at the base (Prop. 1)."""
    ex, ey, ez, lam, _, _, _, _, _, _, _ = error(base_c, base_l, ux, uy)
    f, w, _ = penalty(kind, radius, weight, ex, ey, ez)
    return majorizer_from(theta, f, w, lam, ex, ey, ez, ux, uy, c, l, base_c, base_l)


@jit
def inverse_symmetric3(a, b, c, d, e, f):
    """Inverse of the positive definite [[a, b, c], [b, d, e], [c, e, f]], as its upper triangle.

    By L D Lᵀ and not by cofactors: a distant point has almost no curvature along its depth,
    and the determinant would lose the digits that matter.
    """
    p = b / a
    q = c / a
    d2 = d - p * b
    r = (e - q * b) / d2
    d3 = f - q * c - r * r * d2
    i1 = 1.0 / a
    i2 = 1.0 / d2
    i3 = 1.0 / d3
    s = p * r - q
    return (
        i1 + p * p * i2 + s * s * i3,
        -p * i2 - s * r * i3,
        s * i3,
        i2 + r * r * i3,
        -r * i3,
        i3,
    )
