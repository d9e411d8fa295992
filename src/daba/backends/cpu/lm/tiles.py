"""Factoring of matrices that are kept in square tiles, for problems of every kind."""

import numpy as np
from numba import prange

from daba.backends.cpu.kernels.binding import inline, kernel, serial
from daba.backends.cpu.kernels.block import copy_matrix, factor_tile, fast, subtract_matrix
from daba.core.lm import Blocks, Bools, Int32, Int64, Observations, Plan


@serial
def count_pairs(obs: Observations, row: Int64, within: Int64, pairs: Int32):
    """How many blocks are added up for each pair of frames of a cluster: row[i] is where the row of
    frame i begins, and within[k] the column of frame k in its cluster's matrix."""
    for k in range(len(obs.frame)):
        i = obs.frame[k]
        if i < len(row):
            for m in range(obs.run_begin[k], obs.run_end[k]):
                pairs[row[i] + within[obs.frame[m]]] += 1


@fast
def subtract_product(A, x, y):
    """y −= A x."""
    for a in range(len(y)):
        total = 0.0
        for b in range(len(x)):
            total += A[a, b] * x[b]
        y[a] -= total


@fast
def subtract_transposed(A, x, y):
    """y −= Aᵀ x."""
    for a in range(len(x)):
        s = x[a]
        for b in range(len(y)):
            y[b] -= A[a, b] * s


@fast
def multiply_lower(L, y):
    """y ← L y, L lower triangular."""
    for a in range(len(y) - 1, -1, -1):
        total = 0.0
        for b in range(a + 1):
            total += L[a, b] * y[b]
        y[a] = total


@fast
def multiply_upper(L, y):
    """y ← Lᵀ y, L lower triangular."""
    for b in range(len(y)):
        s = y[b]
        y[b] = 0.0
        for a in range(b + 1):
            y[a] += L[b, a] * s


@inline
def solve_tiles(plan, first, last, tiles, inverses, y):
    """y ← L⁻ᵀ L⁻¹ y for the tiles first : last."""
    for j in range(last - first):
        for m in range(plan.row_ptr[first + j], plan.row_ptr[first + j + 1]):
            k = plan.row_col[m] - first
            subtract_product(tiles[plan.tile[first + j, k]], y[k], y[j])
        multiply_lower(inverses[first + j], y[j])
    for j in range(last - first - 1, -1, -1):
        multiply_upper(inverses[first + j], y[j])
        for m in range(plan.row_ptr[first + j], plan.row_ptr[first + j + 1]):
            k = plan.row_col[m] - first
            subtract_transposed(tiles[plan.tile[first + j, k]], y[j], y[k])


@kernel
def factor(plan: Plan, tiles: Blocks, inverses: Blocks, out: Bools):
    """Tiles of S → tiles of L, and L_jj⁻¹; `out`: which clusters were positive definite."""
    n = tiles.shape[1]
    definite = np.ones(len(plan.first), np.bool_)
    for level in range(len(plan.level_ptr) - 1):
        lo = plan.level_ptr[level]
        hi = plan.level_ptr[level + 1]
        for q in prange(lo, hi):  # A_ij −= Σ_k L_ik L_jkᵀ
            i = plan.level_row[q]
            j = plan.level_col[q]
            first = plan.first[j]
            A = tiles[plan.tile[i, j - first]]
            update = np.empty((n, n))
            for m in range(plan.row_ptr[j], plan.row_ptr[j + 1]):
                k = plan.row_col[m]
                if plan.tile[i, k - first] >= 0:
                    np.dot(tiles[plan.tile[i, k - first]], tiles[plan.tile[j, k - first]].T, update)
                    subtract_matrix(update, A)
        for q in prange(lo, hi):
            j = plan.level_col[q]
            if plan.level_row[q] == j:
                definite[j] = factor_tile(tiles[plan.tile[j, j - plan.first[j]]], inverses[j])
        for q in prange(lo, hi):  # L_ij = A_ij L_jj⁻ᵀ
            i = plan.level_row[q]
            j = plan.level_col[q]
            if i > j:
                A = tiles[plan.tile[i, j - plan.first[j]]]
                product = np.empty((n, n))
                np.dot(A, inverses[j].T, product)
                copy_matrix(product, A)
    for c in range(len(out)):
        out[c] = True
        for j in range(plan.cluster_ptr[c], plan.cluster_ptr[c + 1]):
            out[c] &= definite[j]
