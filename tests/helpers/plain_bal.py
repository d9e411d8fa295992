"""What the tests of `daba.io` share: a small scene, and BAL read and projected by other means.

Nothing in the second half uses daba: it is the independent reader whose results must agree.
"""

from __future__ import annotations

import bz2
import gzip
import math
from pathlib import Path

import numpy as np

from daba.problem.problem import Problem


def scene(seed: int = 0, cameras: int = 6, points: int = 60, noise: float = 0.5) -> Problem:
    """Cameras around a cloud of points, distorted and noisy, as the paper's model has them."""
    rng = np.random.default_rng(seed)
    cam = np.repeat(np.arange(cameras), points)
    pt = np.tile(np.arange(points), cameras)
    order = rng.permutation(len(cam))[: int(0.8 * len(cam))]  # neither sorted nor complete
    cam, pt = cam[order], pt[order]
    l = rng.uniform(-1, 1, (points, 3))
    t = rng.normal(size=(cameras, 3))
    t *= 4 / np.linalg.norm(t, axis=1, keepdims=True)
    z = -t / 4
    x = np.cross(rng.normal(size=(cameras, 3)), z)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    R = np.stack([x, np.cross(z, x), z], axis=2)
    f = rng.uniform(500, 900, cameras)
    d = np.column_stack(
        [
            rng.uniform(0.95, 1.05, cameras),
            rng.uniform(-0.2, 0.2, cameras),
            rng.uniform(-0.1, 0.1, cameras),
        ]
    )
    Y = np.einsum("kji,kj->ki", R[cam], l[pt] - t[cam])
    u = Y[:, :2] / Y[:, 2:]
    for _ in range(50):  # u = z(|u|²) Y.xy / Y.z
        s = np.einsum("kx,kx->k", u, u)[:, None]
        u = (d[cam, :1] + d[cam, 1:2] * s + d[cam, 2:] * s**2) * Y[:, :2] / Y[:, 2:]
    pixels = f[cam, None] * u + rng.normal(0, noise, (len(cam), 2))
    return Problem.from_arrays(R, t, l, cam, pt, pixels, f, d, name="scene")


def objective(problem: Problem) -> float:
    """F with the trivial loss, from the paper's formula."""
    d = problem.intrinsics[problem.camera_index]
    s = (problem.u**2).sum(axis=1)
    p = np.column_stack([problem.u, d[:, 0] + d[:, 1] * s + d[:, 2] * s**2])
    q = np.einsum("kij,kj->ki", problem.rotations[problem.camera_index], p)
    δ = problem.points[problem.point_index] - problem.centers[problem.camera_index]
    e = q - ((q * δ).sum(axis=1) / (δ * δ).sum(axis=1))[:, None] * δ
    return float(0.5 * (problem.weights**2 * (e**2).sum(axis=1)).sum())


Bal = tuple[list[tuple[int, int, float, float]], list[list[float]], list[list[float]]]


def read(path: Path) -> Bal:
    """Observations, cameras and points, one number after the other and no further."""
    data = path.read_bytes()
    if path.suffix == ".bz2":
        data = bz2.decompress(data)
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    token = iter(data.decode("ascii").split())
    C, P, K = (int(next(token)) for _ in range(3))
    observations = [
        (int(next(token)), int(next(token)), float(next(token)), float(next(token)))
        for _ in range(K)
    ]
    cameras = [[float(next(token)) for _ in range(9)] for _ in range(C)]
    points = [[float(next(token)) for _ in range(3)] for _ in range(P)]
    return observations, cameras, points


def pixel_errors(bal: Bal) -> np.ndarray:
    """Reprojection errors by BAL's own definition, in plain Python."""
    observations, cameras, points = bal
    errors = []
    for c, j, x, y in observations:
        r, t, (f, k1, k2) = cameras[c][:3], cameras[c][3:6], cameras[c][6:]
        P = [a + b for a, b in zip(_rotate(r, points[j]), t, strict=True)]
        px, py = -P[0] / P[2], -P[1] / P[2]
        n = px * px + py * py
        scale = f * (1 + k1 * n + k2 * n * n)
        errors.append(math.hypot(scale * px - x, scale * py - y))
    return np.array(errors)


def _rotate(r: list[float], x: list[float]) -> list[float]:
    """Rodrigues' rotation of a point by an angle-axis vector."""
    θ = math.sqrt(sum(a * a for a in r))
    if θ == 0:
        return x
    k = [a / θ for a in r]
    cross = [k[1] * x[2] - k[2] * x[1], k[2] * x[0] - k[0] * x[2], k[0] * x[1] - k[1] * x[0]]
    dot = sum(a * b for a, b in zip(k, x, strict=True))
    return [
        x[i] * math.cos(θ) + cross[i] * math.sin(θ) + k[i] * dot * (1 - math.cos(θ))
        for i in range(3)
    ]
