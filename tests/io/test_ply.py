"""PLY: what a viewer reads, in the world of the file the problem came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import plain_bal
import pytest

import daba.io
from daba.core.errors import DabaError
from daba.problem.problem import Problem

TYPES = {"double": "<f8", "uchar": "u1", "int": "<i4"}


def read(path: Path) -> dict[str, np.ndarray]:
    """Any binary PLY without lists."""
    header, body = path.read_bytes().split(b"end_header\n", 1)
    lines = [line.split() for line in header.decode("ascii").splitlines()]
    assert lines[0] == ["ply"]
    assert lines[1] == ["format", "binary_little_endian", "1.0"]
    elements: list[tuple[str, int, list[tuple[str, str]]]] = []
    for line in lines[2:]:
        if line[0] == "element":
            elements.append((line[1], int(line[2]), []))
        elif line[0] == "property":
            elements[-1][2].append((line[2], TYPES[line[1]]))
    found = {}
    for name, count, properties in elements:
        dtype = np.dtype(properties)
        found[name] = np.frombuffer(body, dtype, count)
        body = body[count * dtype.itemsize :]
    assert body == b""
    return found


def positions(vertex: np.ndarray) -> np.ndarray:
    return np.column_stack([vertex[axis] for axis in "xyz"])


@pytest.mark.parametrize("sign", [1, -1])
def test_points_and_cameras(sign: int, tmp_path: Path) -> None:
    problem = plain_bal.scene()
    if sign < 0:
        problem = replace(problem, info={"world_sign": -1})
    path = tmp_path / "a.ply"
    daba.io.save(problem, path)
    found = read(path)
    C, P = problem.num_cameras, problem.num_points
    xyz = positions(found["vertex"])
    np.testing.assert_array_equal(xyz[:P], sign * problem.points)
    corners = xyz[P : P + 5 * C].reshape(C, 5, 3)
    np.testing.assert_allclose(corners[:, 0], sign * problem.centers)
    # The pyramid opens towards what the camera sees.
    ahead = corners[:, 1:].mean(axis=1) - corners[:, 0]
    towards = sign * problem.points.mean(axis=0) - corners[:, 0]
    assert (np.einsum("cx,cx->c", ahead, towards) > 0).all()
    edge = found["edge"]
    assert len(edge) == 8 * C
    assert edge["vertex1"].min() == P
    assert max(edge["vertex1"].max(), edge["vertex2"].max()) == P + 5 * C - 1
    size = np.linalg.norm(np.ptp(xyz[:P], axis=0))
    assert 0.001 * size < np.linalg.norm(ahead, axis=1).max() < 0.2 * size


def test_a_bal_scene_is_not_mirrored(tmp_path: Path) -> None:
    daba.io.save(plain_bal.scene(), tmp_path / "a.txt")
    problem = daba.io.load(tmp_path / "a.txt", intrinsics="standard")
    daba.io.save(problem, tmp_path / "a.ply")
    xyz = positions(read(tmp_path / "a.ply")["vertex"])
    np.testing.assert_array_equal(xyz[: problem.num_points], plain_bal.read(tmp_path / "a.txt")[2])


def test_colours(tmp_path: Path) -> None:
    problem = plain_bal.scene()
    colours = np.random.default_rng(0).integers(0, 256, (problem.num_points, 3))
    daba.io.save(replace(problem, info={"colors": colours}), tmp_path / "a.ply")
    vertex = read(tmp_path / "a.ply")["vertex"][: problem.num_points]
    found = np.column_stack([vertex["red"], vertex["green"], vertex["blue"]])
    np.testing.assert_array_equal(found, colours)
    with pytest.raises(DabaError, match="colors"):
        daba.io.save(replace(problem, info={"colors": colours[1:]}), tmp_path / "a.ply")


def test_one_camera_and_one_point(tmp_path: Path) -> None:
    problem = Problem.from_arrays(
        np.eye(3)[None], np.zeros((1, 3)), [[0.0, 0, 5]], [0], [0], [[1.0, 2]], 500.0
    )
    daba.io.save(problem, tmp_path / "a.ply")
    assert np.isfinite(positions(read(tmp_path / "a.ply")["vertex"])).all()
