"""PLY for viewers: the points and a small pyramid for each camera.

Binary, little endian. Vertices are the points (vertex j is point j), then five corners per
camera, joined by `edge` elements, then dots along those edges. The dots are for viewers that
draw no edges; faces would make some viewers hide the points.
"""

from __future__ import annotations

import numpy as np

from daba.core.errors import DabaError
from daba.io.files import PathLike, open_output
from daba.problem.problem import Floats, Ints, Problem

_POINT_COLOUR = (190, 190, 190)
_CAMERA_COLOUR = (230, 60, 40)
_DOTS = 8  # between the two ends of an edge

_VERTEX = np.dtype([("xyz", "<f8", 3), ("rgb", "u1", 3)])  # doubles: maps have large coordinates
_EDGE = np.dtype([("ends", "<i4", 2), ("rgb", "u1", 3)])
EDGES = np.array([[0, 1], [0, 2], [0, 3], [0, 4], [1, 2], [2, 3], [3, 4], [4, 1]])
"""The edges between the centre (0) and the corners of the image (1 to 4)."""


def save(problem: Problem, path: PathLike) -> None:
    """Write points and cameras, in the world of the file they came from.

    `problem.info["colors"]`, (P,3) of 0 to 255, colours the points. `info["world_sign"]` is −1
    where the problem was read from a format whose world is ours reflected through the origin.
    """
    sign = float(problem.info.get("world_sign", 1))
    corners = sign * pyramids(problem)
    a, b = corners[:, EDGES[:, 0]], corners[:, EDGES[:, 1]]
    along = np.linspace(0, 1, _DOTS + 2)[1:-1, None, None, None]
    dots = (1 - along) * a + along * b

    P, C = problem.num_points, problem.num_cameras
    points = np.empty(P, _VERTEX)
    points["xyz"] = sign * problem.points
    points["rgb"] = _colours(problem)
    cameras = np.empty(corners.size // 3 + dots.size // 3, _VERTEX)
    cameras["xyz"] = np.concatenate([corners.reshape(-1, 3), dots.reshape(-1, 3)])
    cameras["rgb"] = _CAMERA_COLOUR
    edges = np.empty(C * len(EDGES), _EDGE)
    edges["ends"] = (P + 5 * np.arange(C)[:, None, None] + EDGES).reshape(-1, 2)
    edges["rgb"] = _CAMERA_COLOUR

    colour = "".join(f"property uchar {channel}\n" for channel in ("red", "green", "blue"))
    header = (
        "ply\nformat binary_little_endian 1.0\ncomment written by daba\n"
        f"element vertex {len(points) + len(cameras)}\n"
        f"property double x\nproperty double y\nproperty double z\n{colour}"
        f"element edge {len(edges)}\nproperty int vertex1\nproperty int vertex2\n{colour}"
        "end_header\n"
    )
    with open_output(path) as out:
        out.write(header.encode("ascii"))
        for array in (points, cameras, edges):
            out.write(array.view(np.uint8).data)


def pyramids(problem: Problem) -> Floats:
    """Centre and four image corners of each camera in the world, (C,5,3).

    The opening is that of the camera's own observations.
    """
    wide = openings(problem.num_cameras, problem.camera_index, problem.u)
    size = pyramid_size(problem.centers, problem.points)
    return place_pyramids(problem.rotations, problem.centers, wide, size)


def openings(cameras: int, camera_index: Ints, u: Floats) -> Floats:
    """Half width and half height of each camera's image at distance 1, (C,2)."""
    wide = np.zeros((cameras, 2))
    np.maximum.at(wide, camera_index, np.abs(u))
    return np.clip(wide, 0.1, 1.5)


def place_pyramids(rotations: Floats, centers: Floats, wide: Floats, size: float) -> Floats:
    """Centre and four image corners of cameras, (C,5,3); `size` is the depth of a pyramid."""
    corner = np.array([[0, 0], [1, 1], [-1, 1], [-1, -1], [1, -1]])
    x = np.empty((len(centers), 5, 3))
    x[:, :, :2] = corner * wide[:, None, :]
    x[:, :, 2] = [0, 1, 1, 1, 1]
    x *= size
    return np.asarray(centers[:, None] + np.einsum("cij,cnj->cni", rotations, x))


def pyramid_size(centers: Floats, points: Floats) -> float:
    """Depth of a pyramid: a part of the usual distance between neighbouring cameras, but
    neither lost in the scene nor filling it."""
    some = points[:: max(1, len(points) // 100_000)]
    low, high = np.percentile(np.vstack([centers, some]), [5, 95], axis=0)
    extent = float(np.linalg.norm(high - low)) or 1.0
    size = 0.02 * extent
    if len(centers) > 1:
        few = np.arange(0, len(centers), max(1, len(centers) // 300))
        square = ((centers[few, None] - centers) ** 2).sum(axis=2)
        square[np.arange(len(few)), few] = np.inf  # itself
        size = 0.5 * float(np.median(np.sqrt(square.min(axis=1))))
    return float(np.clip(size, 0.002 * extent, 0.05 * extent))


def _colours(problem: Problem) -> np.ndarray:
    colours = problem.info.get("colors")
    if colours is None:
        return np.array(_POINT_COLOUR, np.uint8)
    colours = np.asarray(colours)
    if colours.shape != (problem.num_points, 3):
        raise DabaError(
            f"info['colors'] must have shape ({problem.num_points}, 3), not {colours.shape}"
        )
    return np.clip(colours, 0, 255).astype(np.uint8)
