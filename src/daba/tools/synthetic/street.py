"""One winding street with houses on both sides: a long chain, every view is local."""

from __future__ import annotations

import numpy as np

from daba.tools.synthetic.facade import crown, facade, house_height
from daba.tools.synthetic.layout import Route, Scenery, Surface, drive, left_of, picture_spacing

HALF_WIDTH = 6.0
"""Half the width of the street, metres."""
SIGHT = 55.0
"""Metres that a camera sees."""
SPACING = 3.0
"""Metres between pictures for tracks of mean length 5; longer tracks need denser pictures."""
HOUSE = 9.0
"""Width of a house, metres."""
BAY = 2.25
"""Width of a bay of its façade."""
TREES = 14.0
"""Metres from one tree to the next."""


def layout(rng: np.random.Generator, cameras: int, mean_track: float) -> Scenery:
    spacing = picture_spacing(SPACING, cameras, mean_track)
    route = winding(rng, max(20.0, cameras * spacing))
    rotations, centers = drive(rng, route, cameras)
    zones = np.tile(np.array([0, -1], np.int32), (cameras, 1))

    def sample(rng: np.random.Generator, n: int) -> Surface:
        return surface(rng, route, n)

    return Scenery(rotations, centers, zones, route.length / cameras, SIGHT, sample)


def winding(rng: np.random.Generator, length: float) -> Route:
    """A road whose heading swings about +x, so that it never meets itself."""
    step = 0.5
    s = np.arange(0.0, length + step, step)
    waves = ((0.35, 260.0), (0.25, 97.0), (0.5, 1400.0))
    heading = sum(
        (a * np.sin(2 * np.pi * s / w + rng.uniform(0, 2 * np.pi)) for a, w in waves),
        np.zeros_like(s),
    )
    moves = step * np.column_stack([np.cos(heading), np.sin(heading)])
    return Route(np.vstack([np.zeros((1, 2)), np.cumsum(moves, axis=0)]), step)


def surface(rng: np.random.Generator, route: Route, n: int) -> Surface:
    """Façades (3 of 4 points), road and tree crowns along the route."""
    s = rng.uniform(-2.0, route.length + 0.4 * SIGHT, n)
    side = rng.choice([-1.0, 1.0], n)
    kind = rng.random(n)
    house = np.floor(s / HOUSE)
    on_wall, up, recess = facade(rng, s, house_height(house, side), HOUSE, BAY)
    front = 1.0 + 0.7 * np.sin(2.4 * house + side)  # houses do not stand in line
    wall, lane = kind < 0.75, kind < 0.87
    s = np.where(wall, on_wall, s)
    offset = np.where(
        wall, side * (HALF_WIDTH + front + recess), HALF_WIDTH * rng.uniform(-1, 1, n)
    )
    tree = crown(rng, n)
    s = np.where(lane, s, (np.floor(s / TREES) + 0.5) * TREES)
    position, direction = route.at(s)
    left = left_of(direction)
    offset = np.where(lane, offset, side * (HALF_WIDTH - 0.7))
    points = np.column_stack([position + offset[:, None] * left, np.where(wall, up, 0.0)])
    normals = np.column_stack([-side[:, None] * left, np.zeros(n)])
    normals[~wall] = (0.0, 0.0, 1.0)
    normals[~lane] = tree[~lane]
    points[~lane] += (0.0, 0.0, 3.4) + 1.1 * tree[~lane]
    zones = np.tile(np.array([0, -1], np.int32), (n, 1))
    return Surface(points, normals, zones)
