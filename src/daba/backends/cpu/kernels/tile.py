"""A square tile on the diagonal of a matrix, factored by one thread."""

import math

import numba

fast = numba.njit(error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
"""Sums in any order, so that they can be vectorized: always the same one, once compiled."""


@fast
def factor_tile(A, inverse):
    """A ← L (lower) with A = L Lᵀ, inverse ← L⁻¹; False if A is not positive definite."""
    n = len(A)
    for a in range(n):
        for b in range(a):
            x = 0.0
            for k in range(b):
                x += A[a, k] * A[b, k]
            A[a, b] = (A[a, b] - x) / A[b, b]
        x = 0.0
        for k in range(a):
            x += A[a, k] * A[a, k]
        x = A[a, a] - x
        if not x > 0.0:
            return False
        A[a, a] = math.sqrt(x)
        for b in range(a + 1, n):
            A[a, b] = 0.0
    inverse[:] = 0.0
    for a in range(n):
        for k in range(a):
            x = A[a, k]
            for b in range(k + 1):
                inverse[a, b] += x * inverse[k, b]
        pivot = 1.0 / A[a, a]
        for b in range(a):
            inverse[a, b] *= -pivot
        inverse[a, a] = pivot
    return True
