"""The paper's ray error in the form of `pixel.py`: two rows in the plane across δ = l − t.

p is d, the coefficients of the ray. Loaded like `formulas.py`, and after it: it takes its
formulas.
"""

if "jit" not in globals():
    from daba.core.formulas import derivative_row, error, jit, normal_basis


@jit
def record(c, p):
    """Frame and d as one record of fifteen."""
    return (
        c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11], p[0], p[1], p[2],
    )  # fmt: skip


@jit
def squared(frame, sensor, p, l, ux, uy):
    """|e|²; a ray sees everything."""
    ex, ey, ez, _, dx, _, _, _, _, _, _ = error(record(frame, p), l, ux, uy)
    return ex * ex + ey * ey + ez * ez, dx == dx


@jit
def second_difference(here, ahead, behind, ux, uy):
    """As `pixel.second_difference`, in the two rows that there are here."""
    x, y, z, _, dx, dy, dz, _, _, _, _ = error(record(here[0], here[2]), here[3], ux, uy)
    x1, y1, z1, _, _, _, _, _, _, _, _ = error(record(ahead[0], ahead[2]), ahead[3], ux, uy)
    x2, y2, z2, _, _, _, _, _, _, _, _ = error(record(behind[0], behind[2]), behind[3], ux, uy)
    ax, ay, az, bx, by, bz = normal_basis(dx, dy, dz)
    cx = (x1 - x) - (x - x2)
    cy = (y1 - y) - (y - y2)
    cz = (z1 - z) - (z - z2)
    return (
        ax * x + ay * y + az * z, bx * x + by * y + bz * z,
        ax * cx + ay * cy + az * cz, bx * cx + by * cy + bz * cz, dx == dx,
    )  # fmt: skip


@jit
def by_point(frame, sensor, p, l, ux, uy):
    """r, a of both rows, |δ|², and whether the camera sees the point."""
    ex, ey, ez, lam, dx, dy, dz, _, _, _, _ = error(record(frame, p), l, ux, uy)
    ax, ay, az, bx, by, bz = normal_basis(dx, dy, dz)
    return (
        ax * ex + ay * ey + az * ez, bx * ex + by * ey + bz * ez,
        -lam * ax, -lam * ay, -lam * az, -lam * bx, -lam * by, -lam * bz,
        dx * dx + dy * dy + dz * dz, dx == dx,
    )  # fmt: skip


@jit
def by_all(frame, sensor, p, l, ux, uy):
    """As `pixel.by_all`, with the three d as parameters and no sensor."""
    c = record(frame, p)
    ex, ey, ez, lam, dx, dy, dz, qx, qy, qz, s = error(c, l, ux, uy)
    ax, ay, az, bx, by, bz = normal_basis(dx, dy, dz)
    a0, a1, a2, a3, a4, a5, a6 = derivative_row(c, lam, qx, qy, qz, ax, ay, az)
    b0, b1, b2, b3, b4, b5, b6 = derivative_row(c, lam, qx, qy, qz, bx, by, bz)
    none = (a6, a6, a6, a6, a6, a6)
    return (
        ax * ex + ay * ey + az * ez, bx * ex + by * ey + bz * ez, dx == dx,
        dx * dx + dy * dy + dz * dz,
        (a0, a1, a2), (-a3, -a4, -a5), (a6, a6 * s, a6 * s * s), none,
        (b0, b1, b2), (-b3, -b4, -b5), (b6, b6 * s, b6 * s * s), none,
    )  # fmt: skip
