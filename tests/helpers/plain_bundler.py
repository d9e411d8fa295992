"""Bundler files read and projected by other means: nothing here uses daba."""

from __future__ import annotations

import bz2
import gzip
import math
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Camera:
    model: list[float]
    """f, k1, k2"""
    R: list[list[float]]
    t: list[float]


@dataclass
class Point:
    X: list[float]
    colour: list[float]
    views: list[tuple[int, int, float, float]] = field(default_factory=list)
    """camera, key, x, y"""


def read(path: Path) -> tuple[list[Camera], list[Point]]:
    """One number after the other and no further."""
    data = path.read_bytes()
    if path.suffix == ".bz2":
        data = bz2.decompress(data)
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    first, _, rest = data.decode("ascii").partition("\n")
    assert first == "# Bundle file v0.3"
    token = iter(rest.split())

    def real(count: int) -> list[float]:
        return [float(next(token)) for _ in range(count)]

    C, P = int(next(token)), int(next(token))
    cameras = [Camera(real(3), [real(3) for _ in range(3)], real(3)) for _ in range(C)]
    points = []
    for _ in range(P):
        point = Point(real(3), real(3))
        for _ in range(int(next(token))):
            camera, key = int(next(token)), int(next(token))
            point.views.append((camera, key, *real(2)))  # type: ignore[arg-type]
        points.append(point)
    assert next(token, None) is None
    return cameras, points


def pixel_errors(cameras: list[Camera], points: list[Point]) -> list[float]:
    """Reprojection errors, view by view, as Bundler's manual defines the projection."""
    errors = []
    for point in points:
        for c, _, x, y in point.views:
            camera = cameras[c]
            P = [
                sum(a * b for a, b in zip(row, point.X, strict=True)) + t
                for row, t in zip(camera.R, camera.t, strict=True)
            ]
            px, py = -P[0] / P[2], -P[1] / P[2]
            n = px * px + py * py
            f, k1, k2 = camera.model
            scale = f * (1 + k1 * n + k2 * n * n)
            errors.append(math.hypot(scale * px - x, scale * py - y))
    return errors
