"""Template: passes over the observations of points: objective, derivatives, and points' own steps.

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


@kernel
def linearize(
    lo: int, hi: int, obs: Observations, images: Images, x: Estimate, tasks: Tasks, loss: Loss,
    prior: Known, J: Matrix, Jg: Matrix, V: Matrix, g: Matrix, reach: Floats,
):  # fmt: skip
    """Residuals and derivatives of each observation, with √ρ' and ω; V, g and the step bound of
    each point."""
    for t in range(lo, hi):
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            v0 = v1 = v2 = v3 = v4 = v5 = 0.0
            g0 = g1 = g2 = 0.0
            nearest = np.inf
            l = x.points[j]
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                row = J[k]
                shared = Jg[k]
                i = obs.image[k]
                r0, r1, seen, away, ta, la, ka, sa, tb, lb, kb, sb = by_all(
                    x.frames[obs.frame[k]], sensor_of(x, images, i), x.params[images.camera[i]],
                    l, obs.xy[k, 0], obs.xy[k, 1],
                )  # fmt: skip
                w2 = obs.weight[k] * obs.weight[k]
                if not (seen and w2 > 0.0):
                    for n in range(2 * B + 2):
                        row[n] = 0.0
                    for n in range(2 * G):
                        shared[n] = 0.0
                    continue
                slope = rho(loss.kind, loss.radius, w2 * (r0 * r0 + r1 * r1))[1]
                root = math.sqrt(w2 * slope)
                r0 *= root
                r1 *= root
                for n in range(3):
                    row[n] = root * ta[n]
                    row[3 + n] = -root * la[n]
                    row[B + n] = root * tb[n]
                    row[B + 3 + n] = -root * lb[n]
                for n in range(OWN):
                    row[6 + n] = root * ka[n]
                    row[B + 6 + n] = root * kb[n]
                row[2 * B] = r0
                row[2 * B + 1] = r1
                for n in range(N):
                    shared[n] = root * ka[n]
                    shared[G + n] = root * kb[n]
                if SENSORS:
                    for n in range(6):
                        shared[N + n] = root * sa[n]
                        shared[G + N + n] = root * sb[n]
                nearest = min(nearest, away)
                p0 = row[3]
                p1 = row[4]
                p2 = row[5]
                q0 = row[B + 3]
                q1 = row[B + 4]
                q2 = row[B + 5]
                v0 += p0 * p0 + q0 * q0
                v1 += p0 * p1 + q0 * q1
                v2 += p0 * p2 + q0 * q2
                v3 += p1 * p1 + q1 * q1
                v4 += p1 * p2 + q1 * q2
                v5 += p2 * p2 + q2 * q2
                g0 -= p0 * r0 + q0 * r1
                g1 -= p1 * r0 + q1 * r1
                g2 -= p2 * r0 + q2 * r1
            reach[j] = STEP_BOUND * math.sqrt(nearest)
            V[j, 0] = v0
            V[j, 1] = v1
            V[j, 2] = v2
            V[j, 3] = v3
            V[j, 4] = v4
            V[j, 5] = v5
            g[j, 0] = g0
            g[j, 1] = g1
            g[j, 2] = g2
            add_prior(prior, j, l, V[j], g[j])


@inline
def point_system(obs, images, x, j, l, loss, prior, V, g):
    """V and g of point j, were it at l; returns Σ F_ij, Σ ω²|r|² and min |l − t|²; infinite sums
    where a camera does not see it there."""
    v0 = v1 = v2 = v3 = v4 = v5 = 0.0
    g0 = g1 = g2 = 0.0
    total = 0.0
    squares = 0.0
    nearest = np.inf
    for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
        w2 = obs.weight[k] * obs.weight[k]
        if w2 > 0.0:
            i = obs.image[k]
            r0, r1, a0, a1, a2, b0, b1, b2, away, seen = by_point(
                x.frames[obs.frame[k]], sensor_of(x, images, i), x.params[images.camera[i]], l,
                obs.xy[k, 0], obs.xy[k, 1],
            )  # fmt: skip
            if not seen:
                return np.inf, np.inf, nearest
            s = w2 * (r0 * r0 + r1 * r1)
            value, slope = rho(loss.kind, loss.radius, s)
            total += 0.5 * value
            squares += s
            w = w2 * slope
            nearest = min(nearest, away)
            v0 += w * (a0 * a0 + b0 * b0)
            v1 += w * (a0 * a1 + b0 * b1)
            v2 += w * (a0 * a2 + b0 * b2)
            v3 += w * (a1 * a1 + b1 * b1)
            v4 += w * (a1 * a2 + b1 * b2)
            v5 += w * (a2 * a2 + b2 * b2)
            g0 += w * (a0 * r0 + b0 * r1)
            g1 += w * (a1 * r0 + b1 * r1)
            g2 += w * (a2 * r0 + b2 * r1)
    V[0], V[1], V[2], V[3], V[4], V[5] = v0, v1, v2, v3, v4, v5
    g[0], g[1], g[2] = g0, g1, g2
    total += prior_value(prior, j, l)
    add_prior(prior, j, l, V, g)
    return total, squares, nearest


DAMPING = 1e-4
"""Of a point's own steps."""
HARDER = 30.0
"""Factor on it where a step has failed; it is taken back where one succeeds."""
ENOUGH = 1e-6
"""A point rests when its model promises less than this share of its terms of F."""


@kernel
def settle_points(
    lo: int, hi: int, obs: Observations, images: Images, x: Estimate, old: Matrix, tasks: Tasks,
    loss: Loss, prior: Known, steps: int, fixed: Bools, points: Matrix, partial: Matrix,
):  # fmt: skip
    """From `points`, at most `steps` damped Gauss–Newton steps of each point on its own terms of F,
    for the cameras of x; a point that a camera would not see begins at `old`. F, Σ ω²|r|², and
    points not seen even there, of each task's points. `fixed`, if not empty: which stay."""
    V = np.empty(6)
    g = np.empty(3)
    new_V = np.empty(6)
    new_g = np.empty(3)
    Vi = np.empty(6)
    step = np.empty(3)
    new = np.empty(3)
    for t in range(lo, hi):
        f_sum = 0.0
        s_sum = 0.0
        unseen = 0.0
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            l = points[j]
            value, squares, nearest = point_system(obs, images, x, j, l, loss, prior, V, g)
            if value == np.inf:
                for a in range(3):
                    l[a] = old[j, a]
                value, squares, nearest = point_system(obs, images, x, j, l, loss, prior, V, g)
                if value == np.inf:
                    unseen += 1.0
            left = steps if value < np.inf and not (len(fixed) > 0 and fixed[j]) else 0
            mu = DAMPING
            while left > 0:
                left -= 1
                floor = 1e-9 * max(V[0], V[3], V[5])
                if not floor > 0.0:
                    break
                invert_point(V, mu, floor, Vi)
                multiply_point(Vi, g, step)
                promise = 0.5 * (step[0] * g[0] + step[1] * g[1] + step[2] * g[2])
                if not promise > ENOUGH * value:
                    break
                length = math.sqrt(step[0] * step[0] + step[1] * step[1] + step[2] * step[2])
                bound = STEP_BOUND * math.sqrt(nearest)
                clip = bound / length if length > bound else 1.0
                for a in range(3):
                    new[a] = l[a] - clip * step[a]
                new_value, new_squares, new_nearest = point_system(
                    obs, images, x, j, new, loss, prior, new_V, new_g
                )
                if new_value < value:
                    value = new_value
                    squares = new_squares
                    nearest = new_nearest
                    for a in range(3):
                        l[a] = new[a]
                        g[a] = new_g[a]
                    for a in range(6):
                        V[a] = new_V[a]
                    mu /= HARDER
                else:
                    mu *= HARDER
            f_sum += value
            s_sum += squares
        partial[t, 0] = f_sum
        partial[t, 1] = s_sum
        partial[t, 2] = unseen
