"""Constraints as they are asked for: words, lists and tables, and every way to get them wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import daba
from daba.io.tables import read_list, read_positions
from daba.tools.cli import main
from helpers import random_problem, rng


def named() -> daba.Problem:
    problem = random_problem()
    names = [f"img{i}.jpg" for i in range(6)]
    return replace(problem, info={"images": names, "point_ids": 100 + np.arange(30)})


def write(folder: Path, text: str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_fixing_by_words_and_lists(tmp_path: Path) -> None:
    problem = named()
    cameras = write(tmp_path, "img1.jpg, 4 # two of them\n5\n", "cameras.txt")
    points = write(tmp_path, "100\n103\n", "points.txt")
    asked = daba.constrain(problem, fix=("intrinsics", f"poses:{cameras}", f"points:{points}"))
    expected = np.ones((6, 9), bool)
    expected[:, 6:] = False
    expected[[1, 4, 5], :6] = False
    assert np.array_equal(np.asarray(asked.free_cameras), expected)
    assert np.flatnonzero(~np.asarray(asked.free_points)).tolist() == [0, 3]
    both = daba.constrain(problem, fix=(f"cameras:{cameras}",))
    assert np.flatnonzero(~np.asarray(both.free_cameras).any(axis=1)).tolist() == [1, 4, 5]
    assert not np.asarray(daba.constrain(problem, fix="points").free_points).any()
    again = daba.constrain(both, fix=("poses",))  # what was fixed stays so
    assert np.array_equal(np.asarray(again.free_cameras).sum(axis=1), [3, 0, 3, 3, 0, 0])


def test_the_gauge_has_seven_numbers() -> None:
    """With them fixed, no direction is left along which F does not change."""
    from daba.problem import reference

    exact = random_problem(noise=0.0)
    pinhole = np.tile([1.0, 0.0, 0.0], (6, 1))
    exact = replace(exact, cameras=np.hstack([exact.cameras[:, :12], pinhole]))
    problem = daba.constrain(exact, fix="gauge")
    free = np.asarray(problem.free_cameras)
    assert (~free).sum() == 7
    assert (~free[0, :6]).all()
    _, J_c, J_l = reference.jacobian(problem, daba.Trivial())
    C, P = problem.num_cameras, problem.num_points
    J = np.zeros((*J_c.shape[:2], 9 * C + 3 * P))
    for k in range(len(J)):
        i, j = problem.camera_index[k], problem.point_index[k]
        J[k, :, 9 * i : 9 * i + 9] = J_c[k]
        J[k, :, 9 * C + 3 * j : 9 * C + 3 * j + 3] = J_l[k]
    rows = J.reshape(-1, 9 * C + 3 * P)
    poses = np.ones((C, 9), bool)
    poses[:, 6:] = False  # intrinsics are another matter
    loose = np.concatenate([poses.ravel(), np.ones(3 * P, bool)])
    tight = np.concatenate([(poses & free).ravel(), np.ones(3 * P, bool)])
    assert np.linalg.matrix_rank(rows[:, loose], tol=1e-6) == loose.sum() - 7
    assert np.linalg.matrix_rank(rows[:, tight], tol=1e-6) == tight.sum()


def test_sharing_what_is_equal() -> None:
    problem = random_problem()
    with pytest.raises(daba.DabaError, match="nothing to share"):
        daba.constrain(problem, share_intrinsics="all")
    cameras = problem.cameras.copy()
    cameras[[1, 3, 4], 12:] = cameras[0, 12:]
    group = np.asarray(
        daba.constrain(replace(problem, cameras=cameras), share_intrinsics="all").shared
    )
    assert len(set(group[[0, 1, 3, 4]].tolist())) == 1
    assert len(set(group.tolist())) == 3
    shared = replace(problem, cameras=cameras, shared=group)
    assert daba.constrain(shared, share_intrinsics="none").plain


@pytest.mark.parametrize(
    ("header", "row", "covariance"),
    [
        ("image,x,y,z,sigma", "img2.jpg,1,2,3,0.5", np.diag([0.25, 0.25, 0.25])),
        ("z, y, x, sx, sy, sz, camera", "3, 2, 1, 1, 2, 3, 2", np.diag([1.0, 4.0, 9.0])),
        (
            "camera,x,y,z,cxx,cxy,cxz,cyy,cyz,czz",
            "2,1,2,3,2,0.1,0.2,3,0.3,4",
            np.array([[2, 0.1, 0.2], [0.1, 3, 0.3], [0.2, 0.3, 4]]),
        ),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_tables_of_positions(
    header: str, row: str, covariance: np.ndarray, sign: int, tmp_path: Path
) -> None:
    """−1 is the world of BAL, which is read as its mirror image."""
    problem = named()
    problem.info["world_sign"] = sign
    path = write(tmp_path, f"{header}\n\n# a remark\n{row}\n")
    found = read_positions(path, problem, daba.Huber(2.0))
    assert found.index.tolist() == [2]
    assert np.array_equal(found.target, [[sign, 2 * sign, 3 * sign]])
    assert np.allclose(np.linalg.inv(found.information[0]), covariance)
    assert found.loss == daba.Huber(2.0)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "line 1: the header must name"),
        ("camera,x,y,z\n0,1,2,3\n", "line 1: the header must name"),
        ("camera,x,y,z,sigma\n", "only a header"),
        ("camera,x,y,z,sigma\n0,1,2,3\n", "line 2: 4 values, but the header has 5"),
        ("camera,x,y,z,sigma\n\n6,1,2,3,1\n", "line 3: there is no camera 6"),
        ("camera,x,y,z,sigma\nimgX,1,2,3,1\n", "line 2: 'imgX' is not the number of a camera"),
        ("image,x,y,z,sigma\nimgX,1,2,3,1\n", "line 2: 'imgX': the problem has no image of that"),
        ("camera,x,y,z,sigma\n0,1,two,3,1\n", "line 2: y must be a number, not 'two'"),
        ("camera,x,y,z,sigma\n0,1,nan,3,1\n", "line 2: y must be finite"),
        ("camera,x,y,z,sigma\n0,1,2,3,0\n", "line 2: standard deviations must be positive"),
        ("camera,x,y,z,sigma\n0,1,2,3,1\n0,1,2,3,1\n", "line 3: camera 0 is on line 2 already"),
        (
            "camera,x,y,z,cxx,cxy,cxz,cyy,cyz,czz\n0,1,2,3,1,2,0,1,0,1\n",
            "line 2: the covariance is not positive",
        ),
    ],
)
def test_tables_say_what_is_wrong_and_where(text: str, error: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(daba.DabaError) as caught:
        read_positions(path, named(), daba.Trivial())
    assert str(caught.value).startswith(str(path))
    assert error in str(caught.value)


def test_names_need_names(tmp_path: Path) -> None:
    path = write(tmp_path, "image,x,y,z,sigma\na.jpg,1,2,3,1\n")
    with pytest.raises(daba.DabaError, match="the problem has no image names"):
        read_positions(path, random_problem(), daba.Trivial())


def test_a_name_that_two_images_have_is_no_name(tmp_path: Path) -> None:
    problem = named()
    problem.info["images"][4] = "img1.jpg"
    path = write(tmp_path, "image,x,y,z,sigma\nimg0.jpg,1,2,3,1\nimg1.jpg,1,2,3,1\n")
    with pytest.raises(daba.DabaError, match=r"line 3: more than one image is named 'img1.jpg'"):
        read_positions(path, problem, daba.Trivial())


def test_lists_say_what_is_wrong_and_where(tmp_path: Path) -> None:
    for text, error in (("0\nx\n", "line 2: 'x'"), ("0\n\n9", "line 3: there is no"), ("#", "no ")):
        with pytest.raises(daba.DabaError, match=error):
            read_list(write(tmp_path, text), "camera", random_problem())


@pytest.mark.parametrize("what", ["nothing", "gauge:a.txt", "poses:", "", "focal"])
def test_what_cannot_be_fixed(what: str) -> None:
    with pytest.raises(daba.DabaError, match="cannot fix"):
        daba.constrain(random_problem(), fix=(what,))


def test_a_prior_of_the_focal_length_is_told_once_for_all_that_share_it() -> None:
    problem = random_problem()
    cameras = problem.cameras.copy()
    cameras[:3, 12:] = [1.1, 0.0, 0.0]
    problem = replace(problem, cameras=cameras, shared=np.array([0, 0, 0, 3, 4, 5], np.int32))
    priors = daba.constrain(problem, intrinsics_prior=0.01).priors
    assert priors is not None
    assert priors.intrinsics.index.tolist() == [0, 3, 4, 5]
    assert priors.intrinsics.information[0, 0, 0] == pytest.approx(1 / 0.011**2)
    assert (priors.intrinsics.information[:, 1:] == 0).all()
    moved = problem.cameras.copy()
    moved[:3, 12] *= 1.02
    off = replace(problem, cameras=moved, priors=priors)
    assert off.prior_objective() == pytest.approx(0.5 * 2.0**2)
    with pytest.raises(daba.DabaError, match="must be a positive number"):
        daba.constrain(problem, intrinsics_prior=0.0)


@pytest.mark.usefixtures("compiled")
def test_the_command_line_asks_for_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = random_problem(noise=0.003)
    cameras = problem.cameras.copy()
    cameras[:, 12:] = [1.0, 0.0, 0.0]
    problem = replace(problem, cameras=cameras)
    daba.save(problem, tmp_path / "a.npz")
    fixes = problem.centers + 0.01 * rng(0).normal(size=(6, 3))
    rows = [f"{i},{x},{y},{z},0.01" for i, (x, y, z) in enumerate(fixes)]
    positions = write(tmp_path, "\n".join(["camera,x,y,z,sigma", *rows]))
    x, y, z = problem.points[4]
    control = write(tmp_path, f"point,x,y,z,sigma\n4,{x},{y},{z},0.001\n", "c.csv")
    asked = [
        "--share-intrinsics", "all", "--fix", "gauge", "--fix",
        f"points:{write(tmp_path, '7 9', 'points.txt')}", "--position-priors", str(positions),
        "--control-points", str(control), "--intrinsics-prior", "0.1", "--prior-loss", "huber",
    ]  # fmt: skip
    common = ["--devices", "2", "--iterations", "5", "--check", "--threads", "1"]
    outputs = ["--output", str(tmp_path / "b.npz"), "--history", str(tmp_path / "h.json")]
    assert main(["solve", str(tmp_path / "a.npz"), *common, *asked, *outputs]) == 0
    told = capsys.readouterr().out
    assert "6 cameras share intrinsics, in 1 group" in " ".join(told.split())
    solved = daba.load(tmp_path / "b.npz")
    assert (solved.intrinsics == solved.intrinsics[0]).all()
    assert not np.array_equal(solved.intrinsics, problem.intrinsics)
    assert np.array_equal(solved.points[[7, 9]], problem.points[[7, 9]])
    assert np.array_equal(solved.cameras[0, :12], problem.cameras[0, :12])
    history = json.loads((tmp_path / "h.json").read_text())
    assert len(history["constraints"]) == 7  # pose of camera 0, one coordinate of another, …
    last = history["iterations"][-1]
    assert last["prior_objective"] == pytest.approx(solved.prior_objective(), rel=1e-9)
    assert last["objective"] == pytest.approx(solved.objective(), rel=1e-9)
    assert last["mean_objective"] == pytest.approx(
        (last["objective"] - last["prior_objective"]) / solved.num_observations
    )
    # the same from a store, which is given them when it is written
    store = str(tmp_path / "a.daba")
    assert (
        main(["partition", str(tmp_path / "a.npz"), "--devices", "2", "--output", store, *asked])
        == 0
    )
    assert main(["solve", store, *common[2:], "--output", str(tmp_path / "c.npz")]) == 0
    again = daba.load(tmp_path / "c.npz")
    assert np.array_equal(again.cameras, solved.cameras)
    assert np.array_equal(again.points, solved.points)
    capsys.readouterr()
    assert main(["solve", store, "--fix", "gauge"]) == 2
    assert "is a store, which holds its constraints" in capsys.readouterr().err
