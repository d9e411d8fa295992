"""The quadratic in d that the observations of a camera make, its pose and points held.

e = P q with P = I − δδᵀ/|δ|² and q = R (u, φ·d), φ = (1, s, s²), is linear in d: ∂e/∂d = n φᵀ with
n = P R₃. So Σ ½ w |e|² is a quadratic; with w = ω²ρ' at the present d it lies, but for a constant,
above Σ F_ij and touches it there.
"""

from numba import prange

from daba.backends.cpu.kernels.binding import formulas, inline, kernel
from daba.core.types import Int64, LossParameters, Matrix, Observations, State

error = formulas.error
penalty = formulas.penalty


@inline
def add_intrinsics(obs, c, points, i, loss, row):
    """Add Σ w|n|² φφᵀ (upper triangle, 6), Σ w (n·e) φ (3) and Σ F_ij to `row`."""
    for m in range(obs.camera_ptr[i], obs.camera_ptr[i + 1]):
        k = obs.camera_obs[m]
        ex, ey, ez, _, dx, dy, dz, _, _, _, s = error(
            c, points[obs.point[k]], obs.u[k, 0], obs.u[k, 1]
        )
        f, w, _ = penalty(loss.kind, loss.radius, obs.weight[k], ex, ey, ez)
        along = c[2] * dx + c[5] * dy + c[8] * dz
        H = w * max(0.0, 1.0 - along * along / (dx * dx + dy * dy + dz * dz))
        g = w * (c[2] * ex + c[5] * ey + c[8] * ez)
        s2 = s * s
        row[0] += H
        row[1] += H * s
        row[2] += H * s2
        row[3] += H * s2
        row[4] += H * s2 * s
        row[5] += H * s2 * s2
        row[6] += g
        row[7] += g * s
        row[8] += g * s2
        row[9] += f


@kernel
def intrinsics_systems(
    intra: Observations,
    inter: Observations,
    x: State,
    chosen: Int64,
    loss: LossParameters,
    out: Matrix,
):
    """Matrix, gradient and value of each chosen camera, over all its observations, (n, 10)."""
    for n in prange(len(chosen)):
        i = chosen[n]
        for a in range(10):
            out[n, a] = 0.0
        add_intrinsics(intra, x.cameras[i], x.points, i, loss, out[n])
        add_intrinsics(inter, x.cameras[i], x.points, i, loss, out[n])
