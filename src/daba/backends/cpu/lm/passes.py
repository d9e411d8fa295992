"""Template: passes over the observations of points: objective and derivatives.

Bound: B, OWN, N, G, RIG, SENSORS as in `binding.py`; `squared`, `by_point` and `by_all` of the
error. Every kernel works on the tasks lo : hi.
"""

# ruff: noqa: F821


@inline
def sensor_of(x, images, i):
    """The sensor's record; any, where images are frames."""
    if RIG:
        return x.sensors[images.sensor[i]]
    return x.frames[0]


@inline
def prior_square(prior, n, l):
    """rᵀΛr of prior n for a point at l."""
    total = 0.0
    for a in range(3):
        for b in range(3):
            total += (
                (l[a] - prior.target[n, a])
                * prior.information[n, a, b]
                * (l[b] - prior.target[n, b])
            )
    return total


@inline
def prior_value(prior, j, l):
    """½ρ(rᵀΛr) of point j at l, 0 without a prior."""
    if len(prior.row) > 0 and prior.row[j] >= 0:
        return 0.5 * rho(prior.kind, prior.radius, prior_square(prior, prior.row[j], l))[0]
    return 0.0


@inline
def add_prior(prior, j, l, V, g):
    """Add ρ'Λ to V (upper triangle) and ρ'Λr to g."""
    if len(prior.row) > 0 and prior.row[j] >= 0:
        n = prior.row[j]
        slope = rho(prior.kind, prior.radius, prior_square(prior, n, l))[1]
        m = 0
        for a in range(3):
            for b in range(3):
                H = slope * prior.information[n, a, b]
                g[a] += H * (l[b] - prior.target[n, b])
                if b >= a:
                    V[m] += H
                    m += 1


@kernel
def objective(
    lo: int, hi: int, obs: Observations, images: Images, x: Estimate, tasks: Tasks, loss: Loss,
    prior: Known, partial: Matrix,
):  # fmt: skip
    """F, Σ ω²|r|², and points that a camera does not see, of each task's points."""
    for t in range(lo, hi):
        f_sum = 0.0
        s_sum = 0.0
        unseen = 0.0
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            l = x.points[j]
            all_seen = True
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                w2 = obs.weight[k] * obs.weight[k]
                if w2 > 0.0:
                    i = obs.image[k]
                    s, seen = squared(
                        x.frames[obs.frame[k]], sensor_of(x, images, i), x.params[images.camera[i]],
                        l, obs.xy[k, 0], obs.xy[k, 1],
                    )  # fmt: skip
                    all_seen = all_seen and seen
                    s *= w2
                    f_sum += 0.5 * rho(loss.kind, loss.radius, s)[0]
                    s_sum += s
            f_sum += prior_value(prior, j, l)
            if not all_seen:
                unseen += 1.0
        partial[t, 0] = f_sum
        partial[t, 1] = s_sum
        partial[t, 2] = unseen


@kernel
def visible(
    lo: int, hi: int, obs: Observations, images: Images, x: Estimate, tasks: Tasks, seen: Bools
):  # fmt: skip
    """Whether cameras see the points of their observations."""
    for t in range(lo, hi):
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                i = obs.image[k]
                seen[k] = squared(
                    x.frames[obs.frame[k]], sensor_of(x, images, i), x.params[images.camera[i]],
                    x.points[j], obs.xy[k, 0], obs.xy[k, 1],
                )[1]  # fmt: skip


@inline
def records_of(lanes, x):
    """What the lanes look at of another estimate: frames, sensors, cameras and points."""
    frame = read_frames(x.frames, lanes.frame, 0)
    sensor = frame
    if RIG:
        sensor = read_frames(x.sensors, lanes.sensor, 0)
    camera = read_cameras(x.params, lanes.camera, 0)
    return frame, sensor, camera, read_points(x.points, lanes.point, 0)


@kernel
def second_order(
    lo: int, hi: int, obs: Observations, images: Images, x: Estimate, ahead: Estimate,
    behind: Estimate, tasks: Tasks, loss: Loss, scale: float, J: Matrix,
):  # fmt: skip
    """Second differences of residuals, times `scale`, in their place beside the derivatives, with
    √ρ' and ω."""
    lanes = make_lanes()
    order = np.empty(BATCH, np.int64)
    counts = np.empty(LENGTHS + 1, np.int64)
    for t in range(lo, hi):
        for first in range(tasks.ptr[t], tasks.ptr[t + 1], BATCH):
            last = min(first + BATCH, tasks.ptr[t + 1])
            by_length(obs, first, last, order, counts)
            for begin in range(0, last - first, LANES):
                take_points(lanes, order, begin, last - first)
                l = read_points(x.points, lanes.point, 0)
                for m in range(longest(lanes, obs)):
                    frame, sensor, camera, px, py, w2 = look_at(lanes, obs, images, x, m)
                    r0, r1, c0, c1, seen = second_difference(
                        (frame, sensor, camera, l), records_of(lanes, ahead),
                        records_of(lanes, behind), px, py,
                    )  # fmt: skip
                    used = seen & (w2 > 0.0)
                    square = where(used, w2 * (r0 * r0 + r1 * r1), 0.0)
                    slope = rho(loss.kind, loss.radius, square)[1]
                    root = scale * sqrt(where(used, w2 * slope, 0.0))
                    write_rows(lanes.room, scaled((c0, c1), root, used))
                    for n in range(LANES):
                        if lanes.obs[n] >= 0:
                            row = J[lanes.obs[n]]
                            row[2 * (6 + OWN)] = lanes.room[n, 0]
                            row[2 * (6 + OWN) + 1] = lanes.room[n, 1]


@inline
def linearize_lanes(lanes, obs, images, x, loss, J, Jg):
    """Write the derivatives of all observations of the lanes' points; min |l − t|², and V and g."""
    zero = spread(0.0)
    v0 = v1 = v2 = v3 = v4 = v5 = zero
    g0 = g1 = g2 = zero
    nearest = spread(np.inf)
    l = read_points(x.points, lanes.point, 0)
    for m in range(longest(lanes, obs)):
        frame, sensor, camera, px, py, w2 = look_at(lanes, obs, images, x, m)
        r0, r1, seen, away, ta, la, ka, sa, tb, lb, kb, sb = by_all(
            frame, sensor, camera, l, px, py
        )
        counts = seen & (w2 > 0.0)
        slope = rho(loss.kind, loss.radius, where(counts, w2 * (r0 * r0 + r1 * r1), 0.0))[1]
        root = sqrt(where(counts, w2 * slope, 0.0))
        p0, p1, p2 = scaled((-la[0], -la[1], -la[2]), root, counts)
        q0, q1, q2 = scaled((-lb[0], -lb[1], -lb[2]), root, counts)
        s0, s1 = scaled((r0, r1), root, counts)
        write_numbered(
            J, lanes.obs,
            scaled(ta, root, counts) + (p0, p1, p2) + scaled(ka[:OWN], root, counts)
            + scaled(tb, root, counts) + (q0, q1, q2) + scaled(kb[:OWN], root, counts) + (s0, s1),
        )  # fmt: skip
        if SENSORS:
            write_numbered(
                Jg, lanes.obs,
                scaled(ka[:N] + sa, root, counts) + scaled(kb[:N] + sb, root, counts),
            )  # fmt: skip
        elif N > 0:
            write_numbered(
                Jg, lanes.obs, scaled(ka[:N], root, counts) + scaled(kb[:N], root, counts)
            )
        nearest = where(counts & (away < nearest), away, nearest)
        v0 += p0 * p0 + q0 * q0
        v1 += p0 * p1 + q0 * q1
        v2 += p0 * p2 + q0 * q2
        v3 += p1 * p1 + q1 * q1
        v4 += p1 * p2 + q1 * q2
        v5 += p2 * p2 + q2 * q2
        g0 += p0 * s0 + q0 * s1
        g1 += p1 * s0 + q1 * s1
        g2 += p2 * s0 + q2 * s1
    return nearest, (v0, v1, v2, v3, v4, v5, -g0, -g1, -g2)


@kernel
def linearize(
    lo: int, hi: int, obs: Observations, images: Images, x: Estimate, tasks: Tasks, loss: Loss,
    prior: Known, J: Matrix, Jg: Matrix, V: Matrix, g: Matrix, reach: Floats, buffers: Buffers,
    added: Matrix,
):  # fmt: skip
    """Residuals and derivatives of each observation, with √ρ' and ω; V, g and the step bound of
    each point. With `added`, if not empty, what each task's points add to U and g of the frames of
    their device, as long as it is in the cache."""
    lanes = make_lanes()
    order = np.empty(BATCH, np.int64)
    counts = np.empty(LENGTHS + 1, np.int64)
    for t in range(lo, hi):
        if len(added) > 0:
            clear(added[buffers.ptr[t] : buffers.ptr[t + 1]])
        for first in range(tasks.ptr[t], tasks.ptr[t + 1], BATCH):
            last = min(first + BATCH, tasks.ptr[t + 1])
            by_length(obs, first, last, order, counts)
            for begin in range(0, last - first, LANES):
                take_points(lanes, order, begin, last - first)
                nearest, sums = linearize_lanes(lanes, obs, images, x, loss, J, Jg)
                write_rows(lanes.room, (*sums, nearest))
                for n in range(LANES):
                    j = lanes.point[n]
                    for a in range(6):
                        V[j, a] = lanes.room[n, a]
                    for a in range(3):
                        g[j, a] = lanes.room[n, 6 + a]
                    reach[j] = STEP_BOUND * math.sqrt(lanes.room[n, 9])
            for j in range(first, last):
                add_prior(prior, j, x.points[j], V[j], g[j])
            if len(added) > 0:
                for j in range(first, last):
                    for k in range(obs.own_begin[j], obs.own_end[j]):
                        i = obs.frame[k]
                        row = added[buffers.ptr[t] + i - buffers.first[t]]
                        add_observation(J[k], x.points[j], x.frames[i], row[:PACKED], row[PACKED:])
