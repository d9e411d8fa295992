"""Elimination of points: reduced right-hand side, S's diagonal, S·v, back-substitution.

    S = U' − W V'⁻¹ Wᵀ, with W = J_cᵀ J_l per observation and primes for damping.

J_l = −J_t (∂e/∂l = −∂e/∂t), so the columns of t in the stored derivatives serve for both.
"""

import math

import numpy as np
from numba import prange

from daba.backends.cpu.kernels.binding import decisions, formulas, inline, kernel
from daba.backends.cpu.kernels.block import AHEAD, PACKED, add_block, prefetch, unpack
from daba.core.types import (
    Blocks,
    Bools,
    Floats,
    Int32,
    Int64,
    Mask,
    Matrix,
    Observations,
    Reduced,
    System,
    Tasks,
)

inverse_symmetric3 = formulas.inverse_symmetric3
DIAGONAL_FLOOR = decisions.DIAGONAL_FLOOR


@inline
def invert_point(V, mu, floor, out):
    """out = (V + μ max(diagonal, floor))⁻¹, upper triangles."""
    out[0], out[1], out[2], out[3], out[4], out[5] = inverse_symmetric3(
        V[0] + mu * max(V[0], floor),
        V[1],
        V[2],
        V[3] + mu * max(V[3], floor),
        V[4],
        V[5] + mu * max(V[5], floor),
    )


@inline
def multiply_point(Vi, g, out):
    """out = V'⁻¹ g."""
    out[0] = Vi[0] * g[0] + Vi[1] * g[1] + Vi[2] * g[2]
    out[1] = Vi[1] * g[0] + Vi[3] * g[1] + Vi[4] * g[2]
    out[2] = Vi[2] * g[0] + Vi[4] * g[1] + Vi[5] * g[2]


@kernel
def damp(
    system: System,
    damping: Floats,
    active: Bools,
    tasks: Tasks,
    tasks_l: Tasks,
    D: Blocks,
    V_inv: Matrix,
    z: Matrix,
):
    """Damped camera blocks D = U', inverted point blocks V'⁻¹, and z = V'⁻¹ g_l."""
    for t in prange(len(tasks.device)):
        mu = damping[tasks.device[t]]
        if active[tasks.device[t]]:
            for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
                for a in range(9):
                    for b in range(9):
                        D[i, a, b] = system.U[i, a, b]
                    D[i, a, a] += mu * max(system.U[i, a, a], DIAGONAL_FLOOR)
    for t in prange(len(tasks_l.device)):
        mu = damping[tasks_l.device[t]]
        if active[tasks_l.device[t]]:
            for j in range(tasks_l.ptr[t], tasks_l.ptr[t + 1]):
                invert_point(system.V[j], mu, DIAGONAL_FLOOR, V_inv[j])
                multiply_point(V_inv[j], system.g_l[j], z[j])


@inline
def eliminate(row, Vi):
    """J_l V'⁻¹ (2×3) of an observation, up to the sign of J_l."""
    return (
        row[3] * Vi[0] + row[4] * Vi[1] + row[5] * Vi[2],
        row[3] * Vi[1] + row[4] * Vi[3] + row[5] * Vi[4],
        row[3] * Vi[2] + row[4] * Vi[4] + row[5] * Vi[5],
        row[12] * Vi[0] + row[13] * Vi[1] + row[14] * Vi[2],
        row[12] * Vi[1] + row[13] * Vi[3] + row[14] * Vi[4],
        row[12] * Vi[2] + row[13] * Vi[4] + row[14] * Vi[5],
    )


@inline
def core(A, other):
    """J_l V'⁻¹ J_lᵀ (2×2) of two observations of one point; A from `eliminate`."""
    return (
        A[0] * other[3] + A[1] * other[4] + A[2] * other[5],
        A[0] * other[12] + A[1] * other[13] + A[2] * other[14],
        A[3] * other[3] + A[4] * other[4] + A[5] * other[5],
        A[3] * other[12] + A[4] * other[13] + A[5] * other[14],
    )


@kernel
def right_hand_side(
    obs: Observations, system: System, z: Matrix, active: Bools, tasks: Tasks, rhs: Matrix
):
    """rhs = −g_c + W z."""
    J = system.J
    for t in prange(len(tasks.device)):
        if active[tasks.device[t]]:
            for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
                for a in range(9):
                    rhs[i, a] = -system.g_c[i, a]
                for n in range(obs.camera_ptr[i], obs.camera_ptr[i + 1]):
                    k = obs.camera_obs[n]
                    prefetch(J, obs.camera_obs[min(n + AHEAD, len(obs.camera_obs) - 1)])
                    row = J[k]
                    zj = z[obs.point[k]]
                    x = -(row[3] * zj[0] + row[4] * zj[1] + row[5] * zj[2])
                    y = -(row[12] * zj[0] + row[13] * zj[1] + row[14] * zj[2])
                    for a in range(9):
                        rhs[i, a] += row[a] * x + row[9 + a] * y


@kernel
def schur_diagonal(obs: Observations, reduced: Reduced, active: Bools, tasks: Tasks, out: Blocks):
    """out = 9×9 diagonal blocks of S: the preconditioner before factorization."""
    J, V_inv = reduced.J, reduced.V_inv
    for t in prange(len(tasks.device)):
        block = np.empty(PACKED)
        if active[tasks.device[t]]:
            for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
                block[:] = 0.0
                for n in range(obs.camera_ptr[i], obs.camera_ptr[i + 1]):
                    k = obs.camera_obs[n]
                    prefetch(J, obs.camera_obs[min(n + AHEAD, len(obs.camera_obs) - 1)])
                    row = J[k]
                    p, q, r, s = core(eliminate(row, V_inv[obs.point[k]]), row)
                    add_block(block, row, row, -p, -q, -r, -s)
                unpack(block, out[i])
                for a in range(9):
                    for b in range(9):
                        out[i, a, b] += reduced.D[i, a, b]


@kernel
def product(
    obs: Observations,
    reduced: Reduced,
    v: Matrix,
    active: Bools,
    camera_ptr: Int64,
    tasks_c: Tasks,
    tasks: Tasks,
    buffer_ptr: Int64,
    buffer: Matrix,
    out: Matrix,
):
    """out = S v on the active devices. One pass over the observations by point; what each task
    adds to cameras goes to its own buffer, and the buffers are summed in order."""
    J, D, V_inv = reduced.J, reduced.D, reduced.V_inv
    for t in prange(len(tasks.device)):
        device = tasks.device[t]
        if active[device]:
            first = camera_ptr[device]
            acc = buffer[buffer_ptr[t] : buffer_ptr[t + 1]]
            acc[:] = 0.0
            for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
                s0 = s1 = s2 = 0.0
                for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                    row = J[k]
                    x = v[obs.camera[k]]
                    a = b = 0.0
                    for m in range(9):
                        a += row[m] * x[m]
                        b += row[9 + m] * x[m]
                    s0 += row[3] * a + row[12] * b
                    s1 += row[4] * a + row[13] * b
                    s2 += row[5] * a + row[14] * b
                Vi = V_inv[j]
                y0 = Vi[0] * s0 + Vi[1] * s1 + Vi[2] * s2
                y1 = Vi[1] * s0 + Vi[3] * s1 + Vi[4] * s2
                y2 = Vi[2] * s0 + Vi[4] * s1 + Vi[5] * s2
                for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                    row = J[k]
                    a = -(row[3] * y0 + row[4] * y1 + row[5] * y2)
                    b = -(row[12] * y0 + row[13] * y1 + row[14] * y2)
                    target = acc[obs.camera[k] - first]
                    for m in range(9):
                        target[m] += row[m] * a + row[9 + m] * b
    for t in prange(len(tasks_c.device)):
        device = tasks_c.device[t]
        if active[device]:
            for i in range(tasks_c.ptr[t], tasks_c.ptr[t + 1]):
                for a in range(9):
                    total = 0.0
                    for b in range(9):
                        total += D[i, a, b] * v[i, b]
                    for n in range(tasks.device_ptr[device], tasks.device_ptr[device + 1]):
                        total += buffer[buffer_ptr[n] + i - camera_ptr[device], a]
                    out[i, a] = total


@kernel
def back_substitute(
    obs: Observations,
    system: System,
    V_inv: Matrix,
    step_c: Matrix,
    active: Bools,
    tasks_c: Tasks,
    tasks: Tasks,
    step_l: Matrix,
):
    """step_l = −V'⁻¹ (g_l + Wᵀ step_c), no longer than a point's step bound; returns the model's
    decrease −g·δ − ½ δᵀHδ, (S,)."""
    J = system.J
    partial = np.zeros(len(tasks.device))
    for t in prange(len(tasks.device)):
        if active[tasks.device[t]]:
            total = 0.0
            for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
                w0 = w1 = w2 = 0.0  # Wᵀ step_c
                for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                    row = J[k]
                    x = step_c[obs.camera[k]]
                    a = b = 0.0
                    for m in range(9):
                        a += row[m] * x[m]
                        b += row[9 + m] * x[m]
                    w0 -= row[3] * a + row[12] * b
                    w1 -= row[4] * a + row[13] * b
                    w2 -= row[5] * a + row[14] * b
                g = system.g_l[j]
                Vi = V_inv[j]
                h0 = g[0] + w0
                h1 = g[1] + w1
                h2 = g[2] + w2
                x0 = -(Vi[0] * h0 + Vi[1] * h1 + Vi[2] * h2)
                x1 = -(Vi[1] * h0 + Vi[3] * h1 + Vi[4] * h2)
                x2 = -(Vi[2] * h0 + Vi[4] * h1 + Vi[5] * h2)
                length = math.sqrt(x0 * x0 + x1 * x1 + x2 * x2)
                if length > system.step_bound[j]:
                    clip = system.step_bound[j] / length
                    x0 *= clip
                    x1 *= clip
                    x2 *= clip
                step_l[j, 0] = x0
                step_l[j, 1] = x1
                step_l[j, 2] = x2
                V = system.V[j]
                square = (
                    V[0] * x0 * x0
                    + V[3] * x1 * x1
                    + V[5] * x2 * x2
                    + 2.0 * (V[1] * x0 * x1 + V[2] * x0 * x2 + V[4] * x1 * x2)
                )
                total -= h0 * x0 + h1 * x1 + h2 * x2 + 0.5 * square
            partial[t] = total
    partial_c = np.zeros(len(tasks_c.device))
    for t in prange(len(tasks_c.device)):
        if active[tasks_c.device[t]]:
            total_c = 0.0
            for i in range(tasks_c.ptr[t], tasks_c.ptr[t + 1]):
                for a in range(9):
                    Ux = 0.0
                    for b in range(9):
                        Ux += system.U[i, a, b] * step_c[i, b]
                    total_c -= step_c[i, a] * (system.g_c[i, a] + 0.5 * Ux)
            partial_c[t] = total_c
    out = np.zeros(len(active))
    for t in range(len(tasks.device)):
        out[tasks.device[t]] += partial[t]
    for t in range(len(tasks_c.device)):
        out[tasks_c.device[t]] += partial_c[t]
    return out


# What S would be summed from


@kernel
def mark_pairs(obs: Observations, adjacent: Mask):
    """adjacent[i, k] = True where cameras i and k (within a device) see a common point."""
    for i in prange(len(adjacent)):
        for n in range(obs.camera_ptr[i], obs.camera_ptr[i + 1]):
            j = obs.point[obs.camera_obs[n]]
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                adjacent[i, obs.camera[k]] = True


@kernel
def count_pairs(obs: Observations, place: Int32, pairs: Int64):
    """pairs[i] = blocks that camera i's rows of the lower triangle of S are summed from."""
    for i in prange(len(pairs)):
        total = 0
        for n in range(obs.camera_ptr[i], obs.camera_ptr[i + 1]):
            j = obs.point[obs.camera_obs[n]]
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                if place[obs.camera[k]] <= place[i]:
                    total += 1
        pairs[i] = total
