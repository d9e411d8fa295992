"""From who could see what to who does: exact numbers of points and observations."""

from __future__ import annotations

import warnings

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.problem.problem import Floats, Ints
from daba.tools.synthetic.layout import Scenery
from daba.tools.synthetic.optics import Lenses
from daba.tools.synthetic.options import SceneOptions
from daba.tools.synthetic.visibility import Views, ragged, views

CAMERA_LEAST = 10
"""Observations every camera should have, where the scene allows it."""


def observe(
    rng: np.random.Generator, options: SceneOptions, layout: Scenery, lenses: Lenses
) -> tuple[Floats, Ints, Ints]:
    """Points, and camera and point of each observation, sorted by point, then camera."""
    points, counts, cameras = _collect(rng, options, layout, lenses)
    available = int(counts.sum())
    wanted = round(options.mean_track * options.points)
    if wanted > available and options.observations is not None:
        warnings.warn(
            f"only {available} of the wanted {wanted} observations are possible in this "
            f"{options.scene} with {options.cameras} cameras and {options.points} points",
            DabaWarning,
            stacklevel=4,
        )
    wanted = min(wanted, available)
    point, slot = ragged(counts)
    point = point.astype(np.int32)
    lengths = track_lengths(rng, counts, wanted)
    chosen = slot < lengths[point]
    last = np.cumsum(counts, dtype=np.int64) - counts + lengths - 1
    _serve_cameras(chosen, point, last, cameras, options.cameras)
    # Points are numbered along the drive, as a reconstruction would have made them.
    first = cameras[np.cumsum(counts) - counts]
    order = np.argsort(first, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    key = np.sort(number[point[chosen]] * options.cameras + cameras[chosen])
    pair = np.divmod(key, options.cameras)
    return points[order], pair[1].astype(np.int32), pair[0].astype(np.int32)


def _collect(
    rng: np.random.Generator, options: SceneOptions, layout: Scenery, lenses: Lenses
) -> tuple[Floats, Ints, Ints]:
    """Draw points until there are enough that two cameras see; their ragged table of views."""
    parts: list[Views] = []
    have, share = 0, 0.7
    for _ in range(60):
        missing = options.points - have
        draw = int(1.05 * missing / max(share, 0.05)) + 100
        surface = layout.sample(rng, draw)
        got = list(views(rng, layout, lenses, surface, options.longest_track))
        found = sum(len(v.counts) for v in got)
        share = found / draw
        have += found
        parts += got
        if have >= options.points:
            break
    else:
        raise DabaError(
            f"after many tries only {have} of {options.points} points are seen by two of the "
            f"{options.cameras} cameras of this {options.scene}; use more cameras"
        )
    points = np.concatenate([v.surface.points for v in parts])
    counts = np.concatenate([v.counts for v in parts])
    cameras = np.concatenate([v.cameras for v in parts])
    if have > options.points:  # parts are sorted by place: drop from everywhere, not the end
        keep = np.zeros(have, bool)
        keep[rng.permutation(have)[: options.points]] = True
        points, cameras, counts = points[keep], cameras[np.repeat(keep, counts)], counts[keep]
    return points, counts, cameras


def track_lengths(rng: np.random.Generator, most: Ints, total: int) -> Ints:
    """Lengths from 2 to `most` that sum to `total`, distributed like 2 + a geometric number."""
    draws = rng.standard_exponential(len(most))

    def lengths(scale: float) -> Ints:
        return np.minimum(most, 2 + np.minimum(scale * draws, 1e6).astype(np.int32))

    low, high = 0.0, 1.0
    while lengths(high).sum() < total and high < 1e6:
        high *= 4
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if lengths(middle).sum() <= total else (low, middle)
    n = lengths(low)
    rest = total - int(n.sum())
    if rest > 0:
        n = n + rng.multivariate_hypergeometric(most - n, rest, method="marginals")
    return np.asarray(n, np.int32)


def _serve_cameras(
    chosen: np.ndarray, point: Ints, last: np.ndarray, cameras: Ints, count: int
) -> None:
    """Give every camera CAMERA_LEAST observations, where possible, by exchanges within tracks.

    A camera that lacks observations takes the place of the `last` (least good) camera of a track
    if that one has some to spare. Each track is changed at most once, longer ones first.
    """
    degree = np.bincount(cameras[chosen], minlength=count)
    more = np.flatnonzero(~chosen & (degree < CAMERA_LEAST)[cameras])
    first_slot = np.concatenate([[0], np.flatnonzero(np.diff(point)) + 1])
    length = last - first_slot + 1
    more = more[np.argsort(length[point[more]] <= 2, kind="stable")]
    while len(more):
        giver = cameras[last[point[more]]]
        useful = (degree[cameras[more]] < CAMERA_LEAST) & (degree[giver] > CAMERA_LEAST)
        more, giver = more[useful], giver[useful]
        now = np.arange(len(more))
        for once in (cameras[more], giver, point[more]):  # no one takes part twice in a round
            now = now[np.unique(once[now], return_index=True)[1]]
        chosen[more[now]] = True
        chosen[last[point[more[now]]]] = False
        degree[cameras[more[now]]] += 1
        degree[giver[now]] -= 1
        more = more[~np.isin(point[more], point[more[now]])]
