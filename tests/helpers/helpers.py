"""Small problems, and the paper's formulas written out once more, straight from its text.

Nothing here calls the package's formulas or kernels: rotations come from SciPy, sums are taken
over observations one array at a time, in extended precision where the machine has it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

import daba
from daba.backends.cpu.equations import Equations, Surrogate
from daba.backends.cpu.operations import CpuOperations
from daba.backends.cpu.threads import set_threads
from daba.backends.operations import Row
from daba.core.losses import LOSSES, Loss
from daba.core.options import Options
from daba.distributed.shard import Shard, State, make_shard
from daba.partition.partition import Partition, make_partition, partition_from_arrays
from daba.problem.problem import Floats, Problem, camera_records
from daba.solver.algorithm import Algorithm1
from daba.solver.make import cpu_solver

Array = NDArray[np.floating]
ALL_LOSSES = tuple(sorted(LOSSES))


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def random_rotations(random: np.random.Generator, n: int) -> Floats:
    return np.asarray(Rotation.random(n, rng=random).as_matrix())


def turned(cameras: Floats, omega: Floats) -> Floats:
    """Camera records with R ← exp(ω̂) R."""
    new = cameras.copy()
    R = Rotation.from_rotvec(omega).as_matrix() @ cameras[:, :9].reshape(-1, 3, 3)
    new[:, :9] = R.reshape(-1, 9)
    return new


def retracted(cameras: Floats, points: Floats, step_c: Floats, step_l: Floats) -> State:
    """x ⊕ δ: R ← exp(ω̂) R; t, d and l are added to."""
    new = turned(cameras, step_c[:, :3])
    new[:, 9:] += step_c[:, 3:]
    return State(new, points + step_l)


def random_problem(
    seed: int = 0,
    cameras: int = 6,
    points: int = 30,
    see: float = 0.6,
    noise: float = 0.01,
    edges: tuple[np.ndarray, ...] | None = None,
) -> Problem:
    """Cameras on a shell that look roughly at points around the origin; who sees what is drawn
    at random (every point at least twice) unless `edges` say it."""
    random = rng(seed)
    centers = random.normal(size=(cameras, 3))
    centers *= (6 + random.random((cameras, 1))) / np.linalg.norm(centers, axis=1, keepdims=True)
    l = random.normal(size=(points, 3))
    z = -centers / np.linalg.norm(centers, axis=1, keepdims=True)
    x = np.cross(z, random.normal(size=(cameras, 3)))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    R = np.stack([x, np.cross(z, x), z], axis=2)
    if edges is None:
        seen = random.random((cameras, points)) < see
        for column in seen.T:
            column[random.permutation(cameras)[:2]] = True
        edges = np.nonzero(seen)
    i, j = edges
    y = np.einsum("kxa,kx->ka", R[i], l[j] - centers[i])
    u = y[:, :2] / y[:, 2:] + noise * random.normal(size=(len(i), 2))
    d = np.array([1.0, 0.0, 0.0]) + 0.02 * random.normal(size=(cameras, 3))
    return Problem.from_arrays(
        R, centers, l + noise * random.normal(size=l.shape), i, j, 500.0 * u, 500.0, d
    )


def scattered(problem: Problem, seed: int, size: float) -> Problem:
    """The same observations with every variable moved at random."""
    random = rng(seed)
    step = size * random.normal(size=(problem.num_cameras, 9))
    x = retracted(
        problem.cameras, problem.points, step, size * random.normal(size=problem.points.shape)
    )
    return problem.with_estimate(*x)


def synthetic(
    scene: Any = "orbit", cameras: int = 12, points: int = 150, **more: Any
) -> daba.SceneOptions:
    return daba.SceneOptions(scene=scene, cameras=cameras, points=points, **more)


def random_partition(problem: Problem, devices: int, seed: int = 0) -> Partition:
    """Cameras and points dealt out at random: many inter observations."""
    random = rng(seed)
    camera = np.concatenate([np.arange(devices), random.integers(0, devices, problem.num_cameras)])
    camera = random.permutation(camera[: problem.num_cameras])
    return partition_from_arrays(problem, camera, random.integers(0, devices, problem.num_points))


def shard_of(problem: Problem, devices: int, seed: int = 0) -> Shard:
    return make_shard(problem, random_partition(problem, devices, seed))


def state_of(shard: Shard, problem: Problem) -> State:
    """A problem's estimate in the shard's order."""
    return State(
        np.ascontiguousarray(problem.cameras[shard.camera_order]),
        np.ascontiguousarray(problem.points[shard.point_order]),
    )


def make_solver(problem: Problem, **options: Any) -> Algorithm1:
    """A solver on one thread: for small problems on a busy machine waiting costs more."""
    set_threads(1)
    chosen = Options(**{"method": "daba", **options})
    devices = 1 if chosen.centralized else chosen.devices
    return cpu_solver(make_shard(problem, make_partition(problem, devices, chosen.seed)), chosen)


def operations_of(solver: Algorithm1) -> CpuOperations:
    assert isinstance(solver.operations, CpuOperations)
    return solver.operations


def equations_of(shard: Shard, options: Options) -> Equations:
    """The Gauss–Newton system of a shard, not linearized yet."""
    return operations_of(cpu_solver(shard, options)).equations


# The paper, straight from its text


def textbook_rho(loss: Loss, s: Array) -> tuple[Array, Array]:
    """ρ(s) and ρ'(s) as in the literature."""
    a2 = np.longdouble(loss.radius) ** 2
    x = np.asarray(s, np.longdouble) / a2
    if loss.name == "trivial":
        return a2 * x, np.ones_like(x)
    if loss.name == "huber":
        far = x > 1
        root = np.sqrt(np.maximum(x, 1))
        return a2 * np.where(far, 2 * root - 1, x), np.where(far, 1 / root, 1)
    if loss.name == "welsch":
        return -a2 * np.expm1(-x), np.exp(-x)
    if loss.name == "cauchy":
        return a2 * np.log1p(x), 1 / (1 + x)
    if loss.name == "geman-mcclure":
        return a2 * x / (1 + x), 1 / (1 + x) ** 2
    if loss.name == "soft-l1":
        return 2 * a2 * x / (np.sqrt(1 + x) + 1), 1 / np.sqrt(1 + x)
    raise ValueError(loss.name)


class Rays(NamedTuple):
    """Of each observation: camera, point, ray and error, in extended precision."""

    R: Array
    t: Array
    l: Array
    p: Array
    powers: Array
    """(1, s, s²)."""
    e: Array
    """In the camera's frame: (I − y yᵀ/|y|²) p with y = Rᵀ(l − t)."""
    weight: Array


def rays(problem: Problem) -> Rays:
    wide = np.longdouble
    c = problem.cameras.astype(wide)[problem.camera_index]
    R, t, d = c[:, :9].reshape(-1, 3, 3), c[:, 9:12], c[:, 12:]
    l = problem.points.astype(wide)[problem.point_index]
    u = problem.u.astype(wide)
    s = (u**2).sum(axis=1)
    powers = np.stack([np.ones_like(s), s, s**2], axis=1)
    p = np.column_stack([u, (d * powers).sum(axis=1)])
    y = np.einsum("kxa,kx->ka", R, l - t)
    e = p - y * ((y * p).sum(axis=1) / (y * y).sum(axis=1))[:, None]
    return Rays(R, t, l, p, powers, e, problem.weights.astype(wide))


def paper_penalties(problem: Problem, loss: Loss) -> Array:
    """F_ij = ½ ρ(ω² |e|²)."""
    r = rays(problem)
    return textbook_rho(loss, (r.weight * np.linalg.norm(r.e, axis=1)) ** 2)[0] / 2


class Majorizers(NamedTuple):
    """P_ij and Q_ij of each observation, with what their derivatives need."""

    P: Array
    Q: Array
    residual_c: Array
    """√(w/θ) (R p + λ t − g), so that P is half its square and a constant."""
    J_c: Array
    residual_l: Array
    """√(w/(1−θ)) (λ l − g)."""
    J_l: Array


def paper_majorizers(problem: Problem, base: Problem, loss: Loss, theta: float) -> Majorizers:
    """Prop. 1 with |x − y|² ≤ |x − g|²/θ + |y − g|²/(1−θ); the paper is θ = ½."""
    x, b = rays(problem), rays(base)
    square = (b.weight * np.linalg.norm(b.e, axis=1)) ** 2
    rho, slope = textbook_rho(loss, square)
    a = rho / 2 - slope * square / 2
    w = b.weight**2 * slope
    q = np.einsum("kxa,ka->kx", b.R, b.p)
    delta = b.l - b.t
    lam = ((delta * q).sum(axis=1) / (delta**2).sum(axis=1))[:, None]
    split = np.longdouble(theta)
    g = (1 - split) * (q + lam * b.t) + split * lam * b.l
    ray = np.einsum("kxa,ka->kx", x.R, x.p)
    root_c, root_l = np.sqrt(w / split)[:, None], np.sqrt(w / (1 - split))[:, None]
    r_c = root_c * (ray + lam * x.t - g)
    r_l = root_l * (lam * x.l - g)
    identity = np.eye(3, dtype=np.longdouble)
    J_c = np.empty((len(ray), 3, 9), np.longdouble)
    J_c[:, :, :3] = -hat(ray)
    J_c[:, :, 3:6] = lam[:, :, None] * identity
    J_c[:, :, 6:] = x.R[:, :, 2:] * x.powers[:, None, :]
    J_l = root_l[:, :, None] * lam[:, :, None] * identity
    return Majorizers(
        P=(r_c**2).sum(axis=1) / 2 + split * a,
        Q=(r_l**2).sum(axis=1) / 2 + (1 - split) * a,
        residual_c=r_c,
        J_c=root_c[:, :, None] * J_c,
        residual_l=r_l,
        J_l=J_l,
    )


def hat(v: Array) -> Array:
    """[v]ₓ of each row."""
    x, y, z = v.T
    o = np.zeros_like(x)
    return np.stack([o, -z, y, z, o, -x, -y, x, o], axis=1).reshape(-1, 3, 3)


def device_of_observations(problem: Problem, partition: Partition) -> tuple[np.ndarray, np.ndarray]:
    """Devices of each observation's camera and point."""
    return (
        partition.camera_device[problem.camera_index],
        partition.point_device[problem.point_index],
    )


def paper_surrogate(
    problem: Problem, base: Problem, partition: Partition, loss: Loss, theta: float, xi: float
) -> tuple[Array, Array]:
    """E^α(x | base) of each device by summing over observations: its intra F_ij, and the rest."""
    a, b = device_of_observations(problem, partition)
    intra = np.zeros(partition.devices, np.longdouble)
    rest = np.zeros(partition.devices, np.longdouble)
    inter = a != b
    np.add.at(intra, a[~inter], paper_penalties(problem, loss)[~inter])
    m = paper_majorizers(problem, base, loss, theta)
    np.add.at(rest, a[inter], m.P[inter])
    np.add.at(rest, b[inter], m.Q[inter])
    wide = np.longdouble
    move_c = ((problem.cameras.astype(wide) - base.cameras) ** 2).sum(axis=1)
    move_l = ((problem.points.astype(wide) - base.points) ** 2).sum(axis=1)
    np.add.at(rest, partition.camera_device, xi / 2 * move_c)
    np.add.at(rest, partition.point_device, xi / 2 * move_l)
    return intra, rest


class Dense(NamedTuple):
    """Gauss–Newton system of E = Σ E^α in the problem's own order: cameras (9 each), points."""

    H: Floats
    g: Floats
    device: np.ndarray
    """Device of each row."""


def dense_surrogate(
    problem: Problem, base: Problem, partition: Partition, loss: Loss, theta: float, xi: float
) -> Dense:
    """What the inter observations and ξ add."""
    C, P = problem.num_cameras, problem.num_points
    n = 9 * C + 3 * P
    H, g = np.zeros((n, n)), np.zeros(n)
    a, b = device_of_observations(problem, partition)
    m = paper_majorizers(problem, base, loss, theta)
    for k in np.flatnonzero(a != b):
        c = slice(9 * problem.camera_index[k], 9 * problem.camera_index[k] + 9)
        at = 9 * C + 3 * problem.point_index[k]
        l = slice(at, at + 3)
        H[c, c] += (m.J_c[k].T @ m.J_c[k]).astype(float)
        g[c] += (m.J_c[k].T @ m.residual_c[k]).astype(float)
        H[l, l] += (m.J_l[k].T @ m.J_l[k]).astype(float)
        g[l] += (m.J_l[k].T @ m.residual_l[k]).astype(float)
    for i in range(C):
        R, R0 = problem.rotations[i], base.rotations[i]
        for x in range(3):
            dR = np.asarray(hat(np.eye(3)[x : x + 1])[0], dtype=float) @ R
            g[9 * i + x] += xi * (dR * (R - R0)).sum()
            H[9 * i + x, 9 * i + x] += xi * (dR * dR).sum()
        rest = slice(9 * i + 3, 9 * i + 9)
        g[rest] += xi * (problem.cameras[i, 9:] - base.cameras[i, 9:])
        H[rest, rest] += xi * np.eye(6)
    g[9 * C :] += xi * (problem.points - base.points).ravel()
    H[9 * C :, 9 * C :] += xi * np.eye(3 * P)
    device = np.concatenate(
        [np.repeat(partition.camera_device, 9), np.repeat(partition.point_device, 3)]
    )
    return Dense(H, g, device)


def dense_system(
    problem: Problem, base: Problem, partition: Partition, loss: Loss, theta: float, xi: float
) -> Dense:
    """The whole system: intra observations from the reference's Jacobian, and the surrogate."""
    from daba.problem import reference

    dense = dense_surrogate(problem, base, partition, loss, theta, xi)
    r, J_c, J_l = reference.jacobian(problem, loss)
    C = problem.num_cameras
    a, b = device_of_observations(problem, partition)
    for k in np.flatnonzero(a == b):
        J = np.hstack([J_c[k], J_l[k]])
        at = 9 * C + 3 * problem.point_index[k]
        rows = np.r_[9 * problem.camera_index[k] : 9 * problem.camera_index[k] + 9, at : at + 3]
        dense.H[np.ix_(rows, rows)] += J.T @ J
        dense.g[rows] += J.T @ r[k]
    return dense


def in_problem_order(shard: Shard, by_camera: Floats, by_point: Floats) -> Floats:
    """One vector, cameras then points, from the shard's arrays."""
    C, P = len(shard.camera_order), len(shard.point_order)
    c, l = np.empty((C, 9)), np.empty((P, 3))
    c[shard.camera_order] = by_camera
    l[shard.point_order] = by_point
    return np.concatenate([c.ravel(), l.ravel()])


def similar(problem: Problem, Q: Floats, v: Floats, scale: float = 1.0) -> Problem:
    """The same problem after the similarity x ↦ scale · Q x + v."""
    cameras = camera_records(
        Q @ problem.rotations, scale * problem.centers @ Q.T + v, problem.intrinsics
    )
    return problem.with_estimate(cameras, np.ascontiguousarray(scale * problem.points @ Q.T + v))


class Stepped(NamedTuple):
    """A step as the package found it and as a dense solve finds it, in the problem's order."""

    found: Floats
    expected: Floats
    scale: Floats
    """√ of the damped diagonal: in these units the dense system is well conditioned."""
    decrease: Floats
    expected_decrease: Floats

    def check(self, rows: np.ndarray | slice = slice(None), tolerance: float = 1e-10) -> None:
        off = np.linalg.norm((self.scale * (self.found - self.expected))[rows])
        assert off <= tolerance * np.linalg.norm((self.scale * self.expected)[rows])


def dense_step(
    shard: Shard, partition: Partition, options: Options, x: Problem, base: Problem, radius: Floats
) -> Stepped:
    """(H + μ max(diag H, 1e-6)) δ = −g, by `Equations` and by NumPy."""
    surrogate = Surrogate(shard, options.loss, options.split, options.xi)
    surrogate.rebase(state_of(shard, base))
    equations, everyone = equations_of(shard, options), np.ones(partition.devices, bool)
    equations.assemble(state_of(shard, x), surrogate)
    equations.damp(radius, everyone)
    decrease, _ = equations.solve(everyone)
    found = in_problem_order(shard, equations.step_c, equations.step_l)
    dense = dense_system(x, base, partition, options.loss, options.split, options.xi)
    diagonal = dense.H.diagonal()
    damped = dense.H + np.diag(np.maximum(diagonal, 1e-6) / radius[dense.device])
    scale = np.sqrt(damped.diagonal())
    expected = -np.linalg.solve(damped / scale[:, None] / scale, dense.g / scale) / scale
    by_row = -expected * (dense.g + 0.5 * dense.H @ expected)
    return Stepped(
        found, expected, scale, decrease,
        np.asarray(np.bincount(dense.device, by_row, partition.devices), np.float64),
    )  # fmt: skip


# Runs

TIGHT: dict[str, Any] = {"pcg_forcing": 0.0, "pcg_residual": 1e-14, "pcg_iterations": 5000}
"""Conjugate gradients until nothing changes any more."""
EAGER: dict[str, Any] = {"restart_ratio": 1.0, "eta": 1.0, "eta_growth": 1.0}
"""The strictest restart: no step may end above F."""


def now(solver: Algorithm1) -> Problem:
    return solver.shard.to_problem(solver.estimate)


def check_iteration(solver: Algorithm1, first: float) -> int:
    """Iterate once and check Lemma 1 and what follows from it; returns the restarts."""
    loss = solver.options.loss
    level, F_before, eta = solver.row(Row.F_BAR), solver.row(Row.F), solver.row(Row.ETA)[0]
    solver.iterate()
    E, F, new_level = solver.row(Row.E), solver.row(Row.F), solver.row(Row.F_BAR)
    rounding = 1e-12 * np.abs(F).max() + 1e-15 * first
    objective = now(solver).objective(loss)
    # a: ΣF^α = F
    assert abs(F.sum() - objective) <= 1e-11 * objective + 1e-14 * first
    assert solver.objective == pytest.approx(objective, rel=1e-12)
    # b: ΣF̄^α = F̄, the average of F
    assert new_level.sum() == pytest.approx(
        (1 - eta) * level.sum() + eta * objective, rel=1e-11, abs=1e-14 * first
    )
    # c: F^α ≤ E^α; and the restart keeps E^α ≤ F̄^α, so that F̄^α never rises
    assert (E + rounding >= F).all()
    assert (level + rounding >= E).all()
    assert (new_level <= level + rounding).all()
    assert (new_level + rounding >= F).all()
    assert len(F) == len(F_before) == solver.shard.num_devices
    return solver.counts.restarts
