"""Plain NumPy: the oracle of the tests, and what runs where no kernel is worth compiling.

Everything here is summed over observations directly, with no moments, no elimination and no
layout; slow, obvious, and independent of how the production kernels are organised.
"""

import numpy as np

from daba.core import formulas

CHUNK = 1 << 20
"""Observations handled at once."""


def gather(problem, k=slice(None)):
    """Cameras as 15 columns, points as 3, u as 2, and weights, one value per observation."""
    c = problem.cameras[problem.camera_index[k]].T
    l = problem.points[problem.point_index[k]].T
    return c, l, problem.u[k, 0], problem.u[k, 1], problem.weights[k]


def penalties(problem, loss, k=slice(None)):
    """F_ij of each observation."""
    c, l, ux, uy, weight = gather(problem, k)
    e = formulas.error(c, l, ux, uy)[:3]
    return formulas.penalty(loss.kind, loss.radius, weight, *e)[0]


def objective(problem, loss):
    """F(x) = Σ F_ij."""
    starts = range(0, problem.num_observations, CHUNK)
    return float(sum(penalties(problem, loss, slice(s, s + CHUNK)).sum() for s in starts))


def jacobian(problem, loss):
    """Weighted residuals r (K,2) and derivatives: J_c (K,2,9) along (ω, t, d), J_l (K,2,3)."""
    c, l, ux, uy, weight = gather(problem)
    ex, ey, ez, lam, dx, dy, dz, qx, qy, qz, s = formulas.error(c, l, ux, uy)
    _, w, _ = formulas.penalty(loss.kind, loss.radius, weight, ex, ey, ez)
    basis = np.array(formulas.normal_basis(dx, dy, dz)).reshape(2, 3, -1)
    root = np.sqrt(w)
    r = root[:, None] * np.einsum("bxk,xk->kb", basis, np.array([ex, ey, ez]))
    J_c = np.empty((len(root), 2, 9))
    for b in range(2):
        row = formulas.derivative_row(c, lam, qx, qy, qz, *basis[b])
        J_c[:, b, :6] = np.array(row[:6]).T
        J_c[:, b, 6:] = row[6][:, None] * np.stack([np.ones_like(s), s, s * s], axis=1)
    J_c *= root[:, None, None]
    return r, J_c, -J_c[:, :, 3:6]


def gradient(problem, loss):
    """∇F along (ω, t, d) of each camera (C,9) and along each point (P,3)."""
    r, J_c, J_l = jacobian(problem, loss)
    g_c = np.zeros((problem.num_cameras, 9))
    g_l = np.zeros((problem.num_points, 3))
    np.add.at(g_c, problem.camera_index, np.einsum("kbx,kb->kx", J_c, r))
    np.add.at(g_l, problem.point_index, np.einsum("kbx,kb->kx", J_l, r))
    return g_c, g_l


def exponential(omega):
    """Rotation matrices exp(ω̂), (n,3,3), by Rodrigues' formula."""
    angle = np.linalg.norm(omega, axis=1)[:, None, None]
    x, y, z = omega.T
    o = np.zeros_like(x)
    hat = np.array([[o, -z, y], [z, o, -x], [-y, x, o]]).transpose(2, 0, 1)
    a = np.sinc(angle / np.pi)
    b = 0.5 * np.sinc(angle / (2 * np.pi)) ** 2
    return np.eye(3) + a * hat + b * hat @ hat


def retract(cameras, points, step_c, step_l):
    """x ⊕ δ: R ← exp(ω̂) R; t, d and l are added to."""
    new = cameras.copy()
    R = exponential(step_c[:, :3]) @ cameras[:, :9].reshape(-1, 3, 3)
    new[:, :9] = R.reshape(-1, 9)
    new[:, 9:] += step_c[:, 3:]
    return new, points + step_l


def project_rotation(matrices):
    """Nearest rotation to each 3×3 matrix, by SVD."""
    U, _, Vt = np.linalg.svd(matrices)
    U[:, :, 2] *= np.sign(np.linalg.det(U @ Vt))[:, None]
    return U @ Vt


def surrogate(problem, base, loss, theta, inter):
    """P_ij(c | base) and Q_ij(l | base) of each observation where `inter` is true."""
    k = np.flatnonzero(inter)
    c, l, ux, uy, weight = gather(problem, k)
    c0, l0, _, _, _ = gather(base, k)
    ex, ey, ez, lam, *_ = formulas.error(c0, l0, ux, uy)
    f, w, _ = formulas.penalty(loss.kind, loss.radius, weight, ex, ey, ez)
    a = f - 0.5 * w * (ex * ex + ey * ey + ez * ez)
    P = formulas.camera_majorizer(theta, w, lam, ex, ey, ez, c, c0, ux, uy) + theta * a
    Q = formulas.point_majorizer(theta, w, lam, ex, ey, ez, l, l0) + (1 - theta) * a
    return P, Q
