"""Constraints as data: validation, and their way through layouts, stores and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daba
from daba.distributed.shard import make_shard
from daba.io import native
from daba.io.store import writing
from daba.partition.ordering import lay_out
from daba.problem.constraints import Constraints
from daba.problem.diagnostics import inspect
from daba.problem.priors import Priors, Targets
from daba.problem.problem import Problem
from helpers import random_partition, random_problem, rng


def asked(problem: Problem, seed: int = 3) -> Problem:
    """The problem with something of everything: two groups, fixed variables, all three priors."""
    random = rng(seed)
    C, P = problem.num_cameras, problem.num_points
    cameras = problem.cameras.copy()
    shared = np.arange(C) % 2
    cameras[:, 12:] = cameras[shared, 12:]
    free = random.random((C, 9)) < 0.8
    free[:, 6:] = True
    A = random.normal(size=(C, 3, 3))
    covariance = A @ A.transpose(0, 2, 1) + np.eye(3)
    priors = Priors(
        positions=Targets.make(
            random.permutation(C)[:4],
            random.normal(size=(4, 3)),
            covariance=covariance[:4],
            loss=daba.Huber(2.0),
        ),
        intrinsics=Targets.make([1], [[1.0, 0.0, 0.0]], sigma=0.01),
        points=Targets.make([7, 2, 5], random.normal(size=(3, 3)), sigma=[0.1, 0.2, 0.3]),
    )
    return replace(
        problem,
        cameras=cameras,
        shared=shared.astype(np.int32),
        free_cameras=free,
        free_points=random.random(P) < 0.9,
        priors=priors,
    ).validated()


def same(a: Constraints | None, b: Constraints | None) -> None:
    assert a is not None
    assert b is not None
    mine, theirs = a.to_arrays(), b.to_arrays()
    assert mine.keys() == theirs.keys()
    assert len(mine) == 12
    for name, array in mine.items():
        assert array.dtype == theirs[name].dtype, name
        assert np.array_equal(array, theirs[name]), name
    assert a.losses() == b.losses()


def test_a_problem_without_constraints_is_plain() -> None:
    problem = random_problem()
    assert problem.plain
    assert not asked(problem).plain
    nothing = replace(
        problem,
        shared=np.arange(problem.num_cameras, dtype=np.int32),
        free_cameras=np.ones((problem.num_cameras, 9), bool),
        free_points=np.ones(problem.num_points, bool),
        priors=Priors(),
    )
    assert nothing.validated().plain


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"shared": np.zeros(5, np.int32)}, "shared must be integers of shape"),
        ({"shared": np.zeros(6)}, "shared must be integers"),
        ({"shared": np.array([0, 1, 2, 3, 1, 5])}, "cameras 1 and 4 share intrinsics .group 1."),
        ({"free_cameras": np.ones((6, 6), bool)}, "free_cameras must be bool of shape"),
        ({"free_points": np.ones(30)}, "free_points must be bool"),
        ({"priors": Priors(positions=Targets.make([6], [[0, 0, 0]], sigma=1))}, "camera 6: there"),
        ({"priors": Priors(points=Targets.make([3, 3], np.zeros((2, 3)), sigma=1))}, "given twice"),
        (
            {"priors": Priors(points=Targets.make([3], [[0, np.nan, 0]], sigma=1))},
            "point 3: NaN",
        ),
        (
            {"priors": Priors(points=Targets.make([3], np.zeros(3), information=-np.eye(3)))},
            "point 3: its covariance",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(daba.DabaError, match=text):
        replace(random_problem(), **change).validated()


def test_a_group_needs_one_focal_length() -> None:
    problem = random_problem()
    cameras = problem.cameras.copy()
    cameras[:, 12:] = [1.0, 0.0, 0.0]
    focal = problem.focal.copy()
    focal[4] += 1.0
    bad = replace(problem, cameras=cameras, focal=focal, shared=np.zeros(6, np.int32))
    with pytest.raises(daba.DabaError, match=r"cameras 0 and 4 .* different focal lengths"):
        bad.validated()


def test_priors_need_a_covariance_that_can_be_inverted() -> None:
    with pytest.raises(daba.DabaError, match=r"prior on 7: .* positive definite"):
        Targets.make([5, 7], np.zeros((2, 3)), covariance=[np.eye(3), np.diag([1.0, 1.0, 0.0])])
    with pytest.raises(daba.DabaError, match="prior on 7: standard deviations"):
        Targets.make([5, 7], np.zeros((2, 3)), sigma=[1.0, 0.0])
    made = Targets.make([1], [[1.0, 2.0, 3.0]], covariance=[np.diag([4.0, 1.0, 0.25])])
    assert np.allclose(made.information[0], np.diag([0.25, 1.0, 4.0]))


def test_what_one_camera_fixes_is_fixed_for_all_that_share_it() -> None:
    problem = asked(random_problem())
    assert problem.free_cameras is not None
    free = problem.free_cameras.copy()
    free[2, 7] = False
    found = replace(problem, free_cameras=free).constraints
    assert found is not None
    assert found.free_cameras is not None
    assert (~found.free_cameras[::2, 7]).all()
    assert found.free_cameras[1::2, 6:].all()
    assert np.array_equal(found.free_cameras[:, :6], free[:, :6])


def test_a_look_at_a_problem_tells_of_them() -> None:
    problem = asked(random_problem())
    report = inspect(problem)
    assert report.constraints[0] == "6 cameras share intrinsics, in 2 groups"
    assert report.constraints[-1] == "3 points known beforehand"
    assert "4 camera positions known beforehand, huber beyond 2 sigma" in report.constraints
    assert report.objective == pytest.approx(
        report.mean_objective * report.observations + problem.prior_objective()
    )
    assert inspect(random_problem()).constraints == []


def test_groups_may_have_any_numbers() -> None:
    problem = random_problem()
    cameras = problem.cameras.copy()
    cameras[:, 12:] = [1.0, 0.0, 0.0]
    shared = np.array([-5, 2**40, -5, 2**40, 7, 7])
    found = replace(problem, cameras=cameras, shared=shared).validated().constraints
    assert found is not None
    assert np.asarray(found.shared).tolist() == [0, 2, 0, 2, 1, 1]


def test_each_device_gets_its_part() -> None:
    problem = asked(random_problem())
    whole = problem.constraints
    assert whole is not None
    assert whole.priors is not None
    layout = lay_out(problem, random_partition(problem, 3))
    rows = 0
    for device in range(3):
        piece = layout.device_block(device)
        part = piece.constraints
        assert part is not None
        assert part.priors is not None
        expected = whole.to_arrays()
        found = part.to_arrays()
        assert np.array_equal(found["shared"], expected["shared"][piece.camera_id])
        assert np.array_equal(found["free_points"], expected["free_points"][piece.point_id])
        for kind, ids in (("positions", piece.camera_id), ("points", piece.point_id)):
            mine, all_ = getattr(part.priors, kind), getattr(whole.priors, kind)
            at = np.searchsorted(all_.index, ids[mine.index])
            assert np.array_equal(all_.index[at], ids[mine.index])
            assert np.array_equal(all_.target[at], mine.target)
            assert np.array_equal(all_.information[at], mine.information)
            assert mine.loss == all_.loss
            rows += len(mine)
    assert rows == 7
    shard = make_shard(problem, random_partition(problem, 3))
    same(whole.take(shard.camera_order, shard.point_order, (6, 30)), shard.constraints)


def test_files_keep_constraints(tmp_path: Path) -> None:
    problem = asked(random_problem())
    native.save(problem, tmp_path / "a.npz")
    writing.save(problem, tmp_path / "a.daba", 3)
    for path in ("a.npz", "a.daba"):
        found = daba.load(tmp_path / path)
        same(found.constraints, problem.constraints)
        assert np.array_equal(found.cameras, problem.cameras)


def test_files_without_constraints_are_as_they_were(tmp_path: Path) -> None:
    """An older daba must be able to read them."""
    problem = random_problem()
    native.save(problem, tmp_path / "a.npz")
    writing.save(problem, tmp_path / "a.daba")
    assert '"version": 1' in (tmp_path / "a.daba" / "manifest.json").read_text()
    with np.load(tmp_path / "a.npz") as archive:
        assert b'"version": 1' in bytes(archive["head"])
        assert not any("constraint" in name for name in archive.files)
    assert daba.load(tmp_path / "a.daba").plain
    assert daba.load(tmp_path / "a.npz").plain


def test_partition_to_a_store_keeps_constraints(tmp_path: Path) -> None:
    from daba.io.store.streaming import partition_to_store

    problem = asked(random_problem())
    native.save(problem, tmp_path / "a.npz")
    partition_to_store(tmp_path / "a.npz", 2, 0, tmp_path / "a.daba")
    same(daba.load(tmp_path / "a.daba").constraints, problem.constraints)
    assert sorted(p.name for p in (tmp_path / "a.daba").iterdir())[:2] == [
        "device-0000",
        "device-0001",
    ]


def test_checkpoints_know_constraints_apart() -> None:
    from daba.distributed.scatter import _checksums

    problem = asked(random_problem())
    partition = random_partition(problem, 2)
    marks = _checksums(make_shard(problem, partition))
    assert problem.priors is not None
    points = replace(problem.priors.points, loss=daba.Huber(1.0))
    changes: list[dict[str, Any]] = [
        {"shared": None},
        {"free_points": None},
        {"priors": replace(problem.priors, points=points)},
    ]
    for change in changes:
        other = replace(problem, **change)
        assert _checksums(make_shard(other, partition)) != marks
