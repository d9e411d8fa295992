"""Small random problems with everything that is allowed: points and cameras without observations,
observations given twice, in any order; and comparing problems and folders bit for bit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from daba.io.bal import rotation_matrices
from daba.problem.problem import Problem, camera_records

ARRAYS = ("cameras", "points", "camera_index", "point_index", "u", "weights", "focal")


def odd_problem(cameras: int, points: int, observations: int, seed: int) -> Problem:
    random = np.random.default_rng(seed)
    d = [1.0, 0.0, 0.0] + 0.01 * random.normal(size=(cameras, 3))
    R = rotation_matrices(random.normal(size=(cameras, 3)))
    return Problem(
        cameras=camera_records(R, random.normal(size=(cameras, 3)), d),
        points=10 + random.normal(size=(points, 3)),
        camera_index=random.integers(0, cameras, observations).astype(np.int32),
        point_index=random.integers(0, points, observations).astype(np.int32),
        u=random.normal(size=(observations, 2)),
        weights=1 + random.random(observations),
        focal=500 + random.random(cameras),
        name=f"odd {seed}",
        info={
            "colors": random.integers(0, 256, (points, 3)).astype(np.uint8),
            "a/b": np.array(3.5),
            "fit": {"rms_px": 0.1, "names": ["ä"]},
        },
    ).validated()


@st.composite
def odd_problems(draw: st.DrawFn) -> tuple[Problem, int]:
    """A problem, and a number of devices that suits it."""
    cameras = draw(st.integers(1, 7))
    size = st.integers(1, 12), st.integers(1, 60), st.integers(0, 1000)
    return odd_problem(cameras, *map(draw, size)), draw(st.integers(1, cameras))


def mirrored(problem: Problem, which: Iterable[int]) -> Problem:
    """Some points on the other side of the first camera that sees each of them: its ray is a line,
    so that its own error stays what it was."""
    points = problem.points.copy()
    for j in which:
        camera = problem.camera_index[problem.point_index == j][0]
        points[j] = 2 * problem.centers[camera] - points[j]
    return problem.with_estimate(problem.cameras, points)


def assert_same(a: Problem, b: Problem) -> None:
    for what in ARRAYS:
        one, two = getattr(a, what), getattr(b, what)
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        assert one.tobytes() == two.tobytes(), what
    assert a.name == b.name
    assert set(a.info) == set(b.info)
    for key, value in a.info.items():
        np.testing.assert_array_equal(value, b.info[key])


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
