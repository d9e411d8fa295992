"""A grid of streets between blocks of houses; one car drives them all, so loops close.

Streets are the lines x = i·PITCH and y = j·PITCH. Each is a convex open space, a zone: whoever
stands in it sees along it and not through the blocks.
"""

from __future__ import annotations

import math

import numpy as np

from daba.core.types import frozen
from daba.problem.problem import Floats, Ints
from daba.tools.synthetic.facade import crown, facade, house_height
from daba.tools.synthetic.layout import Route, Scenery, Surface, drive, left_of, picture_spacing

PITCH = 20.0
"""Distance between parallel streets."""
HALF_WIDTH = 4.0
"""Half the width of a street, façade to façade."""
HOUSE = 4.0
"""Width of a house, metres."""
BAY = HOUSE / 3
"""Width of a bay of its façade."""
SIGHT = 55.0
"""Metres that a camera sees."""
SPACING = 4.0
"""Metres between pictures for tracks of mean length 5; longer tracks need denser pictures."""


@frozen
class Grid:
    """Streets x = 0, PITCH, …, (columns−1)·PITCH and y likewise."""

    columns: int
    rows: int

    def zones(self, xy: Floats, reach: float) -> Ints:
        """The street along y and the one along x that each place lies in, −1 for none;
        `reach` beyond the middle of the street still counts."""
        zone = np.full(xy.shape, -1, np.int32)
        for axis, (count, other) in enumerate(
            ((self.columns, self.rows), (self.rows, self.columns))
        ):
            line = np.rint(xy[:, axis] / PITCH)
            inside = (line >= 0) & (line < count) & (np.abs(xy[:, axis] - line * PITCH) <= reach)
            cross = xy[:, 1 - axis]
            inside &= (cross >= -reach) & (cross <= (other - 1) * PITCH + reach)
            zone[inside, axis] = line[inside] + axis * self.columns
        return zone


def layout(rng: np.random.Generator, cameras: int, mean_track: float) -> Scenery:
    spacing = picture_spacing(SPACING, cameras, mean_track)
    length = cameras * spacing
    grid = smallest_grid(length)
    streets = tour(grid, length)
    rotations, centers = drive(rng, streets.rounded(3.0), cameras)
    zones = grid.zones(centers[:, :2], HALF_WIDTH)

    def sample(rng: np.random.Generator, n: int) -> Surface:
        return surface(rng, grid, streets, n)

    return Scenery(rotations, centers, zones, streets.length / cameras, SIGHT, sample)


def smallest_grid(length: float) -> Grid:
    """The most nearly square grid whose tour is at least `length` long."""
    n = 2
    while tour_length(Grid(n, n)) < length:
        n += 1
    flatter = Grid(n, n - 1)
    return flatter if n > 2 and tour_length(flatter) >= length else Grid(n, n)


def tour_length(grid: Grid) -> float:
    corners = np.asarray(tour_corners(grid))
    return float(np.abs(np.diff(corners, axis=0)).sum())


def tour_corners(grid: Grid) -> list[tuple[float, float]]:
    """Corners of a drive along every street: all rows to and fro, then all columns."""
    right, top = (grid.columns - 1) * PITCH, (grid.rows - 1) * PITCH
    corners = []
    for j in range(grid.rows):
        ends = [(0.0, j * PITCH), (right, j * PITCH)]
        corners += ends if j % 2 == 0 else ends[::-1]
    east = corners[-1][0] > 0
    for i in range(grid.columns):
        x = right - i * PITCH if east else i * PITCH
        ends = [(x, top), (x, 0.0)]
        corners += ends if i % 2 == 0 else ends[::-1]
    return corners


def tour(grid: Grid, length: float) -> Route:
    """The tour tabulated, cut to `length` (a small city is one not all driven)."""
    corners = np.asarray(tour_corners(grid))
    s = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(corners, axis=0)).sum(axis=1))])
    end = min(s[-1], max(length, 20.0))
    steps = math.ceil(end / 0.5)
    at = np.linspace(0.0, end, steps + 1)
    table = np.column_stack([np.interp(at, s, corners[:, 0]), np.interp(at, s, corners[:, 1])])
    return Route(table, end / steps)


def surface(rng: np.random.Generator, grid: Grid, streets: Route, n: int) -> Surface:
    """Façades (3 of 4 points), road and tree crowns along the streets driven."""
    s = rng.uniform(0.0, streets.length + 0.4 * SIGHT, n)
    middle, direction = streets.at(s)
    middle += rng.uniform(-HALF_WIDTH, HALF_WIDTH, n)[:, None] * direction  # round the corners
    # Directions are axis-parallel but for the step across a corner.
    direction = np.where(np.abs(direction) > 0.8, np.sign(direction), 0.0)
    left = left_of(direction)
    side = rng.choice([-1.0, 1.0], n)[:, None]
    kind = rng.random(n)
    wall, lane = kind < 0.77, kind < 0.89

    behind = middle + side * (HALF_WIDTH + 1.0) * left  # a place inside the house
    house = np.floor(behind / HOUSE)
    along = np.einsum("nx,nx->n", middle, np.abs(direction))
    on_wall, up, recess = facade(rng, along, house_height(house[:, 0], house[:, 1]), HOUSE, BAY)
    wall_xy = (
        middle
        + (on_wall - along)[:, None] * np.abs(direction)
        + (side * left) * (HALF_WIDTH + recess)[:, None]
    )
    road_xy = middle + rng.uniform(-HALF_WIDTH, HALF_WIDTH, n)[:, None] * left
    stem = np.floor(along / 5.0) * 5.0 + 2.5
    tree = crown(rng, n)
    tree_xy = middle + (stem - along)[:, None] * np.abs(direction) + 3.0 * side * left

    xy = np.where(wall[:, None], wall_xy, np.where(lane[:, None], road_xy, tree_xy))
    zones = grid.zones(xy, HALF_WIDTH + 0.5)
    normals = np.column_stack([-side * left, np.zeros(n)])
    normals[~wall] = (0.0, 0.0, 1.0)
    normals[~lane] = tree[~lane]
    points = np.column_stack([xy, np.where(wall, up, 0.0)])
    points[~lane] += (0.0, 0.0, 3.2) + 0.8 * tree[~lane]
    return Surface(points, normals, zones).take(~_in_the_way(grid, xy, wall, lane, direction))


def _in_the_way(
    grid: Grid, xy: Floats, wall: np.ndarray, lane: np.ndarray, direction: Floats
) -> np.ndarray:
    """Walls and trees that would stand in a crossing, and everything at a diagonal step."""
    open_ground = grid.zones(xy, HALF_WIDTH - 0.4)
    across = np.where(direction[:, 0] == 0.0, open_ground[:, 1], open_ground[:, 0]) >= 0
    crossing = np.where(wall, (open_ground >= 0).any(axis=1), ~lane & across)
    diagonal = np.abs(direction).sum(axis=1) != 1.0
    return np.asarray(crossing | diagonal | (grid.zones(xy, HALF_WIDTH + 0.5) < 0).all(axis=1))
