"""Template, run after `passes.py`: points' own steps, each on its terms of F."""

# ruff: noqa: F821


@jit
def damped_inverse(v0, v1, v2, v3, v4, v5, mu, floor):
    """(V + μ max(diagonal, floor))⁻¹."""
    return inverse_symmetric3(
        v0 + mu * tl.maximum(v0, floor), v1, v2, v3 + mu * tl.maximum(v3, floor), v4,
        v5 + mu * tl.maximum(v5, floor),
    )  # fmt: skip


@jit
def point_system(
    records, ends, start, width, lane, shared, frames, sensors, cameras, l, KIND: tl.constexpr,
    RADIUS: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """Σ F_ij, Σ ω²|r|², min |l − t|², V and g of each lane's point, were it at l; sums are infinite
    where a camera does not see it there."""
    o = tl.zeros([L], tl.float64)
    total = o
    squares = o
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
        r0, r1, a0, a1, a2, b0, b1, b2, away, seen = by_point(frame, sensor, p, l, px, py)
        used = weight > 0.0
        w2 = weight * weight
        counts = used & seen
        s = tl.where(counts, w2 * (r0 * r0 + r1 * r1), 0.0)
        value, slope = rho(KIND, double(RADIUS), s)
        hidden = tl.where(used & (seen == 0), float("inf"), 0.0)
        total += 0.5 * value + hidden
        squares += s + hidden
        w = tl.where(counts, w2 * slope, 0.0)
        near = tl.where(used, tl.minimum(near, away), near)
        c = w > 0.0
        a0 = tl.where(c, a0, 0.0)
        a1 = tl.where(c, a1, 0.0)
        a2 = tl.where(c, a2, 0.0)
        b0 = tl.where(c, b0, 0.0)
        b1 = tl.where(c, b1, 0.0)
        b2 = tl.where(c, b2, 0.0)
        r0 = tl.where(c, r0, 0.0)
        r1 = tl.where(c, r1, 0.0)
        v0 += w * (a0 * a0 + b0 * b0)
        v1 += w * (a0 * a1 + b0 * b1)
        v2 += w * (a0 * a2 + b0 * b2)
        v3 += w * (a1 * a1 + b1 * b1)
        v4 += w * (a1 * a2 + b1 * b2)
        v5 += w * (a2 * a2 + b2 * b2)
        g0 += w * (a0 * r0 + b0 * r1)
        g1 += w * (a1 * r0 + b1 * r1)
        g2 += w * (a2 * r0 + b2 * r1)
    return (
        joined(shared, total), joined(shared, squares), smallest(shared, near),
        joined(shared, v0), joined(shared, v1), joined(shared, v2), joined(shared, v3),
        joined(shared, v4), joined(shared, v5), joined(shared, g0), joined(shared, g1),
        joined(shared, g2),
    )  # fmt: skip


@jit
def whole_system(
    records, ends, start, width, lane, shared, frames, sensors, cameras, prior_rows, targets,
    information, j, l, PRIORS: tl.constexpr, PRIOR_KIND: tl.constexpr,
    PRIOR_RADIUS: tl.constexpr, KIND: tl.constexpr, RADIUS: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """The same with the point's prior."""
    f, s, near, v0, v1, v2, v3, v4, v5, g0, g1, g2 = point_system(
        records, ends, start, width, lane, shared, frames, sensors, cameras, l, KIND, RADIUS, L
    )
    value, H, pull = prior_terms(
        prior_rows, targets, information, j, l, PRIORS, PRIOR_KIND, PRIOR_RADIUS
    )
    return (
        f + value, s, near, v0 + H[0], v1 + H[1], v2 + H[2], v3 + H[3], v4 + H[4], v5 + H[5],
        g0 + pull[0], g1 + pull[1], g2 + pull[2],
    )  # fmt: skip


@jit
def settle_points(
    records, ends, heads, members, frames, sensors, cameras, points, old, prior_rows, targets,
    information, fixed, partial, enough, STEPS, PRIORS: tl.constexpr, PRIOR_KIND: tl.constexpr,
    PRIOR_RADIUS: tl.constexpr, KIND: tl.constexpr, RADIUS: tl.constexpr, L: tl.constexpr,
):  # fmt: skip
    """Damped Gauss–Newton steps of each point on its own terms of F, at most STEPS; a point that a
    camera would not see begins at `old`. F, Σ ω²|r|², and points not seen even there, by slice.
    `enough` is the share of its F that a step must promise."""
    n = tl.program_id(0)
    lane = tl.arange(0, L)
    start, width, _device, shared = head(heads, n)
    j, own = member(members, n * L + lane)
    x, y, z = spots(points, j)
    f, s, near, v0, v1, v2, v3, v4, v5, g0, g1, g2 = whole_system(
        records, ends, start, width, lane, shared, frames, sensors, cameras, prior_rows, targets,
        information, j, (x, y, z), PRIORS, PRIOR_KIND, PRIOR_RADIUS, KIND, RADIUS, L,
    )  # fmt: skip
    hidden = f == float("inf")
    if tl.sum(hidden.to(tl.int32), axis=0) > 0:
        ox, oy, oz = spots(old, j)
        x = tl.where(hidden, ox, x)
        y = tl.where(hidden, oy, y)
        z = tl.where(hidden, oz, z)
        f, s, near, v0, v1, v2, v3, v4, v5, g0, g1, g2 = whole_system(
            records, ends, start, width, lane, shared, frames, sensors, cameras, prior_rows,
            targets, information, j, (x, y, z), PRIORS, PRIOR_KIND, PRIOR_RADIUS, KIND, RADIUS, L,
        )  # fmt: skip
    share = tl.load(enough)
    moving = (f < float("inf")) & (tl.load(fixed + j) == 0)
    if shared == 0:
        moving = moving & own
    mu = tl.zeros([L], tl.float64) + decisions.REFINE_DAMPING
    for _ in range(STEPS):
        floor = tl.maximum(v0, tl.maximum(v3, v5)) * decisions.REFINE_FLOOR
        moving = moving & (floor > 0.0)
        i0, i1, i2, i3, i4, i5 = damped_inverse(v0, v1, v2, v3, v4, v5, mu, floor)
        sx = i0 * g0 + i1 * g1 + i2 * g2
        sy = i1 * g0 + i3 * g1 + i4 * g2
        sz = i2 * g0 + i4 * g1 + i5 * g2
        moving = moving & (0.5 * (sx * g0 + sy * g1 + sz * g2) > share * f)
        if tl.sum(moving.to(tl.int32), axis=0) > 0:
            length = tl.sqrt(sx * sx + sy * sy + sz * sz)
            bound = tl.sqrt(near) * decisions.STEP_BOUND
            clip = tl.where(length > bound, bound / length, 1.0)
            nx = tl.where(moving, x - clip * sx, x)
            ny = tl.where(moving, y - clip * sy, y)
            nz = tl.where(moving, z - clip * sz, z)
            nf, ns, nn, w0, w1, w2, w3, w4, w5, h0, h1, h2 = whole_system(
                records, ends, start, width, lane, shared, frames, sensors, cameras, prior_rows,
                targets, information, j, (nx, ny, nz), PRIORS, PRIOR_KIND, PRIOR_RADIUS, KIND,
                RADIUS, L,
            )  # fmt: skip
            better = moving & (nf < f)
            x = tl.where(better, nx, x)
            y = tl.where(better, ny, y)
            z = tl.where(better, nz, z)
            f = tl.where(better, nf, f)
            s = tl.where(better, ns, s)
            near = tl.where(better, nn, near)
            v0 = tl.where(better, w0, v0)
            v1 = tl.where(better, w1, v1)
            v2 = tl.where(better, w2, v2)
            v3 = tl.where(better, w3, v3)
            v4 = tl.where(better, w4, v4)
            v5 = tl.where(better, w5, v5)
            g0 = tl.where(better, h0, g0)
            g1 = tl.where(better, h1, g1)
            g2 = tl.where(better, h2, g2)
            mu = tl.where(better, mu / decisions.REFINE_GROWTH, mu * decisions.REFINE_GROWTH)
    tl.store(points + 4 * j, x, mask=own)
    tl.store(points + 4 * j + 1, y, mask=own)
    tl.store(points + 4 * j + 2, z, mask=own)
    lost = tl.where(own & (f == float("inf")), 1.0, 0.0)
    store_sums(partial, n, tl.where(own, f, 0.0), tl.where(own, s, 0.0), lost)
