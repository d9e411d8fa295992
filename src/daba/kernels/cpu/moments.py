"""The surrogate by moments: build at a base, add to a Gauss–Newton system, evaluate.

With Z = [R₁, R₂, d1 R₃, d2 R₃, d3 R₃, t] and m = (u_x, u_y, 1, s, s², λ), R p + λ t = Z m, so
    P_i(Z) = tr(ΔZ M ΔZᵀ) + 2 tr(ΔZᵀ G) + c,   Q_j(l) = A |Δl|² − 2 Δl·b + c_l.
"""

import numpy as np
from numba import prange

from daba.kernels.cpu import formulas
from daba.kernels.cpu.binding import inline, kernel
from daba.kernels.cpu.tasks import sum_tasks

error = formulas.error
penalty = formulas.penalty
majorizer = formulas.majorizer


@kernel
def build_cameras(
    obs,
    cameras,
    points,
    last_c,
    last_l,
    moved,
    tasks,
    kind,
    radius,
    theta,
    base,
    all_M,
    all_G,
    all_c,
):
    """M, G, c of each camera; returns F, squared pixel error and, if the base has moved, Σ (F_ij −
    P_ij − Q_ij) at it for the base before, over its inter observations, by device, (S, 3)."""
    partial = np.zeros((len(tasks.device), 3))
    for t in prange(len(tasks.device)):
        M = np.empty((6, 6))
        G = np.empty((3, 6))
        m = np.empty(6)
        f_task = 0.0
        s_task = 0.0
        gap = 0.0
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            base[i] = cameras[i]
            M[:] = 0.0
            G[:] = 0.0
            f_sum = 0.0
            for n in range(obs.camera_ptr[i], obs.camera_ptr[i + 1]):
                k = obs.camera_obs[n]
                j = obs.point[k]
                u, v = obs.u[k, 0], obs.u[k, 1]
                ex, ey, ez, lam, _, _, _, _, _, _, s = error(cameras[i], points[j], u, v)
                f, w, square = penalty(kind, radius, obs.weight[k], ex, ey, ez)
                f_sum += f
                s_task += square
                if moved:
                    gap += f - majorizer(
                        kind, radius, theta, obs.weight[k], u, v,
                        cameras[i], points[j], last_c[i], last_l[j],
                    )  # fmt: skip
                m[0] = u
                m[1] = v
                m[2] = 1.0
                m[3] = s
                m[4] = s * s
                m[5] = lam
                for a in range(6):
                    x = 0.5 * w * m[a]
                    G[0, a] += x * ex
                    G[1, a] += x * ey
                    G[2, a] += x * ez
                    x /= theta
                    for b in range(a + 1):
                        M[a, b] += x * m[b]
            for a in range(6):
                for b in range(a + 1):
                    all_M[i, a, b] = M[a, b]
                    all_M[i, b, a] = M[a, b]
            all_G[i] = G
            all_c[i] = theta * f_sum
            f_task += f_sum
        partial[t, 0] = f_task
        partial[t, 1] = s_task
        partial[t, 2] = gap
    out = np.zeros((len(tasks.device_ptr) - 1, 3))
    sum_tasks(partial, tasks, out)
    return out


@kernel
def build_points(
    obs,
    cameras,
    points,
    last_c,
    last_l,
    moved,
    tasks,
    kind,
    radius,
    theta,
    base,
    all_A,
    all_b,
    all_c,
):
    """A, b, c_l of each point; returns F and, if the base has moved, Σ (F_ij − P_ij − Q_ij) at it
    for the base before, over its inter observations, by device, (S, 2)."""
    partial = np.zeros((len(tasks.device), 2))
    for t in prange(len(tasks.device)):
        f_task = 0.0
        gap = 0.0
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            A = b0 = b1 = b2 = f_sum = 0.0
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                i = obs.camera[k]
                u, v = obs.u[k, 0], obs.u[k, 1]
                ex, ey, ez, lam, _, _, _, _, _, _, _ = error(cameras[i], points[j], u, v)
                f, w, _ = penalty(kind, radius, obs.weight[k], ex, ey, ez)
                if moved:
                    gap += f - majorizer(
                        kind, radius, theta, obs.weight[k], u, v,
                        cameras[i], points[j], last_c[i], last_l[j],
                    )  # fmt: skip
                A += w * lam * lam
                x = 0.5 * w * lam
                b0 += x * ex
                b1 += x * ey
                b2 += x * ez
                f_sum += f
            base[j] = points[j]
            all_A[j] = 0.5 * A / (1.0 - theta)
            all_b[j, 0] = b0
            all_b[j, 1] = b1
            all_b[j, 2] = b2
            all_c[j] = (1.0 - theta) * f_sum
            f_task += f_sum
        partial[t, 0] = f_task
        partial[t, 1] = gap
    out = np.zeros((len(tasks.device_ptr) - 1, 2))
    sum_tasks(partial, tasks, out)
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
def add_to_cameras(moments, cameras, obs, tasks, xi, all_U, all_g):
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
def add_to_points(moments, points, tasks, xi, V, g_l):
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
def evaluate(moments, cameras, points, obs, tasks, tasks_l, xi, active):
    """Σ P_i + Σ Q_j + ½ξ|x − x̂|² of each active device, (S,)."""
    partial_c = np.zeros(len(tasks.device))
    for t in prange(len(tasks.device)):
        dZ = np.empty((3, 6))
        sum_c = 0.0
        if active[tasks.device[t]]:
            for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
                c = cameras[i]
                base = moments.cameras[i]
                square = 0.0
                for a in range(15):
                    square += (c[a] - base[a]) ** 2
                sum_c += 0.5 * xi * square
                if obs.camera_ptr[i + 1] > obs.camera_ptr[i]:
                    value = 0.0
                    for x in range(3):
                        for a in range(6):
                            dZ[x, a] = z_column(c, a, x) - z_column(base, a, x)
                    for x in range(3):
                        for a in range(6):
                            row = 2.0 * moments.G[i, x, a]
                            for b in range(6):
                                row += dZ[x, b] * moments.M[i, b, a]
                            value += row * dZ[x, a]
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
                    step = points[j, a] - moments.points[j, a]
                    square += step * step
                    along += step * moments.b[j, a]
                sum_l += (moments.A[j] + 0.5 * xi) * square - 2.0 * along + moments.c_l[j]
        partial_l[t] = sum_l
    out = np.zeros(len(active))
    sum_tasks(partial_c, tasks, out)
    sum_tasks(partial_l, tasks_l, out)
    return out
