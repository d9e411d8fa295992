"""The surrogate by moments: build at a base, add to a Gauss–Newton system, evaluate.

With Z = [R₁, R₂, d1 R₃, d2 R₃, d3 R₃, t] and m = (u_x, u_y, 1, s, s², λ), R p + λ t = Z m, so
    P_i(Z) = tr(ΔZ M ΔZᵀ) + 2 tr(ΔZᵀ G) + c,   Q_j(l) = A |Δl|² − 2 Δl·b + c_l.
"""

import numpy as np
from numba import prange

from daba.backends.cpu.kernels.binding import formulas, inline, kernel
from daba.backends.cpu.kernels.block import AHEAD, MOMENTS, add_moments, copy, prefetch
from daba.backends.cpu.kernels.objective import sum_task_rows, sum_tasks
from daba.core.types import (
    Blocks,
    Bools,
    Floats,
    LossParameters,
    Matrix,
    Moments,
    Observations,
    State,
    Tasks,
)

error = formulas.error
penalty = formulas.penalty
majorizer_from = formulas.majorizer_from


@kernel
def measure(
    obs: Observations,
    base: State,
    last: State,
    moved: bool,
    loss: LossParameters,
    theta: float,
    records: Matrix,
):
    """records[k] = e (3), λ, w, F_ij, its gap and the squared pixel error of each inter observation
    at a base, for both its ends to sum.

    If the base has moved, the gap is F_ij − P_ij − Q_ij at it for the base before, which the
    records still hold.
    """
    for k in prange(len(obs.camera)):
        c = base.cameras[obs.camera[k]]
        l = base.points[obs.point[k]]
        u = obs.u[k, 0]
        v = obs.u[k, 1]
        r = records[k]
        ex, ey, ez, lam, _, _, _, _, _, _, _ = error(c, l, u, v)
        f, w, square = penalty(loss.kind, loss.radius, obs.weight[k], ex, ey, ez)
        gap = 0.0
        if moved:
            gap = f - majorizer_from(
                theta, r[5], r[4], r[3], r[0], r[1], r[2], u, v,
                c, l, last.cameras[obs.camera[k]], last.points[obs.point[k]],
            )  # fmt: skip
        r[0] = ex
        r[1] = ey
        r[2] = ez
        r[3] = lam
        r[4] = w
        r[5] = f
        r[6] = gap
        r[7] = square


@kernel
def build_cameras(
    obs: Observations,
    cameras: Matrix,
    tasks: Tasks,
    theta: float,
    records: Matrix,
    base: Matrix,
    all_M: Blocks,
    all_G: Blocks,
    all_c: Floats,
):
    """M, G, c of each camera; returns F, gap and squared pixel error of its inter observations, by
    device, (S, 3)."""
    partial = np.zeros((len(tasks.device), 3))
    for t in prange(len(tasks.device)):
        block = np.empty(MOMENTS)
        f_task = 0.0
        g_task = 0.0
        s_task = 0.0
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            copy(cameras[i], base[i])
            block[:] = 0.0
            f_sum = 0.0
            for n in range(obs.camera_ptr[i], obs.camera_ptr[i + 1]):
                k = obs.camera_obs[n]
                prefetch(records, obs.camera_obs[min(n + AHEAD, len(obs.camera_obs) - 1)])
                r = records[k]
                u = obs.u[k, 0]
                v = obs.u[k, 1]
                add_moments(block, r, u, v)
                f_sum += r[5]
                g_task += r[6]
                s_task += r[7]
            for a in range(6):
                for b in range(a + 1):
                    all_M[i, a, b] = block[8 * a + b] / theta
                    all_M[i, b, a] = block[8 * a + b] / theta
                for x in range(3):
                    all_G[i, x, a] = block[48 + 8 * x + a]
            all_c[i] = theta * f_sum
            f_task += f_sum
        partial[t, 0] = f_task
        partial[t, 1] = g_task
        partial[t, 2] = s_task
    out = np.zeros((len(tasks.device_ptr) - 1, 3))
    sum_task_rows(partial, tasks, out)
    return out


@kernel
def build_points(
    obs: Observations,
    points: Matrix,
    tasks: Tasks,
    theta: float,
    records: Matrix,
    base: Matrix,
    all_A: Floats,
    all_b: Matrix,
    all_c: Floats,
):
    """A, b, c_l of each point; returns F and gap of its inter observations, by device, (S, 2)."""
    partial = np.zeros((len(tasks.device), 2))
    curvature = 0.5 / (1.0 - theta)
    for t in prange(len(tasks.device)):
        f_task = 0.0
        g_task = 0.0
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            A = b0 = b1 = b2 = f_sum = 0.0
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                r = records[k]
                x = r[3] * r[4]
                A += x * r[3]
                b0 += x * r[0]
                b1 += x * r[1]
                b2 += x * r[2]
                f_sum += r[5]
                g_task += r[6]
            for a in range(3):
                base[j, a] = points[j, a]
            all_A[j] = A * curvature
            all_b[j, 0] = 0.5 * b0
            all_b[j, 1] = 0.5 * b1
            all_b[j, 2] = 0.5 * b2
            all_c[j] = (1.0 - theta) * f_sum
            f_task += f_sum
        partial[t, 0] = f_task
        partial[t, 1] = g_task
    out = np.zeros((len(tasks.device_ptr) - 1, 2))
    sum_task_rows(partial, tasks, out)
    return out


@inline
def z_column(c, a, x):
    """Row x of column a of Z."""
    if a < 2:
        return c[3 * x + a]
    if a < 5:
        return c[10 + a] * c[3 * x + 2]
    return c[9 + x]


@kernel
def add_to_cameras(
    moments: Moments,
    cameras: Matrix,
    obs: Observations,
    tasks: Tasks,
    xi: float,
    all_U: Blocks,
    all_g: Matrix,
):
    """Add P_i and ½ξ|c − ĉ|² to U and g_c: gradient 2⟨∂Z, ΔZ M + G⟩, matrix 2⟨∂Z, ∂Z M⟩."""
    for t in prange(len(tasks.device)):
        D = np.zeros((9, 3, 6))  # ∂Z along (ω, t, d)
        DM = np.empty((3, 6))
        H = np.empty((3, 6))  # ΔZ M + G
        dZ = np.empty((3, 6))
        for x in range(3):
            D[3 + x, x, 5] = 1.0
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            c = cameras[i]
            base = moments.cameras[i]
            U = all_U[i]
            g = all_g[i]
            if obs.camera_ptr[i + 1] > obs.camera_ptr[i]:
                M = moments.M[i]
                for a in range(5):
                    # ω × column a of Z, one unit vector ω at a time
                    zx = z_column(c, a, 0)
                    zy = z_column(c, a, 1)
                    zz = z_column(c, a, 2)
                    D[0, 1, a] = -zz
                    D[0, 2, a] = zy
                    D[1, 0, a] = zz
                    D[1, 2, a] = -zx
                    D[2, 0, a] = -zy
                    D[2, 1, a] = zx
                for x in range(3):
                    for a in range(3):
                        D[6 + a, x, 2 + a] = c[3 * x + 2]
                    for a in range(6):
                        dZ[x, a] = z_column(c, a, x) - z_column(base, a, x)
                for x in range(3):
                    for a in range(6):
                        total = moments.G[i, x, a]
                        for b in range(6):
                            total += dZ[x, b] * M[b, a]
                        H[x, a] = total
                for p in range(9):
                    gradient = 0.0
                    for x in range(3):
                        for a in range(6):
                            total = 0.0
                            for b in range(6):
                                total += D[p, x, b] * M[b, a]
                            DM[x, a] = total
                            gradient += D[p, x, a] * H[x, a]
                    g[p] += 2.0 * gradient
                    for q in range(p + 1):
                        total = 0.0
                        for x in range(3):
                            for a in range(6):
                                total += DM[x, a] * D[q, x, a]
                        U[p, q] += 2.0 * total
                        if q < p:
                            U[q, p] += 2.0 * total
            for a in range(3):  # ½ξ|R − R̂|²: gradient ω·Σ R̂ₐ × Rₐ over columns, curvature 2
                bx = base[a]
                by = base[3 + a]
                bz = base[6 + a]
                g[0] += xi * (by * c[6 + a] - bz * c[3 + a])
                g[1] += xi * (bz * c[a] - bx * c[6 + a])
                g[2] += xi * (bx * c[3 + a] - by * c[a])
                U[a, a] += 2.0 * xi
            for a in range(6):
                g[3 + a] += xi * (c[9 + a] - base[9 + a])
                U[3 + a, 3 + a] += xi


@kernel
def add_to_points(
    moments: Moments, points: Matrix, tasks: Tasks, xi: float, V: Matrix, g_l: Matrix
):
    """Add Q_j and ½ξ|l − l̂|² to V and g_l."""
    for t in prange(len(tasks.device)):
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            curvature = 2.0 * moments.A[j] + xi
            V[j, 0] += curvature
            V[j, 3] += curvature
            V[j, 5] += curvature
            for a in range(3):
                step = points[j, a] - moments.points[j, a]
                g_l[j, a] += curvature * step - 2.0 * moments.b[j, a]


@kernel
def evaluate(
    moments: Moments,
    x: State,
    obs: Observations,
    tasks: Tasks,
    tasks_l: Tasks,
    xi: float,
    active: Bools,
):
    """Σ P_i + Σ Q_j + ½ξ|x − x̂|² of each active device, (S,)."""
    partial_c = np.zeros(len(tasks.device))
    for t in prange(len(tasks.device)):
        dZ = np.empty((3, 6))
        sum_c = 0.0
        if active[tasks.device[t]]:
            for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
                c = x.cameras[i]
                base = moments.cameras[i]
                square = 0.0
                for a in range(15):
                    square += (c[a] - base[a]) ** 2
                sum_c += 0.5 * xi * square
                if obs.camera_ptr[i + 1] > obs.camera_ptr[i]:
                    value = 0.0
                    for r in range(3):
                        for a in range(6):
                            dZ[r, a] = z_column(c, a, r) - z_column(base, a, r)
                    for r in range(3):
                        for a in range(6):
                            row = 2.0 * moments.G[i, r, a]
                            for b in range(6):
                                row += dZ[r, b] * moments.M[i, b, a]
                            value += row * dZ[r, a]
                    sum_c += value + moments.c[i]
        partial_c[t] = sum_c
    partial_l = np.zeros(len(tasks_l.device))
    for t in prange(len(tasks_l.device)):
        sum_l = 0.0
        if active[tasks_l.device[t]]:
            for j in range(tasks_l.ptr[t], tasks_l.ptr[t + 1]):
                square = 0.0
                along = 0.0
                for a in range(3):
                    step = x.points[j, a] - moments.points[j, a]
                    square += step * step
                    along += step * moments.b[j, a]
                sum_l += (moments.A[j] + 0.5 * xi) * square - 2.0 * along + moments.c_l[j]
        partial_l[t] = sum_l
    out = np.zeros(len(active))
    sum_tasks(partial_c, tasks, out)
    sum_tasks(partial_l, tasks_l, out)
    return out
