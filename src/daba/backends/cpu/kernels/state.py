"""Moving the estimate: retraction on SO(3), projection to it, Nesterov extrapolation."""

import math

import numpy as np
from numba import prange

from daba.backends.cpu.kernels.binding import decisions, formulas, inline, kernel
from daba.backends.cpu.kernels.block import copy
from daba.backends.cpu.kernels.objective import sum_tasks
from daba.core.types import Bools, Floats, Matrix, State, Tasks

exponential = formulas.exponential
multiply3 = formulas.multiply3
polar_step = formulas.polar_step
goes_back = decisions.goes_back


@inline
def turned(c, wx, wy, wz, out):
    """out = exp(ω̂) R, made a rotation again: rounding must not add up over iterations."""
    R = multiply3(exponential(wx, wy, wz), (c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]))
    for a in range(9):
        out[a] = R[a]
    project_rotation(out)


@inline
def project_rotation(m):
    """m ← the rotation nearest to m (det m > 0), by Newton's iteration for the polar factor.

    (1+γ)R − γR' always has a positive determinant: its eigenvalues in R's frame are 1 and the
    conjugate pair 1 + γ − γ e^{±iφ}.
    """
    for _ in range(30):
        x = polar_step((m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]))
        change = 0.0
        for a in range(9):
            change = max(change, abs(x[a] - m[a]))
            m[a] = x[a]
        if change < 1e-9:  # quadratic: the next step would be below 1e-17
            break


@kernel
def retract(
    x: State,
    step_c: Matrix,
    step_l: Matrix,
    active: Bools,
    tasks: Tasks,
    tasks_l: Tasks,
    out_c: Matrix,
    out_l: Matrix,
):
    """out = x ⊕ step on the active devices; the others stay as they are."""
    for t in prange(len(tasks.device)):
        if active[tasks.device[t]]:
            for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
                c = x.cameras[i]
                turned(c, step_c[i, 0], step_c[i, 1], step_c[i, 2], out_c[i])
                for a in range(6):
                    out_c[i, 9 + a] = c[9 + a] + step_c[i, 3 + a]
    for t in prange(len(tasks_l.device)):
        if active[tasks_l.device[t]]:
            for j in range(tasks_l.ptr[t], tasks_l.ptr[t + 1]):
                for a in range(3):
                    out_l[j, a] = x.points[j, a] + step_l[j, a]


@kernel
def choose(
    chosen: Bools, source: State, tasks: Tasks, tasks_l: Tasks, out_c: Matrix, out_l: Matrix
):
    """out ← source on the chosen devices."""
    for t in prange(len(tasks.device)):
        if chosen[tasks.device[t]]:
            for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
                copy(source.cameras[i], out_c[i])
    for t in prange(len(tasks_l.device)):
        if chosen[tasks_l.device[t]]:
            for j in range(tasks_l.ptr[t], tasks_l.ptr[t + 1]):
                copy(source.points[j], out_l[j])


@kernel
def extrapolate_cameras(gamma: Floats, cameras: Matrix, last: Matrix, out: Matrix):
    """x̄ = Proj(x + γ (x − x_last)), γ by camera."""
    for i in prange(len(cameras)):
        for a in range(15):
            out[i, a] = cameras[i, a] + gamma[i] * (cameras[i, a] - last[i, a])
        project_rotation(out[i])


@kernel
def extrapolate_points(
    gamma: float, points: Matrix, last: Matrix, centroid: Matrix, clip: float, out: Matrix
):
    """l̄ = l + γ (l − l_last), no further than clip × the distance from l to the centroid of its
    cameras."""
    for j in prange(len(points)):
        bound2 = 0.0
        length2 = 0.0
        for a in range(3):
            bound2 += (clip * (points[j, a] - centroid[j, a])) ** 2
            length2 += (gamma * (points[j, a] - last[j, a])) ** 2
        y = gamma * math.sqrt(bound2 / length2) if length2 > bound2 else gamma
        for a in range(3):
            out[j, a] = points[j, a] + y * (points[j, a] - last[j, a])


@kernel
def reset_momentum(x_bar: Matrix, new: Matrix, cameras: Matrix, distance: Floats, s: Floats):
    """s ← 1 for each camera that went back on its momentum."""
    for i in prange(len(s)):
        turn = 0.0
        for a in range(9):
            turn += (x_bar[i, a] - new[i, a]) * (new[i, a] - cameras[i, a])
        move = 0.0
        for a in range(9, 12):
            move += (x_bar[i, a] - new[i, a]) * (new[i, a] - cameras[i, a])
        zoom = (x_bar[i, 12] - new[i, 12]) * (new[i, 12] - cameras[i, 12])
        if goes_back(turn, move, zoom, distance[i]):
            s[i] = 1.0


@kernel
def square_distance(x: State, base: State, tasks: Tasks, tasks_l: Tasks):
    """|x − base|² of each device, (S,)."""
    partial_c = np.zeros(len(tasks.device))
    for t in prange(len(tasks.device)):
        sum_c = 0.0
        for i in range(tasks.ptr[t], tasks.ptr[t + 1]):
            for a in range(15):
                sum_c += (x.cameras[i, a] - base.cameras[i, a]) ** 2
        partial_c[t] = sum_c
    partial_l = np.zeros(len(tasks_l.device))
    for t in prange(len(tasks_l.device)):
        sum_l = 0.0
        for j in range(tasks_l.ptr[t], tasks_l.ptr[t + 1]):
            for a in range(3):
                sum_l += (x.points[j, a] - base.points[j, a]) ** 2
        partial_l[t] = sum_l
    out = np.zeros(len(tasks.device_ptr) - 1)
    sum_tasks(partial_c, tasks, out)
    sum_tasks(partial_l, tasks_l, out)
    return out
