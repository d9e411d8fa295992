"""Passes over observations: objective, derivatives, and the surrogate's slack; and how sums over
tasks are taken, in an order that no number of threads changes."""

import math

import numpy as np
from numba import prange

from daba.backends.cpu.kernels.binding import decisions, formulas, inline, kernel
from daba.backends.cpu.kernels.block import AHEAD, PACKED, add_block, prefetch, unpack
from daba.core.types import (
    Blocks,
    Bools,
    Floats,
    LossParameters,
    Matrix,
    Observations,
    State,
    Tasks,
)

error = formulas.error
penalty = formulas.penalty
normal_basis = formulas.normal_basis
derivative_row = formulas.derivative_row
majorizer = formulas.majorizer

STEP_BOUND = decisions.STEP_BOUND


@inline
def sum_tasks(partial, tasks, out):
    """Sum what the tasks of each device found, in the order of the tasks."""
    for a in range(len(out)):
        for t in range(tasks.device_ptr[a], tasks.device_ptr[a + 1]):
            out[a] += partial[t]


@inline
def sum_task_rows(partial, tasks, out):
    """The same of several numbers each."""
    for a in range(len(out)):
        for t in range(tasks.device_ptr[a], tasks.device_ptr[a + 1]):
            for c in range(out.shape[1]):
                out[a, c] += partial[t, c]


@kernel
def objective(
    obs: Observations,
    x: State,
    tasks: Tasks,
    loss: LossParameters,
    active: Bools,
):
    """F and the squared pixel error of the active devices' observations, (S, 2)."""
    partial = np.zeros((len(tasks.device), 2))
    for t in prange(len(tasks.device)):
        if active[tasks.device[t]]:
            f_sum = 0.0
            s_sum = 0.0
            for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
                for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                    ex, ey, ez, _, _, _, _, _, _, _, _ = error(
                        x.cameras[obs.camera[k]], x.points[j], obs.u[k, 0], obs.u[k, 1]
                    )
                    f, _, square = penalty(loss.kind, loss.radius, obs.weight[k], ex, ey, ez)
                    f_sum += f
                    s_sum += square
            partial[t, 0] = f_sum
            partial[t, 1] = s_sum
    out = np.zeros((len(tasks.device_ptr) - 1, 2))
    sum_task_rows(partial, tasks, out)
    return out


@kernel
def linearize_points(
    obs: Observations,
    x: State,
    tasks: Tasks,
    loss: LossParameters,
    J: Matrix,
    V: Matrix,
    g_l: Matrix,
    bound: Floats,
):
    """Residuals and derivatives of each observation; V, g_l and step bound of each point."""
    for t in prange(len(tasks.device)):
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            v0 = v1 = v2 = v3 = v4 = v5 = 0.0
            nearest = np.inf
            g0 = g1 = g2 = 0.0
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                c = x.cameras[obs.camera[k]]
                ex, ey, ez, lam, dx, dy, dz, qx, qy, qz, s = error(
                    c, x.points[j], obs.u[k, 0], obs.u[k, 1]
                )
                _, w, _ = penalty(loss.kind, loss.radius, obs.weight[k], ex, ey, ez)
                root = math.sqrt(w)
                nearest = min(nearest, dx * dx + dy * dy + dz * dz)
                ax, ay, az, bx, by, bz = normal_basis(dx, dy, dz)
                row = derivative_row(c, lam, qx, qy, qz, ax, ay, az)
                p0 = root * row[3]
                p1 = root * row[4]
                p2 = root * row[5]
                J[k, 0] = root * row[0]
                J[k, 1] = root * row[1]
                J[k, 2] = root * row[2]
                J[k, 3] = p0
                J[k, 4] = p1
                J[k, 5] = p2
                J[k, 6] = root * row[6]
                J[k, 7] = root * row[6] * s
                J[k, 8] = root * row[6] * s * s
                row = derivative_row(c, lam, qx, qy, qz, bx, by, bz)
                q0 = root * row[3]
                q1 = root * row[4]
                q2 = root * row[5]
                J[k, 9] = root * row[0]
                J[k, 10] = root * row[1]
                J[k, 11] = root * row[2]
                J[k, 12] = q0
                J[k, 13] = q1
                J[k, 14] = q2
                J[k, 15] = root * row[6]
                J[k, 16] = root * row[6] * s
                J[k, 17] = root * row[6] * s * s
                r0 = root * (ax * ex + ay * ey + az * ez)
                r1 = root * (bx * ex + by * ey + bz * ez)
                J[k, 18] = r0
                J[k, 19] = r1
                v0 += p0 * p0 + q0 * q0
                v1 += p0 * p1 + q0 * q1
                v2 += p0 * p2 + q0 * q2
                v3 += p1 * p1 + q1 * q1
                v4 += p1 * p2 + q1 * q2
                v5 += p2 * p2 + q2 * q2
                g0 -= p0 * r0 + q0 * r1
                g1 -= p1 * r0 + q1 * r1
                g2 -= p2 * r0 + q2 * r1
            bound[j] = STEP_BOUND * math.sqrt(nearest)
            V[j, 0] = v0
            V[j, 1] = v1
            V[j, 2] = v2
            V[j, 3] = v3
            V[j, 4] = v4
            V[j, 5] = v5
            g_l[j, 0] = g0
            g_l[j, 1] = g1
            g_l[j, 2] = g2


@kernel
def bound_cameras(
    cameras: Matrix,
    bound: Floats,
    active: Bools,
    tasks: Tasks,
    shares: Bools | None,
    step: Matrix,
):
    """Shorten the step of a camera that would turn by more than STEP_BOUND, move beyond its bound,
    or change its focal length by more than that share.

    Of cameras that share d (`shares`) poses are shortened apart from it, and d alike."""
    for t in prange(len(tasks.device)):
        if active[tasks.device[t]]:
            for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
                s = step[i]
                turn = math.sqrt(s[0] * s[0] + s[1] * s[1] + s[2] * s[2])
                move = math.sqrt(s[3] * s[3] + s[4] * s[4] + s[5] * s[5])
                zoom = abs(s[6])
                if shares is not None:  # noqa: SIM102 (Numba drops it only so)
                    if shares[i]:
                        excess = max(turn / STEP_BOUND, move / bound[i])
                        if excess > 1.0:
                            for a in range(6):
                                s[a] /= excess
                        excess = zoom / (STEP_BOUND * abs(cameras[i, 12]))
                        if excess > 1.0:
                            for a in range(6, 9):
                                s[a] /= excess
                        continue
                excess = max(
                    turn / STEP_BOUND, move / bound[i], zoom / (STEP_BOUND * abs(cameras[i, 12]))
                )
                if excess > 1.0:
                    for a in range(9):
                        s[a] /= excess


@kernel
def linearize_cameras(
    obs: Observations,
    x: State,
    tasks: Tasks,
    J: Matrix,
    U: Blocks,
    g_c: Matrix,
    bound: Floats,
):
    """U and g_c of each camera, from the stored derivatives, and its step bound: STEP_BOUND × its
    mean distance to the points it sees."""
    for t in prange(len(tasks.device)):
        block = np.empty(PACKED)
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            block[:] = 0.0
            away = 0.0
            for a in range(9):
                g_c[i, a] = 0.0
            for n in range(obs.camera_ptr[i], obs.camera_ptr[i + 1]):
                prefetch(J, obs.camera_obs[min(n + AHEAD, len(obs.camera_obs) - 1)])
                k = obs.camera_obs[n]
                row = J[k]
                add_block(block, row, row, 1.0, 0.0, 0.0, 1.0)
                for a in range(9):
                    g_c[i, a] += row[a] * row[18] + row[9 + a] * row[19]
                l = x.points[obs.point[k]]
                dx = l[0] - x.cameras[i, 9]
                dy = l[1] - x.cameras[i, 10]
                dz = l[2] - x.cameras[i, 11]
                away += math.sqrt(dx * dx + dy * dy + dz * dz)
            unpack(block, U[i])
            seen = obs.camera_ptr[i + 1] - obs.camera_ptr[i]
            bound[i] = STEP_BOUND * away / seen if seen > 0 else np.inf


@kernel
def slack_by_point(
    obs: Observations,
    x: State,
    base: State,
    tasks: Tasks,
    loss: LossParameters,
    theta: float,
):
    """Σ (F_ij − P_ij − Q_ij) over the inter observations of each device's points, (S,)."""
    partial = np.zeros(len(tasks.device))
    for t in prange(len(tasks.device)):
        total = 0.0
        for j in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for k in range(obs.point_ptr[j], obs.point_ptr[j + 1]):
                i = obs.camera[k]
                u, v = obs.u[k, 0], obs.u[k, 1]
                ex, ey, ez, _, _, _, _, _, _, _, _ = error(x.cameras[i], x.points[j], u, v)
                f, _, _ = penalty(loss.kind, loss.radius, obs.weight[k], ex, ey, ez)
                total += f - majorizer(
                    loss.kind, loss.radius, theta, obs.weight[k], u, v,
                    x.cameras[i], x.points[j], base.cameras[i], base.points[j],
                )  # fmt: skip
        partial[t] = total
    out = np.zeros(len(tasks.device_ptr) - 1)
    sum_tasks(partial, tasks, out)
    return out
