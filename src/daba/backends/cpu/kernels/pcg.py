"""Preconditioned conjugate gradients on the reduced camera system, one α and β per device."""

import math

import numpy as np
from numba import prange

from daba.backends.cpu.kernels.binding import decisions, inline, kernel, serial
from daba.backends.cpu.kernels.schur import product
from daba.core.types import (
    Blocks,
    Bools,
    Devices,
    Int64,
    Matrix,
    Observations,
    Reduced,
    SharedGroups,
    Tasks,
)

model_stalls = decisions.model_stalls
residual_remains = decisions.residual_remains


@kernel
def factor_blocks(blocks: Blocks, tasks: Tasks, active: Bools):
    """blocks ← their Cholesky factors (lower). A block that is not positive definite to working
    precision is replaced by its diagonal: it only preconditions."""
    for t in prange(len(tasks.device)):
        if active[tasks.device[t]]:
            for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
                L = blocks[i]
                largest = 0.0
                for a in range(9):
                    largest = max(largest, L[a, a])
                definite = True
                diagonal = np.empty(9)
                for a in range(9):
                    diagonal[a] = L[a, a]
                for a in range(9):
                    x = L[a, a]
                    for k in range(a):
                        x -= L[a, k] * L[a, k]
                    if not x > 1e-14 * diagonal[a]:
                        definite = False
                        break
                    L[a, a] = math.sqrt(x)
                    for b in range(a + 1, 9):
                        y = L[b, a]
                        for k in range(a):
                            y -= L[b, k] * L[a, k]
                        L[b, a] = y / L[a, a]
                if not definite:
                    L[:] = 0.0
                    for a in range(9):
                        L[a, a] = math.sqrt(max(diagonal[a], 1e-14 * largest))


@inline
def precondition(factors, r, active, camera_ptr, z):
    for d in range(len(active)):
        if active[d]:
            for i in range(camera_ptr[d], camera_ptr[d + 1]):
                L = factors[i]
                for a in range(9):
                    x = r[i, a]
                    for k in range(a):
                        x -= L[a, k] * z[i, k]
                    z[i, a] = x / L[a, a]
                for a in range(8, -1, -1):
                    x = z[i, a]
                    for k in range(a + 1, 9):
                        x -= L[k, a] * z[i, k]
                    z[i, a] = x / L[a, a]


@kernel
def share_blocks(blocks: Blocks, groups: SharedGroups, active: Bools, camera_ptr: Int64):
    """Of diagonal blocks of S make those of ΠᵀSΠ, as far as they are known: what is fixed is
    cut off, and where cameras share d, their representative has the sum of their blocks, apart from
    poses."""
    for d in prange(len(active)):
        if active[d]:
            for i in range(camera_ptr[d], camera_ptr[d + 1]):
                B = blocks[i]
                k = groups.representative[i]
                if k != i:
                    for a in range(6, 9):
                        for b in range(6):
                            B[a, b] = 0.0
                            B[b, a] = 0.0
                            blocks[k, a, b] = 0.0
                            blocks[k, b, a] = 0.0
                        for b in range(6, 9):
                            blocks[k, a, b] += B[a, b]
                            B[a, b] = 1.0 if a == b else 0.0
            for i in range(camera_ptr[d], camera_ptr[d + 1]):
                for a in range(9):
                    if groups.fixed[i, a]:
                        for b in range(9):
                            blocks[i, a, b] = 0.0
                            blocks[i, b, a] = 0.0
                        blocks[i, a, a] = 1.0


@inline
def collect(v, groups, active, camera_ptr):
    """v ← Πᵀv: what is fixed has no entry, and the representative has the sum over those
    that share d."""
    for d in range(len(active)):
        if active[d]:
            for i in range(camera_ptr[d], camera_ptr[d + 1]):
                k = groups.representative[i]
                if k != i:
                    for a in range(6, 9):
                        v[k, a] += v[i, a]
                        v[i, a] = 0.0
            for i in range(camera_ptr[d], camera_ptr[d + 1]):
                for a in range(9):
                    if groups.fixed[i, a]:
                        v[i, a] = 0.0


@inline
def spread(v, groups, active, camera_ptr):
    """v ← Πv: those that share d have their representative's."""
    for d in range(len(active)):
        if active[d]:
            for i in range(camera_ptr[d], camera_ptr[d + 1]):
                for a in range(6, 9):
                    v[i, a] = v[groups.representative[i], a]


@inline
def dot(x, y, first, last):
    total = 0.0
    for i in range(first, last):
        for a in range(9):
            total += x[i, a] * y[i, a]
    return total


@serial
def solve(
    obs: Observations,
    reduced: Reduced,
    factors: Blocks,
    rhs: Matrix,
    active: Bools,
    devices: Devices,
    buffers: tuple[Int64, Matrix],
    stop: tuple[float, float, int],
    groups: SharedGroups | None,
    x: Matrix,
):
    """x ≈ S⁻¹ rhs on the active devices; returns the iterations each device needed.

    A device stops when its model stalls or its residual has fallen (`core/decisions.py`).

    With `groups`, x = Πy and y ≈ (ΠᵀSΠ)⁻¹ Πᵀrhs. x and p are kept as they act on cameras, r and S p
    as sums over cameras that share d, at their representative: products of the two are products
    of y's.
    """
    buffer_ptr, buffer = buffers
    forcing, residual, most = stop
    ptr, tasks_c, tasks = devices.camera_ptr, devices.camera_tasks, devices.point_tasks
    S = len(active)
    running = active.copy()
    count = np.zeros(S, np.int64)
    if groups is not None:
        rhs = rhs.copy()
        collect(rhs, groups, active, ptr)
    r = rhs.copy()
    z = np.zeros_like(r)
    Sp = np.zeros_like(r)
    x[:] = 0.0
    precondition(factors, r, running, ptr, z)
    if groups is not None:
        spread(z, groups, running, ptr)
    p = z.copy()
    rz = np.zeros(S)
    start = np.zeros(S)
    Q = np.zeros(S)
    for d in range(S):
        if running[d]:
            rz[d] = dot(r, z, ptr[d], ptr[d + 1])
            start[d] = rz[d]
            running[d] = rz[d] > 0.0
    k = 0
    while running.any() and k < most:
        k += 1
        product(obs, reduced, p, running, ptr, tasks_c, tasks, buffer_ptr, buffer, Sp)
        if groups is not None:
            collect(Sp, groups, running, ptr)
        for d in range(S):
            if running[d]:
                pSp = dot(p, Sp, ptr[d], ptr[d + 1])
                if not pSp > 0.0:  # rounding has eaten the curvature: what we have must do
                    running[d] = False
                    continue
                alpha = rz[d] / pSp
                count[d] = k
                new_Q = 0.0
                for i in range(ptr[d], ptr[d + 1]):
                    for a in range(9):
                        x[i, a] += alpha * p[i, a]
                        r[i, a] -= alpha * Sp[i, a]
                        new_Q -= 0.5 * x[i, a] * (rhs[i, a] + r[i, a])
                if model_stalls(k, new_Q, Q[d], forcing):
                    running[d] = False
                Q[d] = new_Q
        precondition(factors, r, running, ptr, z)
        if groups is not None:
            spread(z, groups, running, ptr)
        for d in range(S):
            if running[d]:
                new_rz = dot(r, z, ptr[d], ptr[d + 1])
                if not residual_remains(new_rz, start[d], residual):
                    running[d] = False
                    continue
                beta = new_rz / rz[d]
                rz[d] = new_rz
                for i in range(ptr[d], ptr[d + 1]):
                    for a in range(9):
                        p[i, a] = z[i, a] + beta * p[i, a]
    return count
