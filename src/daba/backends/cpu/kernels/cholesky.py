"""Direct solution of the reduced camera system: S is formed in square tiles of a few cameras,
factored tile by tile in the order of its elimination tree, and solved.

Tiles of one level of the tree do not depend on each other and run in parallel; every tile is
computed by one thread with single-threaded BLAS, so the bits do not depend on the threads. Dense,
banded and block-diagonal (many devices) systems are all the same code with other tiles.
"""

import numpy as np
from numba import prange

from daba.backends.cpu.kernels.binding import kernel, serial
from daba.backends.cpu.kernels.block import (
    AHEAD,
    add_block,
    copy,
    copy_matrix,
    factor_tile,
    prefetch,
    subtract,
    subtract_matrix,
    unpack,
)
from daba.backends.cpu.kernels.schur import core, eliminate
from daba.core.types import Blocks, Bools, Int32, Mask, Matrix, Observations, Plan, Reduced


@kernel
def form(
    obs: Observations,
    reduced: Reduced,
    active: Bools,
    plan: Plan,
    blocks: Matrix,
    tiles: Blocks,
):
    """Fill the tiles with the lower triangle of S. A piece of work is a few cameras' rows; it takes
    its observations by point, so that what is read of a point serves all of them."""
    J, D, V_inv = reduced.J, reduced.D, reduced.V_inv
    size = plan.size
    per_tile = size * size
    for t in prange(len(tiles)):
        if active[plan.tile_device[t]]:
            blocks[t * per_tile : (t + 1) * per_tile] = 0.0
    for w in prange(len(plan.piece_ptr) - 1):
        for n in range(plan.piece_ptr[w], plan.piece_ptr[w + 1]):
            k = plan.piece_obs[n]
            prefetch(J, plan.piece_obs[min(n + AHEAD, len(plan.piece_obs) - 1)])
            place = plan.place[obs.camera[k]]
            if active[plan.device[obs.camera[k]]]:
                j = obs.point[k]
                row = place // size
                at = (place - row * size) * size
                A = eliminate(J[k], V_inv[j])
                for m in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                    other = plan.place[obs.camera[m]]
                    if other <= place:
                        col = other // size
                        block = blocks[plan.tile[row, col] * per_tile + at + other - col * size]
                        p, q, r, s = core(A, J[m])
                        add_block(block, J[k], J[m], -p, -q, -r, -s)
    for t in prange(len(tiles)):
        if active[plan.tile_device[t]]:
            for n in range(per_tile):
                a = 9 * (n // size)
                b = 9 * (n % size)
                unpack(blocks[t * per_tile + n], tiles[t, a : a + 9, b : b + 9])
    for place in prange(len(plan.camera_at)):
        i = plan.camera_at[place]
        tile = place // size
        at = 9 * (place - tile * size)
        diagonal = tiles[plan.tile[tile, tile]]
        for a in range(9):
            if i < 0:  # padding of a device's last tile
                diagonal[at + a, at + a] = 1.0
            else:
                for b in range(9):
                    diagonal[at + a, at + b] += D[i, a, b]


@kernel
def factor(plan: Plan, active: Bools, tiles: Blocks, inverses: Blocks):
    """Tiles of S → tiles of L, and L_jj⁻¹; returns which devices were positive definite."""
    n = tiles.shape[1]
    definite = np.ones(len(plan.tile), np.bool_)
    for level in range(len(plan.level_ptr) - 1):
        lo = plan.level_ptr[level]
        hi = plan.level_ptr[level + 1]
        for q in prange(lo, hi):  # A_ij −= Σ_k L_ik L_jkᵀ
            i = plan.level_row[q]
            j = plan.level_col[q]
            if active[plan.tile_device[plan.tile[i, j]]]:
                A = tiles[plan.tile[i, j]]
                update = np.empty((n, n))
                for m in range(plan.row_ptr[j], plan.row_ptr[j + 1]):
                    k = plan.row_col[m]
                    if plan.tile[i, k] >= 0:
                        np.dot(tiles[plan.tile[i, k]], tiles[plan.tile[j, k]].T, update)
                        subtract_matrix(update, A)
        for q in prange(lo, hi):
            j = plan.level_col[q]
            if plan.level_row[q] == j and active[plan.tile_device[plan.tile[j, j]]]:
                definite[j] = factor_tile(tiles[plan.tile[j, j]], inverses[j])
        for q in prange(lo, hi):  # L_ij = A_ij L_jj⁻ᵀ
            i = plan.level_row[q]
            j = plan.level_col[q]
            if i > j and active[plan.tile_device[plan.tile[i, j]]]:
                A = tiles[plan.tile[i, j]]
                product = np.empty((n, n))
                np.dot(A, inverses[j].T, product)
                copy_matrix(product, A)
    out = np.ones(len(active), np.bool_)
    for j in range(len(definite)):
        if not definite[j]:
            out[plan.tile_device[plan.tile[j, j]]] = False
    return out


@serial
def substitute(plan: Plan, tiles: Blocks, inverses: Blocks, rhs: Matrix, x: Matrix):
    """x = L⁻ᵀ L⁻¹ rhs."""
    N = len(plan.tile)
    n = tiles.shape[1]
    y = np.zeros((N, n))
    product = np.empty(n)
    for place in range(len(plan.camera_at)):
        i = plan.camera_at[place]
        if i >= 0:
            tile = place // plan.size
            at = 9 * (place - tile * plan.size)
            copy(rhs[i], y[tile, at : at + 9])
    for j in range(N):
        for m in range(plan.row_ptr[j], plan.row_ptr[j + 1]):
            k = plan.row_col[m]
            np.dot(tiles[plan.tile[j, k]], y[k], product)
            subtract(product, y[j])
        np.dot(inverses[j], y[j], product)
        copy(product, y[j])
    for j in range(N - 1, -1, -1):
        np.dot(inverses[j].T, y[j], product)
        copy(product, y[j])
        for m in range(plan.row_ptr[j], plan.row_ptr[j + 1]):
            k = plan.row_col[m]
            np.dot(tiles[plan.tile[j, k]].T, y[j], product)
            subtract(product, y[k])
    for place in range(len(plan.camera_at)):
        i = plan.camera_at[place]
        if i >= 0:
            tile = place // plan.size
            at = 9 * (place - tile * plan.size)
            copy(y[tile, at : at + 9], x[i])


@kernel
def borders(plan: Plan, tiles: Blocks, slot: Int32, out: Blocks):
    """out[3 s + a] = S e, e = 1 for the parameter d_a of every camera of slot s: the rows and
    columns of S that cameras with a common d have in common, (3 G, C, 9)."""
    size = plan.size
    for t in prange(len(plan.tile)):
        for c in range(len(plan.tile)):
            tile = plan.tile[t, c] if c <= t else plan.tile[c, t]
            if tile < 0:
                continue
            A = tiles[tile]
            for q in range(size):
                k = plan.camera_at[c * size + q]
                if k < 0 or slot[k] < 0:
                    continue
                for p in range(size):
                    i = plan.camera_at[t * size + p]
                    if i < 0:
                        continue
                    below = c < t or (c == t and q <= p)
                    for a in range(3):
                        for m in range(9):
                            x = (
                                A[9 * p + m, 9 * q + 6 + a]
                                if below
                                else A[9 * q + 6 + a, 9 * p + m]
                            )
                            out[3 * slot[k] + a, i, m] += x


@kernel
def fix(plan: Plan, fixed: Mask, tiles: Blocks):
    """Cut the fixed parameters of cameras out of S: their rows and columns become the unit's."""
    size = plan.size
    for n in prange(len(plan.level_row)):
        row = plan.level_row[n]
        col = plan.level_col[n]
        A = tiles[plan.tile[row, col]]
        for p in range(size):
            i = plan.camera_at[row * size + p]
            k = plan.camera_at[col * size + p]
            for m in range(9):
                if i >= 0 and fixed[i, m]:
                    A[9 * p + m, :] = 0.0
                if k >= 0 and fixed[k, m]:
                    A[:, 9 * p + m] = 0.0
                if row == col and i >= 0 and fixed[i, m]:
                    A[9 * p + m, 9 * p + m] = 1.0
