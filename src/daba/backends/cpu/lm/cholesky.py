"""Template: diagonal blocks of S, one for each cluster of frames, formed in square tiles of a few
frames, factored tile by tile in the order of their elimination trees, and solved.

Tiles of one level of the trees do not depend on each other and run in parallel; every tile is
computed by one thread with single-threaded BLAS, so the bits do not depend on the threads. Dense,
banded and block-diagonal (many clusters) systems are all the same code with other tiles.
"""

# ruff: noqa: F821


@kernel
def form(lo: int, hi: int, obs: Observations, J: Matrix, V_inv: Matrix, plan: Plan, blocks: Matrix):
    """Add up the lower triangle of S between frames of one cluster, less D, in packed blocks. A
    share of the work is a few frames' rows; it takes its observations by point, so that what is
    read of a point serves all of them. `obs.run_begin` and `run_end` are the observations of the
    same point by frames of the same cluster."""
    size = plan.size
    per_tile = size * size
    tile_of = np.empty(len(plan.place), np.int64)
    within = np.empty(len(plan.place), np.int64)
    for i in range(len(plan.place)):  # no division for every pair
        tile_of[i] = plan.place[i] // size
        within[i] = plan.place[i] - tile_of[i] * size
    for w in range(lo, hi):
        for row in range(plan.share_row[w], plan.share_row[w + 1]):
            tile = row // size
            for col in range(plan.first[tile], tile + 1):
                index = plan.tile[tile, col - plan.first[tile]]
                if index >= 0:
                    start = index * per_tile + (row - tile * size) * size
                    for n in range(start, start + size):
                        for a in range(PACKED):
                            blocks[n, a] = 0.0
        for n in range(plan.share_ptr[w], plan.share_ptr[w + 1]):
            k = plan.share_obs[n]
            prefetch(J, plan.share_obs[min(n + AHEAD, len(plan.share_obs) - 1)])
            frame = obs.frame[k]
            place = plan.place[frame]
            tiles = plan.tile[tile_of[frame]]
            first = plan.first[tile_of[frame]]
            at = within[frame] * size
            A = eliminate(J[k], V_inv[obs.point[k]])
            for m in range(obs.run_begin[k], obs.run_end[k]):
                other = obs.frame[m]
                if plan.place[other] <= place:
                    p, q, r, s = core(A, J[m])
                    block = blocks[tiles[tile_of[other] - first] * per_tile + at + within[other]]
                    add_block(block, J[k], J[m], -p, -q, -r, -s)


@kernel
def form_by_point(
    lo: int, hi: int, obs: Observations, tasks: Tasks, J: Matrix, V_inv: Matrix, buffers: Buffers,
    added: Matrix,
):  # fmt: skip
    """What each task's points add to the diagonal blocks of S of the frames of their device, less
    D, packed, where each frame is a cluster."""
    for t in range(lo, hi):
        clear(added[buffers.ptr[t] : buffers.ptr[t + 1]])
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for k in range(obs.own_begin[j], obs.own_end[j]):
                A = eliminate(J[k], V_inv[j])
                block = added[buffers.ptr[t] + obs.frame[k] - buffers.first[t]]
                for m in range(obs.run_begin[k], obs.run_end[k]):
                    p, q, r, s = core(A, J[m])
                    add_block(block, J[k], J[m], -p, -q, -r, -s)


@kernel
def form_frames(
    lo: int, hi: int, obs: Observations, tasks: Tasks, point_tasks: Tasks, J: Matrix, V_inv: Matrix,
    place: Int32, buffers: Buffers, added: Matrix, blocks: Matrix,
):  # fmt: skip
    """Diagonal blocks of S of frames, less D: what the tasks of their devices' points have added
    up, in order, and what points of other devices do."""
    for t in range(lo, hi):
        device = tasks.device[t]
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            block = blocks[place[i]]
            for a in range(PACKED):
                block[a] = 0.0
            for n in range(point_tasks.device_ptr[device], point_tasks.device_ptr[device + 1]):
                row = added[buffers.ptr[n] + i - buffers.first[n]]
                for a in range(PACKED):
                    block[a] += row[a]
            for n in range(obs.inter_ptr[i], obs.inter_ptr[i + 1]):
                k = obs.inter_obs[n]
                A = eliminate(J[k], V_inv[obs.point[k]])
                for m in range(obs.run_begin[k], obs.run_end[k]):
                    p, q, r, s = core(A, J[m])
                    add_block(block, J[k], J[m], -p, -q, -r, -s)


@kernel
def fill_tiles(lo: int, hi: int, plan: Plan, blocks: Matrix, D: Blocks, fixed: Mask, tiles: Blocks):
    """Tiles of S from the packed blocks and D; rows and columns of what is `fixed`, if not empty,
    become the unit's."""
    size = plan.size
    per_tile = size * size
    for n in range(lo, hi):
        row = plan.level_row[n]
        col = plan.level_col[n]
        index = plan.tile[row, col - plan.first[row]]
        A = tiles[index]
        for p in range(size):
            i = plan.frame_at[row * size + p]
            for q in range(size):
                unpack(
                    blocks[index * per_tile + p * size + q],
                    A[B * p : B * p + B, B * q : B * q + B],
                )
            if row == col:
                for a in range(B):
                    if i < 0:  # padding of a cluster's last tile
                        A[B * p + a, B * p + a] = 1.0
                    else:
                        for b in range(B):
                            A[B * p + a, B * p + b] += D[i, a, b]
        if len(fixed) > 0:
            for p in range(size):
                i = plan.frame_at[row * size + p]
                k = plan.frame_at[col * size + p]
                for m in range(B):
                    if i >= 0 and fixed[i, m]:
                        A[B * p + m, :] = 0.0
                    if k >= 0 and fixed[k, m]:
                        A[:, B * p + m] = 0.0
                    if row == col and i >= 0 and fixed[i, m]:
                        A[B * p + m, B * p + m] = 1.0


@kernel
def substitute(
    lo: int, hi: int, plan: Plan, tiles: Blocks, inverses: Blocks, rhs: Blocks, x: Blocks
):
    """x = L⁻ᵀ L⁻¹ rhs, a task for each column and cluster; rhs and x are (columns, F, B)."""
    n = tiles.shape[1]
    clusters = len(plan.cluster_ptr) - 1
    for t in range(lo, hi):
        column = t // clusters
        first = plan.cluster_ptr[t - column * clusters]
        last = plan.cluster_ptr[t - column * clusters + 1]
        y = np.zeros((last - first, n))
        for place in range(first * plan.size, last * plan.size):
            i = plan.frame_at[place]
            if i >= 0:
                tile = place // plan.size
                at = B * (place - tile * plan.size)
                for a in range(B):
                    y[tile - first, at + a] = rhs[column, i, a]
        solve_tiles(plan, first, last, tiles, inverses, y)
        for place in range(first * plan.size, last * plan.size):
            i = plan.frame_at[place]
            if i >= 0:
                tile = place // plan.size
                at = B * (place - tile * plan.size)
                for a in range(B):
                    x[column, i, a] = y[tile - first, at + a]
