"""Template: passes over observations that need the cameras: objective and derivatives.

Bound: B, OWN, N, G, W, ROW, RIG, SENSORS and the error's formulas as in `binding.py`. By point,
observations lie in slices (`kernels/slices.py`): `records` are x, y, ω and nothing, `ends` the
frame, camera, sensor and image. By image they follow each other, with the point as the only end.
"""

# ruff: noqa: F821


@jit
def frame_row(frames, i):
    """R and t."""
    at = frames + 12 * i
    return (
        tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3), tl.load(at + 4),
        tl.load(at + 5), tl.load(at + 6), tl.load(at + 7), tl.load(at + 8), tl.load(at + 9),
        tl.load(at + 10), tl.load(at + 11),
    )  # fmt: skip


@jit
def camera_row(cameras, i):
    """A camera's parameters and model; what its model has not is never loaded."""
    at = cameras + ROW * i
    return (
        tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3), tl.load(at + 4),
        tl.load(at + 5), tl.load(at + 6), tl.load(at + 7), tl.load(at + 8), tl.load(at + 9),
        tl.load(at + 10), tl.load(at + 11), tl.load(at + 12), tl.load(at + 13), tl.load(at + 14),
        tl.load(at + 15), tl.load(at + 16),
    )  # fmt: skip


@jit
def sensor_row(sensors, frame, i):
    """The sensor's record; any, where images are frames."""
    if RIG:
        return frame_row(sensors, i)
    else:
        return frame


@jit
def seen_from(ends, frames, sensors, cameras, at):
    """Frame, sensor and camera of the observations at these slots."""
    i, camera, sensor, _ = quad(ends, 4 * at)
    frame = frame_row(frames, i)
    return frame, sensor_row(sensors, frame, sensor), camera_row(cameras, camera)


@jit
def prior_terms(
    rows, targets, information, j, l, PRIORS: tl.constexpr, KIND: tl.constexpr,
    RADIUS: tl.constexpr,
):  # fmt: skip
    """½ρ(rᵀΛr), the upper triangle of ρ'Λ (6), and ρ'Λr (3) of each lane's point; zeros where it
    has no prior."""
    o = 0.0 * l[0]
    if PRIORS:
        n = tl.load(rows + j)
        known = n >= 0
        n = tl.where(known, n, 0)
        x = l[0] - tl.load(targets + 3 * n)
        y = l[1] - tl.load(targets + 3 * n + 1)
        z = l[2] - tl.load(targets + 3 * n + 2)
        at = information + 9 * n
        a = tl.load(at)
        b = tl.load(at + 1)
        c = tl.load(at + 2)
        d = tl.load(at + 4)
        e = tl.load(at + 5)
        f = tl.load(at + 8)
        p = a * x + b * y + c * z
        q = b * x + d * y + e * z
        r = c * x + e * y + f * z
        value, slope = rho(KIND, double(RADIUS), x * p + y * q + z * r)
        slope = tl.where(known, slope, 0.0)
        return (
            tl.where(known, 0.5 * value, 0.0),
            (slope * a, slope * b, slope * c, slope * d, slope * e, slope * f),
            (slope * p, slope * q, slope * r),
        )
    else:
        return o, (o, o, o, o, o, o), (o, o, o)


@jit
def store_sums(partial, n, f, s, unseen):
    tl.store(partial + 4 * n, tl.sum(f, axis=0))
    tl.store(partial + 4 * n + 1, tl.sum(s, axis=0))
    tl.store(partial + 4 * n + 2, tl.sum(unseen, axis=0))


@jit
def objective(
    records, ends, heads, members, frames, sensors, cameras, points, prior_rows, targets,
    information, partial, PRIORS: tl.constexpr, PRIOR_KIND: tl.constexpr,
    PRIOR_RADIUS: tl.constexpr, KIND: tl.constexpr, RADIUS: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """F, Σ ω²|r|², and points that a camera does not see, of each slice."""
    n = tl.program_id(0)
    lane = tl.arange(0, L)
    start, width, _device, shared = head(heads, n)
    j, own = member(members, n * L + lane)
    l = spots(points, j)
    f = tl.zeros([L], tl.float64)
    squares = tl.zeros([L], tl.float64)
    unseen = tl.zeros([L], tl.float64)
    for slot in range(width):
        at = start + slot * L + lane
        px, py, weight, _ = quad(records, 4 * at)
        frame, sensor, p = seen_from(ends, frames, sensors, cameras, at)
        s, seen = squared(frame, sensor, p, l, px, py)
        used = weight > 0.0
        s = tl.where(used, weight * weight * s, 0.0)
        f += 0.5 * rho(KIND, double(RADIUS), s)[0]
        squares += s
        unseen += tl.where(used & (seen == 0), 1.0, 0.0)
    value, _, _ = prior_terms(
        prior_rows, targets, information, j, l, PRIORS, PRIOR_KIND, PRIOR_RADIUS
    )
    hidden = tl.where(own & (joined(shared, unseen) > 0.0), 1.0, 0.0)
    store_sums(partial, n, f + tl.where(own, value, 0.0), squares, hidden)


@jit
def visible(
    records, ends, point, frames, sensors, cameras, points, seen, count, L: tl.constexpr
):  # fmt: skip
    """Whether cameras see the points of their observations, in any order."""
    at = tl.program_id(0) * L + tl.arange(0, L)
    some = at < count
    at = tl.minimum(at, count - 1)
    px, py, _, _ = quad(records, 4 * at)
    frame, sensor, p = seen_from(ends, frames, sensors, cameras, at)
    _, found = squared(frame, sensor, p, spots(points, tl.load(point + at)), px, py)
    tl.store(seen + at, found.to(tl.int8), mask=some)


@jit
def root_weight(r0, r1, seen, weight, KIND: tl.constexpr, RADIUS: tl.constexpr):
    """√(ω²ρ'), zero for what does not count."""
    w2 = weight * weight
    counts = (w2 > 0.0) & seen
    slope = rho(KIND, double(RADIUS), tl.where(counts, w2 * (r0 * r0 + r1 * r1), 0.0))[1]
    return tl.sqrt(tl.where(counts, w2 * slope, 0.0))


@jit
def store_row(J, size, at, row, root, t, l, k, s):
    """Row 0 or 1 of an observation's derivatives, by column: J_c of both rows, then J_g."""
    for n in tl.static_range(3):
        tl.store(J + (row * B + n) * size + at, tl.where(root > 0.0, root * t[n], 0.0))
        tl.store(J + (row * B + 3 + n) * size + at, tl.where(root > 0.0, -root * l[n], 0.0))
    for n in tl.static_range(OWN):
        tl.store(J + (row * B + 6 + n) * size + at, tl.where(root > 0.0, root * k[n], 0.0))
    for n in tl.static_range(N):
        tl.store(J + (2 * B + row * G + n) * size + at, tl.where(root > 0.0, root * k[n], 0.0))
    if SENSORS:
        for n in tl.static_range(6):
            tl.store(
                J + (2 * B + row * G + N + n) * size + at, tl.where(root > 0.0, root * s[n], 0.0)
            )


@jit
def linearize_points(
    records, ends, heads, members, frames, sensors, cameras, points, prior_rows, targets,
    information, fixed, J, size, V, g, bound, PRIORS: tl.constexpr, PRIOR_KIND: tl.constexpr,
    PRIOR_RADIUS: tl.constexpr, KIND: tl.constexpr, RADIUS: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """Derivatives of each observation, with √ρ' and ω; V, g and the step bound of each point."""
    n = tl.program_id(0)
    lane = tl.arange(0, L)
    start, width, _device, shared = head(heads, n)
    j, own = member(members, n * L + lane)
    l = spots(points, j)
    o = tl.zeros([L], tl.float64)
    v0 = o
    v1 = o
    v2 = o
    v3 = o
    v4 = o
    v5 = o
    g0 = o
    g1 = o
    g2 = o
    near = tl.full([L], float("inf"), tl.float64)
    for slot in range(width):
        at = start + slot * L + lane
        px, py, weight, _ = quad(records, 4 * at)
        frame, sensor, p = seen_from(ends, frames, sensors, cameras, at)
        r0, r1, seen, away, ta, la, ka, sa, tb, lb, kb, sb = by_all(frame, sensor, p, l, px, py)
        root = root_weight(r0, r1, seen, weight, KIND, RADIUS)
        counts = root > 0.0
        store_row(J, size, at, 0, root, ta, la, ka, sa)
        store_row(J, size, at, 1, root, tb, lb, kb, sb)
        p0 = tl.where(counts, root * la[0], 0.0)
        p1 = tl.where(counts, root * la[1], 0.0)
        p2 = tl.where(counts, root * la[2], 0.0)
        q0 = tl.where(counts, root * lb[0], 0.0)
        q1 = tl.where(counts, root * lb[1], 0.0)
        q2 = tl.where(counts, root * lb[2], 0.0)
        r0 = tl.where(counts, root * r0, 0.0)
        r1 = tl.where(counts, root * r1, 0.0)
        near = tl.where(counts, tl.minimum(near, away), near)
        v0 += p0 * p0 + q0 * q0
        v1 += p0 * p1 + q0 * q1
        v2 += p0 * p2 + q0 * q2
        v3 += p1 * p1 + q1 * q1
        v4 += p1 * p2 + q1 * q2
        v5 += p2 * p2 + q2 * q2
        g0 += p0 * r0 + q0 * r1
        g1 += p1 * r0 + q1 * r1
        g2 += p2 * r0 + q2 * r1
    _, H, pull = prior_terms(
        prior_rows, targets, information, j, l, PRIORS, PRIOR_KIND, PRIOR_RADIUS
    )
    tl.store(bound + j, tl.sqrt(smallest(shared, near)) * decisions.STEP_BOUND, mask=own)
    at = V + 8 * j
    tl.store(at, joined(shared, v0) + H[0], mask=own)
    tl.store(at + 1, joined(shared, v1) + H[1], mask=own)
    tl.store(at + 2, joined(shared, v2) + H[2], mask=own)
    tl.store(at + 3, joined(shared, v3) + H[3], mask=own)
    tl.store(at + 4, joined(shared, v4) + H[4], mask=own)
    tl.store(at + 5, joined(shared, v5) + H[5], mask=own)
    free = tl.load(fixed + j) == 0
    tl.store(g + 4 * j, tl.where(free, joined(shared, g0) + pull[0], 0.0), mask=own)
    tl.store(g + 4 * j + 1, tl.where(free, joined(shared, g1) + pull[1], 0.0), mask=own)
    tl.store(g + 4 * j + 2, tl.where(free, joined(shared, g2) + pull[2], 0.0), mask=own)


@jit
def second_order_points(
    records, ends, heads, members, frames, sensors, cameras, points, ahead_frames, ahead_sensors,
    ahead_cameras, ahead_points, behind_frames, behind_sensors, behind_cameras, behind_points,
    fixed, scale, J, size, g, KIND: tl.constexpr, RADIUS: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """J_lᵀ r'' of each point: r'' are second differences of residuals, times `scale`, with √ρ' and
    ω."""
    n = tl.program_id(0)
    lane = tl.arange(0, L)
    start, width, _device, shared = head(heads, n)
    j, own = member(members, n * L + lane)
    l = spots(points, j)
    la = spots(ahead_points, j)
    lb = spots(behind_points, j)
    factor = tl.load(scale)
    g0 = tl.zeros([L], tl.float64)
    g1 = g0
    g2 = g0
    for slot in range(width):
        at = start + slot * L + lane
        px, py, weight, _ = quad(records, 4 * at)
        frame, sensor, p = seen_from(ends, frames, sensors, cameras, at)
        fa, sa, pa = seen_from(ends, ahead_frames, ahead_sensors, ahead_cameras, at)
        fb, sb, pb = seen_from(ends, behind_frames, behind_sensors, behind_cameras, at)
        r0, r1, c0, c1, seen = second_difference(
            (frame, sensor, p, l), (fa, sa, pa, la), (fb, sb, pb, lb), px, py
        )
        root = factor * root_weight(r0, r1, seen, weight, KIND, RADIUS)
        c0 = tl.where(root > 0.0, root * c0, 0.0)
        c1 = tl.where(root > 0.0, root * c1, 0.0)
        g0 -= tl.load(J + 3 * size + at) * c0 + tl.load(J + (B + 3) * size + at) * c1
        g1 -= tl.load(J + 4 * size + at) * c0 + tl.load(J + (B + 4) * size + at) * c1
        g2 -= tl.load(J + 5 * size + at) * c0 + tl.load(J + (B + 5) * size + at) * c1
    free = tl.load(fixed + j) == 0
    tl.store(g + 4 * j, tl.where(free, joined(shared, g0), 0.0), mask=own)
    tl.store(g + 4 * j + 1, tl.where(free, joined(shared, g1), 0.0), mask=own)
    tl.store(g + 4 * j + 2, tl.where(free, joined(shared, g2), 0.0), mask=own)


@jit
def second_order_images(
    records, point, begins, images, frames, sensors, cameras, points, ahead_frames, ahead_sensors,
    ahead_cameras, ahead_points, behind_frames, behind_sensors, behind_cameras, behind_points,
    scale, gradient, KIND: tl.constexpr, RADIUS: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """(J_c, J_g)ᵀ r'' of each image."""
    m = tl.program_id(0)
    first = tl.load(begins + m)
    last = tl.load(begins + m + 1)
    lane = tl.arange(0, L)
    none = tl.zeros([L], tl.int32)
    i = tl.load(images + 4 * m) + none
    camera = tl.load(images + 4 * m + 1) + none
    place = tl.load(images + 4 * m + 2) + none
    frame = frame_row(frames, i)
    sensor = sensor_row(sensors, frame, place)
    p = camera_row(cameras, camera)
    fa = frame_row(ahead_frames, i)
    sa = sensor_row(ahead_sensors, fa, place)
    pa = camera_row(ahead_cameras, camera)
    fb = frame_row(behind_frames, i)
    sb = sensor_row(behind_sensors, fb, place)
    pb = camera_row(behind_cameras, camera)
    factor = tl.load(scale)
    column = tl.arange(0, W)
    sums = tl.zeros([W], tl.float64)
    for n in range(first, last, L):
        some = n + lane < last
        at = tl.minimum(n + lane, last - 1)
        px, py, weight, _ = quad(records, 4 * at)
        weight = tl.where(some, weight, 0.0)
        j = tl.load(point + at)
        l = spots(points, j)
        r0, r1, c0, c1, seen = second_difference(
            (frame, sensor, p, l), (fa, sa, pa, spots(ahead_points, j)),
            (fb, sb, pb, spots(behind_points, j)), px, py,
        )  # fmt: skip
        root = root_weight(r0, r1, seen, weight, KIND, RADIUS)
        c0 = tl.where(root > 0.0, factor * root * c0, 0.0)
        c1 = tl.where(root > 0.0, factor * root * c1, 0.0)
        _, _, _, _, ta, la, ka, ua, tb, lb, kb, ub = by_all(frame, sensor, p, l, px, py)
        A = row_tile(root, ta, la, ka, ua, r0)
        C = row_tile(root, tb, lb, kb, ub, r1)
        sums += tl.sum(A * c0[:, None] + C * c1[:, None], axis=0)
    tl.store(gradient + m * W + column, sums)


@jit
def linearize_images(
    records, point, begins, images, frames, sensors, cameras, points, J, normal, away,
    KIND: tl.constexpr, RADIUS: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """Of each image the derivatives of its observations, row after row, and Σ of the products of
    rows (J_c, J_g, r) with themselves: U, X, T and gradients are parts of that. And the sum of
    distances to what it sees."""
    m = tl.program_id(0)
    first = tl.load(begins + m)
    last = tl.load(begins + m + 1)
    i = tl.load(images + 4 * m)
    frame = frame_row(frames, i)
    sensor = sensor_row(sensors, frame, tl.load(images + 4 * m + 2))
    lane = tl.arange(0, L)
    # of each lane, as elsewhere: Triton's interpreter cannot combine flags of lanes and of programs
    p = camera_row(cameras, tl.load(images + 4 * m + 1) + tl.zeros([L], tl.int32))
    column = tl.arange(0, W)
    tile = tl.zeros([W, W], tl.float64)
    far = tl.zeros([L], tl.float64)
    for n in range(first, last, L):
        some = n + lane < last
        at = tl.minimum(n + lane, last - 1)
        px, py, weight, _ = quad(records, 4 * at)
        weight = tl.where(some, weight, 0.0)
        l = spots(points, tl.load(point + at))
        r0, r1, seen, d2, ta, la, ka, sa, tb, lb, kb, sb = by_all(frame, sensor, p, l, px, py)
        root = root_weight(r0, r1, seen, weight, KIND, RADIUS)
        far += tl.where(some, tl.sqrt(d2), 0.0)
        A = row_tile(root, ta, la, ka, sa, r0)
        C = row_tile(root, tb, lb, kb, sb, r1)
        to = J + at[:, None] * (2 * B) + column[None, :]
        stored = some[:, None] & (column < B)[None, :]
        tl.store(to, A, mask=stored)
        tl.store(to + B, C, mask=stored)
        A = tl.sum(A[:, :, None], axis=2)  # see `kernels/rows.row16`
        C = tl.sum(C[:, :, None], axis=2)
        tile = tl.dot(tl.trans(A), A, tile, input_precision="ieee", out_dtype=tl.float64)
        tile = tl.dot(tl.trans(C), C, tile, input_precision="ieee", out_dtype=tl.float64)
    tl.store(normal + m * W * W + column[:, None] * W + column[None, :], tile)
    tl.store(away + m, tl.sum(far, axis=0))
