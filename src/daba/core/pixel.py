"""The pixel error of an observation, and its derivatives along frame, sensor, camera and point.

A frame is a rig at one moment: rotation R (rig to world) and centre t, twelve numbers. A sensor is
where an image's camera sits in its rig, in the same form (camera to rig). With δ = l − t,

    y = Rᵀ δ  in the rig,    σ = y − t_s,    x = R_sᵀ σ  in the camera,    r = project(x) − pixel

Each of the two rows of r has a = ∂r/∂l; then ∂r/∂t = −a, and along ω, R ← exp(ω̂) R, it is a × δ.
In the same way with a_s = ∂r/∂y, ∂r/∂t_s = −a_s and a_s × σ for the sensor.

Loaded like `formulas.py`, with two more names bound: RIG, whether images have sensors, and
`project`, the camera model's (`camera_models.source`).
"""

if "jit" not in globals():
    from daba.core.formulas import jit

    RIG = True

    def project(p, u, v, w):
        raise AssertionError("bound by whoever loads this file")


@jit
def into(c, x, y, z):
    """σ = (x, y, z) − t and Rᵀ σ."""
    dx = x - c[9]
    dy = y - c[10]
    dz = z - c[11]
    return (
        dx,
        dy,
        dz,
        c[0] * dx + c[3] * dy + c[6] * dz,
        c[1] * dx + c[4] * dy + c[7] * dz,
        c[2] * dx + c[5] * dy + c[8] * dz,
    )


@jit
def turned(c, x, y, z):
    """R (x, y, z)."""
    return (
        c[0] * x + c[1] * y + c[2] * z,
        c[3] * x + c[4] * y + c[5] * z,
        c[6] * x + c[7] * y + c[8] * z,
    )


@jit
def cross(ax, ay, az, bx, by, bz):
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@jit
def squared(frame, sensor, p, l, px, py):
    """|r|², and whether the camera sees the point."""
    _, _, _, u, v, w = into(frame, l[0], l[1], l[2])
    if RIG:
        _, _, _, u, v, w = into(sensor, u, v, w)
    x, y, _, _, _, _, _, _, seen, _, _ = project(p, u, v, w)
    return (x - px) * (x - px) + (y - py) * (y - py), seen


@jit
def place(frame, sensor, p, l):
    """Where the camera has the point, and whether it sees it."""
    _, _, _, u, v, w = into(frame, l[0], l[1], l[2])
    if RIG:
        _, _, _, u, v, w = into(sensor, u, v, w)
    x, y, _, _, _, _, _, _, seen, _, _ = project(p, u, v, w)
    return x, y, seen


@jit
def second_difference(here, ahead, behind, px, py):
    """r, and r(ahead) − 2 r + r(behind), of frames, sensors, cameras and points there; and whether
    all three see the point."""
    x, y, seen = place(here[0], here[1], here[2], here[3])
    x1, y1, seen1 = place(ahead[0], ahead[1], ahead[2], ahead[3])
    x2, y2, seen2 = place(behind[0], behind[1], behind[2], behind[3])
    return (
        x - px, y - py, (x1 - x) - (x - x2), (y1 - y) - (y - y2), seen & seen1 & seen2,
    )  # fmt: skip


@jit
def by_point(frame, sensor, p, l, px, py):
    """r, a of both rows, |δ|², and whether the camera sees the point."""
    dx, dy, dz, u, v, w = into(frame, l[0], l[1], l[2])
    if RIG:
        _, _, _, u, v, w = into(sensor, u, v, w)
    x, y, a0, a1, a2, b0, b1, b2, seen, _, _ = project(p, u, v, w)
    if RIG:
        a0, a1, a2 = turned(sensor, a0, a1, a2)
        b0, b1, b2 = turned(sensor, b0, b1, b2)
    a0, a1, a2 = turned(frame, a0, a1, a2)
    b0, b1, b2 = turned(frame, b0, b1, b2)
    return x - px, y - py, a0, a1, a2, b0, b1, b2, dx * dx + dy * dy + dz * dz, seen


@jit
def by_all(frame, sensor, p, l, px, py):
    """r, whether the camera sees the point, |δ|²; then of each row: along ω (3), a (3), along the
    refined parameters, and along ω_s and t_s (6, zeros without rigs)."""
    dx, dy, dz, u, v, w = into(frame, l[0], l[1], l[2])
    sx, sy, sz = u, v, w
    if RIG:
        sx, sy, sz, u, v, w = into(sensor, u, v, w)
    x, y, a0, a1, a2, b0, b1, b2, seen, ka, kb = project(p, u, v, w)
    if RIG:
        a0, a1, a2 = turned(sensor, a0, a1, a2)
        b0, b1, b2 = turned(sensor, b0, b1, b2)
    m0, m1, m2 = cross(a0, a1, a2, sx, sy, sz)
    n0, n1, n2 = cross(b0, b1, b2, sx, sy, sz)
    along_a = (m0, m1, m2, -a0, -a1, -a2)
    along_b = (n0, n1, n2, -b0, -b1, -b2)
    a0, a1, a2 = turned(frame, a0, a1, a2)
    b0, b1, b2 = turned(frame, b0, b1, b2)
    return (
        x - px, y - py, seen, dx * dx + dy * dy + dz * dz,
        cross(a0, a1, a2, dx, dy, dz), (a0, a1, a2), ka, along_a,
        cross(b0, b1, b2, dx, dy, dz), (b0, b1, b2), kb, along_b,
    )  # fmt: skip
