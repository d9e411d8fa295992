"""Template: steps that points make on their own, one point in each lane (`lanes.py`)."""

# ruff: noqa: F821

DAMPING = 1e-4
"""Of a point's own steps."""
HARDER = 30.0
"""Factor on it where a step has failed; it is taken back where one succeeds."""
ENOUGH = 1e-6
"""A point rests when its model promises less than this share of its terms of F."""


@inline
def priors_of(lanes, prior, l):
    """½ρ of the priors of points at l, and what they add to V and g: 1 + 6 + 3 vectors."""
    room = lanes.room
    write_rows(room, l)
    for n in range(LANES):
        lanes.x[n] = prior_value(prior, lanes.point[n], room[n])
        for a in range(3, 12):
            room[n, a] = 0.0
        add_prior(prior, lanes.point[n], room[n], room[n, 3:], room[n, 9:])
        lanes.frame[n] = n
    return read(lanes.x, 0), read_frames(room, lanes.frame, 0)[3:]


@inline
def point_systems(lanes, obs, images, x, l, loss, prior):
    """Of each lane's point, were it at l: Σ F_ij, Σ ω²|r|², min |l − t|², whether all cameras see
    it, V (6), and g (3)."""
    zero = spread(0.0)
    always = zero == zero
    v0 = v1 = v2 = v3 = v4 = v5 = zero
    g0 = g1 = g2 = zero
    total = zero
    squares = zero
    nearest = spread(np.inf)
    all_seen = always
    for m in range(longest(lanes, obs)):
        frame, sensor, camera, px, py, w2 = look_at(lanes, obs, images, x, m)
        r0, r1, a0, a1, a2, b0, b1, b2, away, seen = by_point(frame, sensor, camera, l, px, py)
        counts = w2 > 0.0
        all_seen = all_seen & where(counts, seen, always)
        s = where(counts, w2 * (r0 * r0 + r1 * r1), 0.0)
        value, slope = rho(loss.kind, loss.radius, s)
        total += 0.5 * value
        squares += s
        nearest = where(counts & (away < nearest), away, nearest)
        w = w2 * slope
        v0 += where(counts, w * (a0 * a0 + b0 * b0), 0.0)
        v1 += where(counts, w * (a0 * a1 + b0 * b1), 0.0)
        v2 += where(counts, w * (a0 * a2 + b0 * b2), 0.0)
        v3 += where(counts, w * (a1 * a1 + b1 * b1), 0.0)
        v4 += where(counts, w * (a1 * a2 + b1 * b2), 0.0)
        v5 += where(counts, w * (a2 * a2 + b2 * b2), 0.0)
        g0 += where(counts, w * (a0 * r0 + b0 * r1), 0.0)
        g1 += where(counts, w * (a1 * r0 + b1 * r1), 0.0)
        g2 += where(counts, w * (a2 * r0 + b2 * r1), 0.0)
    if len(prior.row) > 0:
        value, (p0, p1, p2, p3, p4, p5, q0, q1, q2) = priors_of(lanes, prior, l)
        total += value
        v0 += p0
        v1 += p1
        v2 += p2
        v3 += p3
        v4 += p4
        v5 += p5
        g0 += q0
        g1 += q1
        g2 += q2
    return total, squares, nearest, all_seen, (v0, v1, v2, v3, v4, v5), (g0, g1, g2)


@inline
def larger(a, b):
    return where(a > b, a, b)


@inline
def point_step(V, g, mu, floor):
    """V'⁻¹ g, damped by μ, and ½ gᵀV'⁻¹g, what the model promises."""
    a, b, c, d, e, f = inverse_symmetric3(
        V[0] + mu * larger(V[0], floor), V[1], V[2], V[3] + mu * larger(V[3], floor), V[4],
        V[5] + mu * larger(V[5], floor),
    )  # fmt: skip
    x = a * g[0] + b * g[1] + c * g[2]
    y = b * g[0] + d * g[1] + e * g[2]
    z = c * g[0] + e * g[1] + f * g[2]
    return x, y, z, 0.5 * (x * g[0] + y * g[1] + z * g[2])


@inline
def choose(condition, yes, no):
    """Each of three vectors where the condition holds from `yes`, elsewhere from `no`."""
    return (
        where(condition, yes[0], no[0]), where(condition, yes[1], no[1]),
        where(condition, yes[2], no[2]),
    )  # fmt: skip


@inline
def settle_lanes(lanes, obs, images, x, l, old, free, loss, prior, steps):
    """Where the lanes' points come to rest, from l, or from `old` where a camera would not see them
    at l; their terms of F, Σ ω²|r|², and whether all cameras see them there."""
    zero = spread(0.0)
    value = spread(np.inf)
    squares = nearest = left = zero
    left += steps
    V = (zero, zero, zero, zero, zero, zero)
    g = (zero, zero, zero)
    mu = zero + DAMPING
    moving = zero == zero
    new = l
    for turn in range(steps + 2):
        f, s, away, seen, new_V, new_g = point_systems(lanes, obs, images, x, new, loss, prior)
        better = moving & seen & (f < value)
        mu = where(value < np.inf, where(better, mu / HARDER, mu * HARDER), mu)
        value = where(better, f, value)
        squares = where(better, s, squares)
        nearest = where(better, away, nearest)
        l = choose(better, new, l)
        g = choose(better, new_g, g)
        V = choose(better, new_V[:3], V[:3]) + choose(better, new_V[3:], V[3:])
        floor = 1e-9 * larger(larger(V[0], V[3]), V[5])
        a, b, c, promise = point_step(V, g, mu, floor)
        length = sqrt(a * a + b * b + c * c)
        bound = STEP_BOUND * sqrt(nearest)
        clip = where(length > bound, bound / length, 1.0)
        new = (l[0] - clip * a, l[1] - clip * b, l[2] - clip * c)
        placed = value < np.inf
        moving = moving & placed & free & (left > 0.0) & (floor > 0.0) & (promise > ENOUGH * value)
        left = where(placed, left - 1.0, left)
        if turn == 0:
            new = choose(placed, new, old)
            moving = where(placed, moving, zero == zero)
        if not any_lane(moving):
            break
    placed = value < np.inf
    return choose(placed, l, old), value, squares, placed


@kernel
def settle_points(
    lo: int, hi: int, obs: Observations, images: Images, x: Estimate, old: Matrix, tasks: Tasks,
    loss: Loss, prior: Known, steps: int, fixed: Bools, points: Matrix, partial: Matrix,
):  # fmt: skip
    """From `points`, at most `steps` damped Gauss–Newton steps of each point on its own terms of F,
    for the cameras of x; a point that a camera would not see begins at `old`. F, Σ ω²|r|², and
    points not seen even there, of each task's points. `fixed`, if not empty: which stay."""
    lanes = make_lanes()
    order = np.empty(BATCH, np.int64)
    counts = np.empty(LENGTHS + 1, np.int64)
    found = np.empty((BATCH, 3))
    rest = np.empty((LANES, 6))
    for t in range(lo, hi):
        f_sum = 0.0
        s_sum = 0.0
        unseen = 0.0
        for first in range(tasks.ptr[t], tasks.ptr[t + 1], BATCH):
            last = min(first + BATCH, tasks.ptr[t + 1])
            by_length(obs, first, last, order, counts)
            for begin in range(0, last - first, LANES):
                take_points(lanes, order, begin, last - first)
                for n in range(LANES):
                    stays = len(fixed) > 0 and fixed[lanes.point[n]]
                    lanes.weight[n] = 0.0 if stays else 1.0
                free = read(lanes.weight, 0) > 0.0
                l, value, squares, seen = settle_lanes(
                    lanes, obs, images, x, read_points(points, lanes.point, 0),
                    read_points(old, lanes.point, 0), free, loss, prior, steps,
                )  # fmt: skip
                unseen_here = where(seen, 0.0, 1.0)
                write_rows(rest, (l[0], l[1], l[2], value, squares, unseen_here))
                for n in range(LANES):
                    j = lanes.point[n]
                    for a in range(3):
                        points[j, a] = rest[n, a]
                        found[j - first, a] = rest[n, 3 + a]
            for n in range(last - first):
                f_sum += found[n, 0]
                s_sum += found[n, 1]
                unseen += found[n, 2]
        partial[t, 0] = f_sum
        partial[t, 1] = s_sum
        partial[t, 2] = unseen
