"""Template: the coarse space of the preconditioner.

Its blocks are clusters of frames, each with W motions of theirs at most (Z, kept for each frame as
(B, W)), and groups of images, with the parameters that they share. Of a block q that sees point j
only Y_jq = Wᵀ Z, (3, W), is needed: with h = V'⁻¹ Wᵀ v,

    ZᵀSZ = Zᵀ U' Z − Σ_j Y_jqᵀ V'⁻¹ Y_jr,    Zᵀ S v = Zᵀ U' v − Σ_j Y_jqᵀ h_j.

Devices number the blocks that their points see from 0 on: `coarse.local`.
"""

# ruff: noqa: F821


@inline
def along_motions(row, z, a, count):
    """J_c z of an observation, for `count` motions of its frame from a on."""
    p = q = spread(0.0)
    for b in range(B):
        motion = get(z, b, a, count)
        p += row[b] * motion
        q += row[B + b] * motion
    return p, q


@inline
def add_to(matrix, row, a, count, x, p, y, q):
    """Add x p + y q to a part of a row."""
    put(matrix, row, a, count, get(matrix, row, a, count) + x * p + y * q)


@kernel
def coarse_rows(
    lo: int, hi: int, obs: Observations, coarse: CoarseBlocks, tasks: Tasks, J: Matrix, Jg: Matrix,
    Z: Blocks, Y: Blocks,
):  # fmt: skip
    """Y of each point and block that sees it; `at_cluster` and `at_group` say where an observation
    adds to."""
    width = Z.shape[2]
    for t in range(lo, hi):
        for y in range(coarse.ptr[tasks.ptr[t]], coarse.ptr[tasks.ptr[t + 1]]):
            Y[y] = 0.0
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                row = J[k]
                if width > 0:
                    z = Z[obs.frame[k]]
                    out = Y[coarse.at_cluster[k]]
                    for a in range(0, width, LANES):
                        p, q = along_motions(row, z, a, width - a)
                        for c in range(3):
                            add_to(out, c, a, width - a, -row[3 + c], p, -row[B + 3 + c], q)
                if G > 0:
                    out = Y[coarse.at_group[k]]
                    shared = Jg[k]
                    for c in range(3):
                        for a in range(G):
                            out[c, a] -= shared[a] * row[3 + c] + shared[G + a] * row[B + 3 + c]


@inline
def eliminate_motions(Vi, Y, out):
    """out = V'⁻¹ Y."""
    for a in range(0, Y.shape[1], LANES):
        n = Y.shape[1] - a
        x = get(Y, 0, a, n)
        y = get(Y, 1, a, n)
        z = get(Y, 2, a, n)
        put(out, 0, a, n, Vi[0] * x + Vi[1] * y + Vi[2] * z)
        put(out, 1, a, n, Vi[1] * x + Vi[3] * y + Vi[4] * z)
        put(out, 2, a, n, Vi[2] * x + Vi[4] * y + Vi[5] * z)


@kernel
def coarse_matrix(
    lo: int, hi: int, coarse: CoarseBlocks, tasks: Tasks, V_inv: Matrix, Y: Blocks,
    out: Annotated[Floats, 4],
):  # fmt: skip
    """out[t, n] = Σ_j Y_jqᵀ V'⁻¹ Y_jr over a task's points, for each pair n = (q ≥ r) of blocks."""
    W = Y.shape[2]
    left = np.empty((3, W))
    for t in range(lo, hi):
        pairs = coarse.pair[tasks.device[t]]
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for y in range(coarse.ptr[j], coarse.ptr[j + 1]):
                eliminate_motions(V_inv[j], Y[y], left)
                for z in range(coarse.ptr[j], y + 1):
                    block = out[t, pairs[coarse.local[y], coarse.local[z]]]
                    for b in range(0, W, LANES):
                        n = W - b
                        first = get(Y[z], 0, b, n)
                        second = get(Y[z], 1, b, n)
                        third = get(Y[z], 2, b, n)
                        for a in range(W):
                            more = left[0, a] * first + left[1, a] * second + left[2, a] * third
                            put(block, a, b, n, get(block, a, b, n) + more)


@inline
def add_pulled(obs, J, Jg, v, v_s, begin, end, s):
    """s += Wᵀ v over the observations begin : end of a point."""
    for k in range(begin, end):
        row = J[k]
        p, q = along_frame(row, v[obs.frame[k]])
        if G > 0:
            u = v_s[obs.image[k]]
            for a in range(G):
                p += Jg[k, a] * u[a]
                q += Jg[k, G + a] * u[a]
        s[0] -= row[3] * p + row[B + 3] * q
        s[1] -= row[4] * p + row[B + 4] * q
        s[2] -= row[5] * p + row[B + 5] * q


@kernel
def pull_own(
    lo: int, hi: int, obs: Observations, tasks: Tasks, J: Matrix, Jg: Matrix, v: Matrix,
    v_s: Matrix, h: Matrix,
):  # fmt: skip
    """Wᵀ v of each point, by frames of its own device."""
    for t in range(lo, hi):
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for a in range(3):
                h[j, a] = 0.0
            add_pulled(obs, J, Jg, v, v_s, obs.own_begin[j], obs.own_end[j], h[j])


@kernel
def pull_others(
    lo: int, hi: int, obs: Observations, tasks: Tasks, J: Matrix, Jg: Matrix, v: Matrix,
    v_s: Matrix, V_inv: Matrix, h: Matrix,
):  # fmt: skip
    """h = V'⁻¹ Wᵀ v of each point, from what `pull_own` has left there."""
    s = np.empty(3)
    for t in range(lo, hi):
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for a in range(3):
                s[a] = h[j, a]
            add_pulled(obs, J, Jg, v, v_s, obs.point_ptr[j], obs.own_begin[j], s)
            add_pulled(obs, J, Jg, v, v_s, obs.own_end[j], obs.point_ptr[j + 1], s)
            multiply_point(V_inv[j], s, h[j])


@kernel
def coarse_dots(
    lo: int, hi: int, coarse: CoarseBlocks, tasks: Tasks, Y: Blocks, h: Matrix, out: Blocks
):
    """out[t, q] = Σ_j Y_jqᵀ h_j over a task's points."""
    W = Y.shape[2]
    for t in range(lo, hi):
        clear(out[t])
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for y in range(coarse.ptr[j], coarse.ptr[j + 1]):
                q = coarse.local[y]
                for a in range(0, W, LANES):
                    n = W - a
                    more = h[j, 0] * get(Y[y], 0, a, n) + h[j, 1] * get(Y[y], 1, a, n)
                    more += h[j, 2] * get(Y[y], 2, a, n)
                    put(out[t], q, a, n, get(out[t], q, a, n) + more)


@kernel
def coarse_correct(
    lo: int, hi: int, coarse: CoarseBlocks, tasks: Tasks, Y: Blocks, c: Matrix, V_inv: Matrix,
    h: Matrix,
):  # fmt: skip
    """h −= V'⁻¹ Σ_q Y_jq c_q: what v ← v − Z c makes of h = V'⁻¹ Wᵀ v. c is by block, (Q, W)."""
    W = Y.shape[2]
    s = np.empty(3)
    less = np.empty(3)
    for t in range(lo, hi):
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            x = y = z = spread(0.0)
            for n in range(coarse.ptr[j], coarse.ptr[j + 1]):
                for a in range(0, W, LANES):
                    weights = get(c, coarse.block[n], a, W - a)
                    x += weights * get(Y[n], 0, a, W - a)
                    y += weights * get(Y[n], 1, a, W - a)
                    z += weights * get(Y[n], 2, a, W - a)
            s[0] = total(x)
            s[1] = total(y)
            s[2] = total(z)
            multiply_point(V_inv[j], s, less)
            for a in range(3):
                h[j, a] -= less[a]


@kernel
def gap_runs(lo: int, hi: int, obs: Observations, runs: Int32, J: Matrix, V_inv: Matrix, K: Matrix):
    """K = V_c⁻¹ − V'⁻¹ of each run: V_c is V of the run's observations alone, of one point by the
    frames of one cluster. A ridge keeps it regular where they do not determine the point."""
    V = np.empty(6)
    Vi = np.empty(6)
    for n in range(lo, hi):
        begin = runs[n]
        for a in range(6):
            V[a] = 0.0
        for k in range(begin, obs.run_end[begin]):
            row = J[k]
            m = 0
            for a in range(3):
                for b in range(a, 3):
                    V[m] += row[3 + a] * row[3 + b] + row[B + 3 + a] * row[B + 3 + b]
                    m += 1
        largest = max(V[0], V[3], V[5])
        j = obs.point[begin]
        for a in range(6):
            K[n, a] = 0.0
        if largest > 0.0 and V_inv[j, 0] > 0.0:
            ridge = RIDGE * largest
            V[0] += ridge
            V[3] += ridge
            V[5] += ridge
            invert_point(V, 0.0, 0.0, Vi)
            for a in range(6):
                K[n, a] = Vi[a] - V_inv[j, a]


RIDGE = 1e-9
"""Of V_c, relative to its largest diagonal entry."""


@kernel
def gap_pull(
    lo: int, hi: int, obs: Observations, runs: Int32, J: Matrix, K: Matrix, X: Blocks, q: Blocks
):
    """q = K W_cᵀ X of each run, (3, w), for the motions X of frames, (F, B, w)."""
    W = X.shape[2]
    for n in range(lo, hi):
        begin = runs[n]
        for w in range(0, W, LANES):
            x = y = z = spread(0.0)
            for k in range(begin, obs.run_end[begin]):
                row = J[k]
                g, h = along_motions(row, X[obs.frame[k]], w, W - w)
                x += -row[3] * g - row[B + 3] * h
                y += -row[4] * g - row[B + 4] * h
                z += -row[5] * g - row[B + 5] * h
            Ki = K[n]
            put(q[n], 0, w, W - w, Ki[0] * x + Ki[1] * y + Ki[2] * z)
            put(q[n], 1, w, W - w, Ki[1] * x + Ki[3] * y + Ki[4] * z)
            put(q[n], 2, w, W - w, Ki[2] * x + Ki[4] * y + Ki[5] * z)


@kernel
def gap_push(
    lo: int, hi: int, obs: Observations, run_at: Int32, tasks: Tasks, J: Matrix, q: Blocks,
    out: Blocks,
):  # fmt: skip
    """out = Σ W_c q over the runs of each frame's observations; `run_at` is −1 for none."""
    W = out.shape[2]
    for t in range(lo, hi):
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            clear(out[i])
            for n in range(obs.frame_ptr[i], obs.frame_ptr[i + 1]):
                k = obs.frame_obs[n]
                r = run_at[k]
                if r >= 0:
                    row = J[k]
                    for w in range(0, W, LANES):
                        x = get(q[r], 0, w, W - w)
                        y = get(q[r], 1, w, W - w)
                        z = get(q[r], 2, w, W - w)
                        g = -(row[3] * x + row[4] * y + row[5] * z)
                        h = -(row[B + 3] * x + row[B + 4] * y + row[B + 5] * z)
                        for a in range(B):
                            add_to(out[i], a, w, W - w, row[a], g, row[B + a], h)
