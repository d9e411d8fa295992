"""Façades, ground and trees: where points sit along a road.

All take a local frame: `along` (metres down the street), so that windows line up.
"""

from __future__ import annotations

import numpy as np

from daba.problem.problem import Floats

FLOOR = 3.0
"""Height of one floor, metres."""
HEIGHTS = np.array([3, 5, 4, 7, 4, 6, 3, 5, 8, 4, 6, 5, 3, 7, 5, 4]) * FLOOR + 0.8
"""Heights of houses, picked by a hash of the house's place."""


def house_height(a: np.ndarray, b: np.ndarray) -> Floats:
    """Height of house (a, b): the same wherever it is looked at from."""
    mixed = (a.astype(np.int64) * 73856093) ^ (b.astype(np.int64) * 19349663)
    return np.asarray(HEIGHTS[(mixed >> 3) % len(HEIGHTS)])


def facade(
    rng: np.random.Generator, along: Floats, height: Floats, house: float, bay: float
) -> tuple[Floats, Floats, Floats]:
    """Move random places `along` a façade onto its structure; returns (along, up, recess).

    Corners and edges are what a feature detector finds, so most points lie on window frames,
    some on the eaves and on the edges between houses, the rest anywhere on the wall. `house` is
    the width of a house, `bay` of a column of windows; `recess` is how deep a point lies.
    """
    n = len(along)
    up = rng.random(n) * height
    recess = 0.02 * rng.standard_normal(n)
    kind = rng.random(n)
    window = kind < 0.72
    column, floor = np.floor(along / bay), np.floor(np.minimum(up, height - 0.9) / FLOOR)
    side, where = rng.integers(0, 4, n), rng.random(n) - 0.5
    across = np.where(side < 2, where, side - 2.5) * (0.5 * bay)
    upward = np.where(side < 2, side - 0.5, where) * 1.6
    jitter = 0.02 * rng.standard_normal((2, n))
    along = np.where(window, (column + 0.5) * bay + across + jitter[0], along)
    up = np.where(window, floor * FLOOR + 1.7 + upward + jitter[1], up)
    recess = np.where(window, recess + 0.15, recess)
    eaves = (kind >= 0.72) & (kind < 0.82)
    up = np.where(eaves, height + jitter[1], up)
    recess = np.where(eaves, recess - 0.3 * rng.random(n), recess)
    edge = (kind >= 0.82) & (kind < 0.88)
    along = np.where(edge, (np.floor(along / house) + 0.01) * house + np.abs(jitter[0]), along)
    return along, np.maximum(up, 0.05), recess


def crown(rng: np.random.Generator, n: int) -> Floats:
    """Directions from a tree's middle to points on its crown."""
    v = rng.standard_normal((n, 3))
    return np.asarray(v / np.linalg.norm(v, axis=1, keepdims=True))
