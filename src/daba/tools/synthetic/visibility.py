"""Who sees what: points of a surface against cameras of a layout.

Points are handled in cells of a few metres. Each cell asks a k-d tree once for the cameras
that could see any of it; each point then tests only those.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from daba.core.types import frozen
from daba.problem.problem import Ints
from daba.tools.synthetic.layout import Scenery, Surface
from daba.tools.synthetic.optics import FOCAL, HALF_IMAGE, Lenses, image_points

CELL = 4.0
CHUNK = 1 << 14
"""Points handled at a time; bounds the memory."""
GRAZING = 0.1
"""Least cosine between a surface's normal and the direction to a camera that sees it."""
PARALLAX = np.radians(1.5)
"""Least angle between the two best views of a point; less leaves its depth unknown."""
CONE = float(np.cos(np.arctan(1.1 * np.linalg.norm(HALF_IMAGE) / FOCAL)))


@frozen
class Views:
    """Cameras that see each point, best first: rows of a ragged table."""

    surface: Surface
    counts: Ints
    """(n,) length of each row, at least 2."""
    cameras: Ints
    """All rows, one after the other."""


def views(
    rng: np.random.Generator, layout: Scenery, lenses: Lenses, surface: Surface, longest: int
) -> Iterator[Views]:
    """Views of all points that at least two cameras see well; at most `longest` per point."""
    from scipy.spatial import cKDTree

    key = _cells(surface)
    order = np.argsort(key, kind="stable")
    tree = cKDTree(layout.centers) if layout.candidates == "near" else None
    for start in range(0, len(order), CHUNK):
        rows = order[start : start + CHUNK]
        part = surface.take(rows)
        if tree is None:
            point, camera = _spread(rng, layout, part, 3 * longest // 2)
        else:
            point, camera = _near(layout, tree, part, key[rows], 8 * longest)
        yield _best(rng, layout, part, *_seen(layout, lenses, part, point, camera), longest)


def mean_views(rng: np.random.Generator, layout: Scenery, lenses: Lenses, longest: int) -> float:
    """About how many cameras see a point of this layout, from a small sample."""
    found = list(views(rng, layout, lenses, layout.sample(rng, 3000), longest))
    counts = np.concatenate([v.counts for v in found])
    return float(counts.mean()) if len(counts) else 0.0


def _cells(surface: Surface) -> np.ndarray:
    """A number for the cell and the zones of each point."""
    cell = np.floor(surface.points / CELL).astype(np.int64)
    parts = np.column_stack([cell, surface.zones])
    parts -= parts.min(axis=0)
    key = np.zeros(len(parts), np.int64)
    for column in parts.T:
        key = key * (column.max() + 1) + column
    return key


def _near(
    layout: Scenery, tree: object, part: Surface, key: np.ndarray, most: int
) -> tuple[Ints, Ints]:
    """Pairs (point, camera) whose camera may see the point's cell. `key` is sorted."""
    _, first, cell = np.unique(key, return_index=True, return_inverse=True)
    center = (np.floor(part.points[first] / CELL) + 0.5) * CELL
    radius = CELL * np.sqrt(3) / 2
    most = min(most, len(layout.centers))
    _, found = tree.query(  # type: ignore[attr-defined]
        center, k=np.arange(1, most + 1), distance_upper_bound=layout.sight + radius
    )
    row, slot = np.nonzero(found < len(layout.centers))
    camera = found[row, slot]
    shared = (layout.zones[camera] == part.zones[first][row]) & (layout.zones[camera] >= 0)
    keep = shared.any(axis=1)
    row, camera = row[keep], camera[keep]
    delta = center[row] - layout.centers[camera]
    ahead = np.einsum("kx,kx->k", delta, layout.rotations[camera, :, 2])
    keep = ahead >= CONE * np.linalg.norm(delta, axis=1) - (1 + CONE) * radius
    row, camera = row[keep], camera[keep]
    counts = np.bincount(row, minlength=len(first))
    starts = np.cumsum(counts) - counts
    point, slot = ragged(counts[cell])
    return point.astype(np.int32), camera[starts[cell][point] + slot].astype(np.int32)


def _spread(
    rng: np.random.Generator, layout: Scenery, part: Surface, most: int
) -> tuple[Ints, Ints]:
    """Pairs of each point with cameras taken evenly from all of them."""
    n, C = len(part.points), len(layout.centers)
    most = min(most, C)
    steps = (np.arange(most) * C) // most
    camera = (rng.integers(0, C, n)[:, None] + steps) % C
    point = np.repeat(np.arange(n, dtype=np.int32), most)
    return point, camera.astype(np.int32).ravel()


def _seen(
    layout: Scenery, lenses: Lenses, part: Surface, point: Ints, camera: Ints
) -> tuple[Ints, Ints]:
    """The pairs in which the point is in sight, faces the camera and lies in the picture."""
    delta = part.points[point] - layout.centers[camera]
    distance = np.sqrt(np.einsum("kx,kx->k", delta, delta))
    facing = -np.einsum("kx,kx->k", delta, part.normals[point])
    keep = np.flatnonzero((distance < layout.sight) & (facing > GRAZING * distance))
    point, camera, delta, distance = point[keep], camera[keep], delta[keep], distance[keep]
    y = np.einsum("kx,kxy->ky", delta, layout.rotations[camera])
    keep = np.flatnonzero(y[:, 2] > CONE * distance)
    point, camera, y = point[keep], camera[keep], y[keep]
    pixels = lenses.focal[camera, None] * image_points(y, lenses.intrinsics[camera])
    inside = (np.abs(pixels) < HALF_IMAGE).all(axis=1)
    return point[inside], camera[inside]


def _best(
    rng: np.random.Generator,
    layout: Scenery,
    part: Surface,
    point: Ints,
    camera: Ints,
    longest: int,
) -> Views:
    """Sort each point's cameras, near ones first but not strictly, and drop poor points."""
    delta = part.points[point] - layout.centers[camera]
    distance = np.sqrt(np.einsum("kx,kx->k", delta, delta))
    score = distance * np.exp(0.25 * rng.standard_normal(len(point)))
    order = np.argsort(point + 0.999 * score / score.max(initial=1.0), kind="stable")
    camera = camera[order]
    direction = delta[order] / distance[order, None]
    counts = np.bincount(point, minlength=len(part.points))
    row, slot = ragged(counts)
    starts = np.cumsum(counts) - counts
    cosine = np.einsum("kx,kx->k", direction, direction[starts[row]])
    wide = np.where(cosine < np.cos(PARALLAX), slot, np.iinfo(np.int64).max)
    second = np.full(len(counts), np.iinfo(np.int64).max)
    some = counts > 0
    second[some] = np.minimum.reduceat(wide, starts[some]) if some.any() else 0
    good = second < longest
    a, b = starts[good] + 1, starts[good] + second[good]
    camera[a], camera[b] = camera[b], camera[a]  # the second view is one with a base line
    keep = good[row] & (slot < longest)
    return Views(part.take(good), np.minimum(counts[good], longest).astype(np.int32), camera[keep])


def ragged(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of every entry of a ragged table."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
