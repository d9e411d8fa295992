"""A store whose checksums match and whose content makes no sense is refused by all who read it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run
from odd_problems import odd_problem
from resealing import reseal

from daba.core.errors import DabaError
from daba.io.store import writing
from daba.io.store.store import Store
from daba.problem.priors import Priors, Targets
from daba.problem.problem import Problem

Capsys = pytest.CaptureFixture[str]
PROBLEM = odd_problem(8, 40, 400, 3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    writing.save(PROBLEM, tmp_path / "a.daba", 3)
    return tmp_path / "a.daba"


def put(at: Any, value: float) -> Callable[[np.ndarray], None]:
    def change(array: np.ndarray) -> None:
        array[at] = value

    return change


def swap(array: np.ndarray) -> None:
    """The first two rows that differ, exchanged."""
    k = int(np.flatnonzero(array[1:] != array[:-1])[0])
    array[[k, k + 1]] = array[[k + 1, k]]


WRONG: list[tuple[str, Callable[[np.ndarray], None], str]] = [
    ("intra-point", put(10, 2147483647), "intra-point.npy is damaged: entry 10 is 2147483647"),
    ("intra-camera", put(0, -1), "intra-camera.npy is damaged: entry 0 is -1"),
    ("inter-point", put(0, 39), "inter-point.npy is damaged: entry 0 is 39"),
    ("inter-camera", put(1, 0), "inter-camera.npy is damaged: entry 1 is 0, which is of the dev"),
    ("outer-camera", put(0, 7), "outer-camera.npy is damaged: entry 0 is 7"),
    ("outer-point", put(2, 40), "outer-point.npy is damaged: entry 2 is 40"),
    ("intra-id", put(0, 400), "intra-id.npy is damaged: entry 0 is 400"),
    ("intra-weight", put(3, -5), "observation 3: weight must be positive, not -5.0"),
    ("outer-weight", put(0, np.nan), "weight of observation 0: NaN or infinite value"),
    ("inter-u", put((0, 1), np.inf), "observation 0: NaN or infinite value"),
    ("cameras", put((1, 3), 2.0), "camera 1: its rotation matrix is not a rotation"),
    ("points", put((0, 0), np.nan), "point 0: NaN or infinite value"),
    ("points", put((0, 0), -1e300), "point 0: a value beyond 1e+50"),
    ("focal", put(0, 0), "camera 0: focal length must be positive"),
    ("camera_id", put(0, 8), "camera_id.npy is damaged: entry 0 is 8"),
    ("point_id", lambda a: put(0, a[1])(a), "point_id.npy is damaged"),
    ("intra-point", swap, "intra observation"),
    ("outer-point", swap, "outer observation"),
]


@pytest.mark.parametrize(("name", "change", "expected"), WRONG)
def test_pieces_are_refused(
    name: str, change: Callable[[np.ndarray], None], expected: str, folder: Path
) -> None:
    reseal(folder, 0, name, change)
    found = Store(folder)
    with pytest.raises(DabaError) as caught:
        found.device_block(0), found.focal(0), found.numbers(0)
    assert expected in str(caught.value)
    assert str(folder / "device-0000") in str(caught.value)


@pytest.mark.parametrize(("name", "change", "expected"), WRONG)
def test_a_whole_problem_is_refused_or_right(
    name: str, change: Callable[[np.ndarray], None], expected: str, folder: Path
) -> None:
    """It does not need what another device has, too, nor any order: what a file says of each
    observation is what it gets."""
    before = np.load(folder / "device-0000" / f"{name}.npy")
    reseal(folder, 0, name, change)
    if change is swap or name == "outer-weight":
        expected_points = PROBLEM.point_index.copy()
        if name == "intra-point":
            after = np.load(folder / "device-0000" / f"{name}.npy")
            numbers = np.load(folder / "device-0000" / "intra-id.npy")
            a, b = numbers[np.flatnonzero(before != after)]
            expected_points[[a, b]] = expected_points[[b, a]]
        assert_equal(Store(folder).load(), replace(PROBLEM, point_index=expected_points))
        return
    with pytest.raises(DabaError) as caught:
        Store(folder).load()
    assert str(folder) in str(caught.value)
    if name != "point_id":  # which is compared with those of all devices
        assert expected in str(caught.value)


def assert_equal(found: Problem, expected: Problem) -> None:
    for array in ("cameras", "points", "camera_index", "point_index", "u", "weights", "focal"):
        np.testing.assert_array_equal(getattr(found, array), getattr(expected, array))


@pytest.mark.parametrize(("name", "change", "expected"), [WRONG[0], WRONG[7], WRONG[15]])
def test_every_command_refuses_them(
    name: str, change: Callable[[np.ndarray], None], expected: str, folder: Path, capsys: Capsys
) -> None:
    reseal(folder, 0, name, change)
    commands: list[list[str | Path]]
    commands = [["solve", "--iterations", "1"], ["partition"], ["partition", "--devices", "2"],
                ["info"], ["convert", folder.parent / "b.npz"]]  # fmt: skip
    for argv in commands:
        outcome = run(capsys, argv[0], folder, *argv[1:])
        assert (outcome.code, expected in outcome.err) == (2, True), (argv, outcome.err)


def test_a_point_of_two_devices(folder: Path) -> None:
    """Each device by itself makes sense."""
    other = int(Store(folder).array(1, "point_id")[0])
    reseal(folder, 0, "point_id", put(0, other))
    Store(folder).device_block(0)
    for read in (Store.load, Store.partition):
        with pytest.raises(DabaError, match=f"damaged: {other} stands in it twice"):
            read(Store(folder))


def test_constraints_that_make_no_sense(tmp_path: Path) -> None:
    priors = Priors(points=Targets.make([3, 5, 9], np.zeros((3, 3)), sigma=1.0))
    free = np.ones((8, 9), bool)
    free[0] = False
    problem = replace(PROBLEM, priors=priors, free_cameras=free)
    path = tmp_path / "c.daba"
    for name, change, expected in (
        ("constraint-points-index", put(0, 1000), "there are only"),
        ("constraint-points-index", lambda a: a.astype(float), "must be integers"),
        ("constraint-points-information", put((0, 0, 0), -1.0), "not symmetric and positive"),
        ("constraint-free_cameras", lambda a: a[1:], "free_cameras must be bool of shape"),
    ):
        writing.save(problem, path, 1)
        reseal(path, 0, name, change)
        with pytest.raises(DabaError, match=expected):
            Store(path).device_block(0)


@pytest.mark.parametrize("radius", [0.0, float("nan")])
def test_a_loss_of_priors_that_makes_no_sense(radius: float, tmp_path: Path) -> None:
    priors = Priors(points=Targets.make([3], np.zeros((1, 3)), sigma=1.0))
    path = tmp_path / "c.daba"
    writing.save(replace(PROBLEM, priors=priors), path, 1)
    manifest = path / "manifest.json"
    head = json.loads(manifest.read_text())
    head["prior_losses"]["points"][1] = radius
    manifest.write_text(json.dumps(head))
    with pytest.raises(DabaError, match=rf"c\.daba is damaged: the radius .* not {radius}"):
        Store(path).load()
