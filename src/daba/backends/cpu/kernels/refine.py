"""Exact block updates on the true objective: one variable at a time, all its observations.

Each update is a damped Gauss–Newton step kept only if the variable's own terms of F decrease,
so no update can raise F (method §3, refinement).
"""

import math

import numpy as np
from numba import prange

from daba.backends.cpu.kernels.binding import decisions, formulas, inline, kernel
from daba.backends.cpu.kernels.block import copy, copy_matrix, solve9
from daba.backends.cpu.kernels.objective import sum_tasks
from daba.backends.cpu.kernels.schur import invert_point, multiply_point
from daba.backends.cpu.kernels.state import turned
from daba.core.types import Bools, Known, LossParameters, Mask, Matrix, Observations, Tasks

error = formulas.error
penalty = formulas.penalty
normal_basis = formulas.normal_basis
derivative_row = formulas.derivative_row
point_block = formulas.point_block
rho = formulas.rho
DAMPING, GROWTH = decisions.REFINE_DAMPING, decisions.REFINE_GROWTH
TRIES, FLOOR = decisions.REFINE_TRIES, decisions.REFINE_FLOOR
STEP_BOUND, DIAGONAL_FLOOR = decisions.STEP_BOUND, decisions.DIAGONAL_FLOOR


# Priors of single variables, as they are met here: one variable at a time


@inline
def square(known, n, x, at):
    """rᵀΛr of row n, for a record x in which the value begins at `at`."""
    total = 0.0
    for a in range(3):
        for b in range(3):
            total += (
                (x[at + a] - known.target[n, a])
                * known.information[n, a, b]
                * (x[at + b] - known.target[n, b])
            )
    return total


@inline
def known_term(known, i, x, at):
    """½ρ(rᵀΛr) of variable i, if its record were x."""
    n = known.row[i]
    return 0.5 * rho(known.kind, known.radius, square(known, n, x, at))[0] if n >= 0 else 0.0


@inline
def add_to_camera(known, i, x, at, U, g):
    """Add ρ'Λ (lower triangle) and ρ'Λr to the matrix and gradient of camera i."""
    n = known.row[i]
    if n >= 0:
        slope = rho(known.kind, known.radius, square(known, n, x, at))[1]
        p = at - 6  # R has nine numbers and three parameters
        for a in range(3):
            for b in range(3):
                H = slope * known.information[n, a, b]
                g[p + a] += H * (x[at + b] - known.target[n, b])
                if b <= a:
                    U[p + a, p + b] += H


@inline
def add_to_point(known, j, l, V, g):
    """The same for a point, whose matrix is an upper triangle."""
    n = known.row[j]
    if n >= 0:
        slope = rho(known.kind, known.radius, square(known, n, l, 0))[1]
        m = 0
        for a in range(3):
            for b in range(3):
                H = slope * known.information[n, a, b]
                g[a] += H * (l[b] - known.target[n, b])
                if b >= a:
                    V[m] += H
                    m += 1


# Points


@inline
def point_terms(obs, cameras, l, j, loss):
    """Σ F_ij over the observations of point j, if it were at l."""
    total = 0.0
    for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
        ex, ey, ez, _, _, _, _, _, _, _, _ = error(
            cameras[obs.camera[k]], l, obs.u[k, 0], obs.u[k, 1]
        )
        total += penalty(loss.kind, loss.radius, obs.weight[k], ex, ey, ez)[0]
    return total


@inline
def point_system(obs, cameras, l, j, loss, V, g):
    """Add the blocks of the observations of point j to V and g. Returns Σ F_ij and min |δ|²."""
    total = 0.0
    nearest = np.inf
    for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
        ex, ey, ez, lam, dx, dy, dz, _, _, _, _ = error(
            cameras[obs.camera[k]], l, obs.u[k, 0], obs.u[k, 1]
        )
        f, w, _ = penalty(loss.kind, loss.radius, obs.weight[k], ex, ey, ez)
        total += f
        nearest = min(nearest, dx * dx + dy * dy + dz * dz)
        block = point_block(w, lam, dx, dy, dz, ex, ey, ez)
        for a in range(6):
            V[a] += block[a]
        for a in range(3):
            g[a] += block[6 + a]
    return total, nearest


@kernel
def refine_points(
    intra: Observations,
    inter: Observations,
    cameras: Matrix,
    points: Matrix,
    tasks: Tasks,
    loss: LossParameters,
    free: Bools | None,
    known: Known | None,
):
    """Move each point of the boundary to lower Σ F_ij; returns ΔF (S,). `free` tells which may move
    and `known` their priors; both are None without constraints."""
    partial = np.zeros(len(tasks.device))
    for t in prange(len(tasks.device)):
        V = np.empty(6)
        g = np.empty(3)
        Vi = np.empty(6)
        step = np.empty(3)
        new = np.empty(3)
        total = 0.0
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            if inter.point_ptr[j + 1] == inter.point_ptr[j]:
                continue
            if free is not None:  # noqa: SIM102 (Numba drops it only so)
                if not free[j]:
                    continue
            V[:] = 0.0
            g[:] = 0.0
            l = points[j]
            before, near = point_system(intra, cameras, l, j, loss, V, g)
            more, nearer = point_system(inter, cameras, l, j, loss, V, g)
            before += more
            if free is not None:
                before += known_term(known, j, l, 0)
                add_to_point(known, j, l, V, g)
            bound = STEP_BOUND * math.sqrt(min(near, nearer))
            largest = max(V[0], V[3], V[5])
            mu = DAMPING
            for _ in range(TRIES):
                invert_point(V, mu, FLOOR * largest, Vi)
                multiply_point(Vi, g, step)
                x, y, z = step[0], step[1], step[2]
                length = math.sqrt(x * x + y * y + z * z)
                clip = bound / length if length > bound else 1.0
                new[0] = l[0] - clip * x
                new[1] = l[1] - clip * y
                new[2] = l[2] - clip * z
                after = point_terms(intra, cameras, new, j, loss)
                after += point_terms(inter, cameras, new, j, loss)
                if free is not None:
                    after += known_term(known, j, new, 0)
                if after < before:
                    total += after - before
                    copy(new, points[j])
                    break
                mu *= GROWTH
        partial[t] = total
    out = np.zeros(len(tasks.device_ptr) - 1)
    sum_tasks(partial, tasks, out)
    return out


# Cameras


@inline
def camera_terms(obs, c, points, i, loss):
    """Σ F_ij over the observations of camera i, if it were c."""
    total = 0.0
    for n in range(obs.camera_ptr[i], obs.camera_ptr[i + 1]):
        k = obs.camera_obs[n]
        ex, ey, ez, _, _, _, _, _, _, _, _ = error(
            c, points[obs.point[k]], obs.u[k, 0], obs.u[k, 1]
        )
        total += penalty(loss.kind, loss.radius, obs.weight[k], ex, ey, ez)[0]
    return total


@inline
def camera_system(obs, c, points, i, loss, U, g, J):
    """Add JᵀJ (lower triangle) and Jᵀr of camera i to U and g; returns Σ F_ij."""
    total = 0.0
    for n in range(obs.camera_ptr[i], obs.camera_ptr[i + 1]):
        k = obs.camera_obs[n]
        ex, ey, ez, lam, dx, dy, dz, qx, qy, qz, s = error(
            c, points[obs.point[k]], obs.u[k, 0], obs.u[k, 1]
        )
        f, w, _ = penalty(loss.kind, loss.radius, obs.weight[k], ex, ey, ez)
        total += f
        ax, ay, az, bx, by, bz = normal_basis(dx, dy, dz)
        for half in range(2):
            if half == 1:
                ax, ay, az = bx, by, bz
            row = derivative_row(c, lam, qx, qy, qz, ax, ay, az)
            J[0] = row[0]
            J[1] = row[1]
            J[2] = row[2]
            J[3] = row[3]
            J[4] = row[4]
            J[5] = row[5]
            J[6] = row[6]
            J[7] = row[6] * s
            J[8] = row[6] * s * s
            r = ax * ex + ay * ey + az * ez
            for a in range(9):
                x = w * J[a]
                g[a] += x * r
                for b in range(a + 1):
                    U[a, b] += x * J[b]
    return total


@kernel
def refine_cameras(
    intra: Observations,
    inter: Observations,
    cameras: Matrix,
    points: Matrix,
    tasks: Tasks,
    loss: LossParameters,
    free: Mask | None,
    positions: Known | None,
    intrinsics: Known | None,
):
    """Move each camera of the boundary to lower its Σ F_ij, points held; returns ΔF (S,). `free`
    tells which parameters may change, `positions` and `intrinsics` are priors; all are None where
    there are no constraints."""
    partial = np.zeros(len(tasks.device))
    for t in prange(len(tasks.device)):
        U = np.empty((9, 9))
        damped = np.empty((9, 9))
        L = np.empty((9, 9))
        g = np.empty(9)
        J = np.empty(9)
        step = np.empty(9)
        new = np.empty(15)
        total = 0.0
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            if inter.camera_ptr[i + 1] == inter.camera_ptr[i]:
                continue
            U[:] = 0.0
            g[:] = 0.0
            c = cameras[i]
            before = camera_system(intra, c, points, i, loss, U, g, J)
            before += camera_system(inter, c, points, i, loss, U, g, J)
            turns = True
            if positions is not None:
                before += known_term(positions, i, c, 9)
                before += known_term(intrinsics, i, c, 12)
                add_to_camera(positions, i, c, 9, U, g)
                add_to_camera(intrinsics, i, c, 12, U, g)
            if free is not None:
                turns = free[i, 0] or free[i, 1] or free[i, 2]
                for a in range(9):
                    if not free[i, a]:
                        g[a] = 0.0
                        for b in range(9):
                            U[a, b] = 0.0
                            U[b, a] = 0.0
            mu = DAMPING
            for _ in range(TRIES):
                copy_matrix(U, damped)
                for a in range(9):
                    damped[a, a] += mu * max(U[a, a], DIAGONAL_FLOOR)
                if solve9(damped, g, step, L):
                    turned(c, -step[0], -step[1], -step[2], new)
                    if not turns:
                        for a in range(9):
                            new[a] = c[a]
                    for a in range(6):
                        new[9 + a] = c[9 + a] - step[3 + a]
                    after = camera_terms(intra, new, points, i, loss)
                    after += camera_terms(inter, new, points, i, loss)
                    if positions is not None:
                        after += known_term(positions, i, new, 9)
                        after += known_term(intrinsics, i, new, 12)
                    if after < before:
                        total += after - before
                        copy(new, cameras[i])
                        break
                mu *= GROWTH
        partial[t] = total
    out = np.zeros(len(tasks.device_ptr) - 1)
    sum_tasks(partial, tasks, out)
    return out
