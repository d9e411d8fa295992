"""Template: the normal equations, and elimination of points from them.

    H = [U W; Wᵀ V],  S = U' − W V'⁻¹ Wᵀ,  W = J_cᵀ J_l per observation, primes for damping.

J_l = −J_t, so the columns of t in the stored derivatives serve for both. Unknowns are those of
frames, B each, and those that frames share: intrinsics and places of sensors, G for each image,
which are summed over images elsewhere.
"""

# ruff: noqa: F821


@inline
def add_observation(row, l, frame, block, g):
    """Add an observation to U, packed, and to g (B), with the frame's distance to the point behind
    it."""
    add_block(block, row, row, 1.0, 0.0, 0.0, 1.0)
    for a in range(B):
        g[a] += row[a] * row[2 * B] + row[B + a] * row[2 * B + 1]
    dx = l[0] - frame[9]
    dy = l[1] - frame[10]
    dz = l[2] - frame[11]
    g[B] += math.sqrt(dx * dx + dy * dy + dz * dz)


@inline
def clear(rows):
    for i in range(len(rows)):
        for a in range(rows.shape[1]):
            rows[i, a] = 0.0


@kernel
def linearize_frames(
    lo: int, hi: int, obs: Observations, x: Estimate, tasks: Tasks, point_tasks: Tasks, J: Matrix,
    buffers: Buffers, added: Matrix, list_ptr: Int64, list_obs: Int32, U: Blocks, g: Matrix,
    reach: Floats,
):  # fmt: skip
    """U and g of each frame, and its step bound: STEP_BOUND × its mean distance to the points it
    sees. They are what tasks of points have `added` up, if not empty, and the stored derivatives of
    a list of observations: those that are left, or all."""
    total = np.empty(ADDED)
    for t in range(lo, hi):
        device = tasks.device[t]
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for a in range(ADDED):
                total[a] = 0.0
            if len(added) > 0:
                for n in range(point_tasks.device_ptr[device], point_tasks.device_ptr[device + 1]):
                    row = added[buffers.ptr[n] + i - buffers.first[n]]
                    for a in range(ADDED):
                        total[a] += row[a]
            for n in range(list_ptr[i], list_ptr[i + 1]):
                prefetch(J, list_obs[min(n + AHEAD, len(list_obs) - 1)])
                k = list_obs[n]
                add_observation(
                    J[k], x.points[obs.point[k]], x.frames[i], total[:PACKED], total[PACKED:]
                )
            unpack(total[:PACKED], U[i])
            for a in range(B):
                g[i, a] = total[PACKED + a]
            seen = obs.frame_ptr[i + 1] - obs.frame_ptr[i]
            reach[i] = STEP_BOUND * total[PACKED + B] / seen if seen > 0 else np.inf


@kernel
def linearize_shared(
    lo: int, hi: int, obs: Observations, images: Images, tasks: Tasks, J: Matrix, Jg: Matrix,
    X: Blocks, T: Blocks, g: Matrix,
):  # fmt: skip
    """Of each image what its shared parameters meet: X = J_cᵀ J_g (B × G), T = J_gᵀ J_g, J_gᵀ r."""
    for t in range(lo, hi):
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for m in range(images.frame_ptr[i], images.frame_ptr[i + 1]):
                for b in range(G):
                    g[m, b] = 0.0
                    for a in range(B):
                        X[m, a, b] = 0.0
                    for a in range(G):
                        T[m, a, b] = 0.0
            for n in range(obs.frame_ptr[i], obs.frame_ptr[i + 1]):
                k = obs.frame_obs[n]
                m = obs.image[k]
                row = J[k]
                shared = Jg[k]
                for b in range(G):
                    p = shared[b]
                    q = shared[G + b]
                    g[m, b] += p * row[2 * B] + q * row[2 * B + 1]
                    for a in range(B):
                        X[m, a, b] += row[a] * p + row[B + a] * q
                    for a in range(G):
                        T[m, a, b] += shared[a] * p + shared[G + a] * q


@kernel
def gradient_points(
    lo: int, hi: int, obs: Observations, tasks: Tasks, J: Matrix, g: Matrix, buffers: Buffers,
    out: Matrix,
):  # fmt: skip
    """J_lᵀ r of each task's points, and J_cᵀ r of theirs, added up for the frames of its device."""
    for t in range(lo, hi):
        acc = out[buffers.ptr[t] : buffers.ptr[t + 1]]
        first = buffers.first[t]
        clear(acc)
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                row = J[k]
                for a in range(3):
                    g[j, a] -= row[3 + a] * row[2 * B] + row[B + 3 + a] * row[2 * B + 1]
            for k in range(obs.own_begin[j], obs.own_end[j]):
                row = J[k]
                target = acc[obs.frame[k] - first]
                for a in range(B):
                    target[a] += row[a] * row[2 * B] + row[B + a] * row[2 * B + 1]


@kernel
def gradient_frames(
    lo: int, hi: int, obs: Observations, tasks: Tasks, point_tasks: Tasks, J: Matrix,
    buffers: Buffers, added: Matrix, g: Matrix,
):  # fmt: skip
    """J_cᵀ r of frames: what the tasks of their devices' points have added up, in order, and what
    points of other devices do."""
    for t in range(lo, hi):
        device = tasks.device[t]
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for n in range(point_tasks.device_ptr[device], point_tasks.device_ptr[device + 1]):
                row = added[buffers.ptr[n] + i - buffers.first[n]]
                for a in range(B):
                    g[i, a] += row[a]
            for n in range(obs.inter_ptr[i], obs.inter_ptr[i + 1]):
                row = J[obs.inter_obs[n]]
                for a in range(B):
                    g[i, a] += row[a] * row[2 * B] + row[B + a] * row[2 * B + 1]


@kernel
def damp_points(
    lo: int, hi: int, tasks: Tasks, V: Matrix, g: Matrix, mu: float, fixed: Bools, V_inv: Matrix,
    z: Matrix,
):  # fmt: skip
    """V'⁻¹ and z = V'⁻¹ g; zeros for points that stay (`fixed`, if not empty): they are not
    eliminated."""
    for t in range(lo, hi):
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            if len(fixed) > 0 and fixed[j]:
                for a in range(6):
                    V_inv[j, a] = 0.0
                for a in range(3):
                    z[j, a] = 0.0
            else:
                invert_point(V[j], mu, LEAST_DIAGONAL, V_inv[j])
                multiply_point(V_inv[j], g[j], z[j])


@inline
def along_point(row, y):
    """J_l y of an observation."""
    return (
        -(row[3] * y[0] + row[4] * y[1] + row[5] * y[2]),
        -(row[B + 3] * y[0] + row[B + 4] * y[1] + row[B + 5] * y[2]),
    )


@kernel
def push_points(
    lo: int, hi: int, obs: Observations, tasks: Tasks, J: Matrix, h: Matrix, buffers: Buffers,
    out: Matrix,
):  # fmt: skip
    """W h of each task's points, added up for the frames of its device. By point derivatives are
    read as they lie, four times faster than by frame."""
    for t in range(lo, hi):
        acc = out[buffers.ptr[t] : buffers.ptr[t + 1]]
        first = buffers.first[t]
        for i in range(len(acc)):
            for a in range(B):
                acc[i, a] = 0.0
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            y = h[j]
            for k in range(obs.own_begin[j], obs.own_end[j]):
                row = J[k]
                p, q = along_point(row, y)
                target = acc[obs.frame[k] - first]
                for a in range(B):
                    target[a] += row[a] * p + row[B + a] * q


@kernel
def push_frames(
    lo: int, hi: int, obs: Observations, tasks: Tasks, point_tasks: Tasks, J: Matrix, h: Matrix,
    buffers: Buffers, pushed: Matrix, out: Matrix,
):  # fmt: skip
    """W h of frames: what the tasks of their devices' points have pushed, in order, and what points
    of other devices do."""
    for t in range(lo, hi):
        device = tasks.device[t]
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for a in range(B):
                out[i, a] = 0.0
            for n in range(point_tasks.device_ptr[device], point_tasks.device_ptr[device + 1]):
                row = pushed[buffers.ptr[n] + i - buffers.first[n]]
                for a in range(B):
                    out[i, a] += row[a]
            for n in range(obs.inter_ptr[i], obs.inter_ptr[i + 1]):
                k = obs.inter_obs[n]
                prefetch(J, obs.inter_obs[min(n + AHEAD, len(obs.inter_obs) - 1)])
                row = J[k]
                p, q = along_point(row, h[obs.point[k]])
                for a in range(B):
                    out[i, a] += row[a] * p + row[B + a] * q


@inline
def eliminate(row, Vi):
    """J_l V'⁻¹ (2×3) of an observation, up to the sign of J_l."""
    return (
        row[3] * Vi[0] + row[4] * Vi[1] + row[5] * Vi[2],
        row[3] * Vi[1] + row[4] * Vi[3] + row[5] * Vi[4],
        row[3] * Vi[2] + row[4] * Vi[4] + row[5] * Vi[5],
        row[B + 3] * Vi[0] + row[B + 4] * Vi[1] + row[B + 5] * Vi[2],
        row[B + 3] * Vi[1] + row[B + 4] * Vi[3] + row[B + 5] * Vi[4],
        row[B + 3] * Vi[2] + row[B + 4] * Vi[4] + row[B + 5] * Vi[5],
    )


@inline
def core(A, other):
    """J_l V'⁻¹ J_lᵀ (2×2) of two observations of one point; A from `eliminate`."""
    return (
        A[0] * other[3] + A[1] * other[4] + A[2] * other[5],
        A[0] * other[B + 3] + A[1] * other[B + 4] + A[2] * other[B + 5],
        A[3] * other[3] + A[4] * other[4] + A[5] * other[5],
        A[3] * other[B + 3] + A[4] * other[B + 4] + A[5] * other[B + 5],
    )


@inline
def along_frame(row, v):
    """J_c v of an observation."""
    p = q = 0.0
    for a in range(B):
        p += row[a] * v[a]
        q += row[B + a] * v[a]
    return p, q


@kernel
def back_substitute(
    lo: int, hi: int, obs: Observations, tasks: Tasks, J: Matrix, Jg: Matrix, V: Matrix,
    V_inv: Matrix, g: Matrix, reach: Floats, step_f: Matrix, step_s: Matrix, step: Matrix,
    partial: Floats,
):  # fmt: skip
    """step = −V'⁻¹ (g + Wᵀ step_c) of points, no longer than their bound; and what the model says
    they lower, −Σ (g + Wᵀ step_c)·δ + ½ δᵀVδ, of each task."""
    for t in range(lo, hi):
        total = 0.0
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            h0 = g[j, 0]
            h1 = g[j, 1]
            h2 = g[j, 2]
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                row = J[k]
                p, q = along_frame(row, step_f[obs.frame[k]])
                if G > 0:
                    v = step_s[obs.image[k]]
                    for a in range(G):
                        p += Jg[k, a] * v[a]
                        q += Jg[k, G + a] * v[a]
                h0 -= row[3] * p + row[B + 3] * q
                h1 -= row[4] * p + row[B + 4] * q
                h2 -= row[5] * p + row[B + 5] * q
            Vi = V_inv[j]
            x0 = -(Vi[0] * h0 + Vi[1] * h1 + Vi[2] * h2)
            x1 = -(Vi[1] * h0 + Vi[3] * h1 + Vi[4] * h2)
            x2 = -(Vi[2] * h0 + Vi[4] * h1 + Vi[5] * h2)
            length = math.sqrt(x0 * x0 + x1 * x1 + x2 * x2)
            if length > reach[j]:
                clip = reach[j] / length
                x0 *= clip
                x1 *= clip
                x2 *= clip
            step[j, 0] = x0
            step[j, 1] = x1
            step[j, 2] = x2
            v = V[j]
            square = (
                v[0] * x0 * x0 + v[3] * x1 * x1 + v[5] * x2 * x2
                + 2.0 * (v[1] * x0 * x1 + v[2] * x0 * x2 + v[4] * x1 * x2)
            )  # fmt: skip
            total -= h0 * x0 + h1 * x1 + h2 * x2 + 0.5 * square
        partial[t] = total


@kernel
def shared_columns(
    lo: int, hi: int, obs: Observations, images: Images, coarse: CoarseBlocks, tasks: Tasks,
    J: Matrix, V_inv: Matrix, X: Blocks, Y: Blocks, out: Blocks,
):  # fmt: skip
    """The columns of S in which what is shared meets frames, (F, B, m). The coarse blocks are
    groups of images only."""
    for t in range(lo, hi):
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for a in range(B):
                for b in range(out.shape[2]):
                    out[i, a, b] = 0.0
            for m in range(images.frame_ptr[i], images.frame_ptr[i + 1]):
                index = images.index[images.group[m]]
                for b in range(G):
                    if index[b] >= 0:
                        for a in range(B):
                            out[i, a, index[b]] += X[m, a, b]
            for n in range(obs.frame_ptr[i], obs.frame_ptr[i + 1]):
                k = obs.frame_obs[n]
                j = obs.point[k]
                row = J[k]
                A = eliminate(row, V_inv[j])
                for y in range(coarse.ptr[j], coarse.ptr[j + 1]):
                    W = Y[y]
                    index = images.index[coarse.block[y]]
                    for b in range(G):
                        if index[b] >= 0:
                            p = A[0] * W[0, b] + A[1] * W[1, b] + A[2] * W[2, b]
                            q = A[3] * W[0, b] + A[4] * W[1, b] + A[5] * W[2, b]
                            for a in range(B):
                                out[i, a, index[b]] += row[a] * p + row[B + a] * q
