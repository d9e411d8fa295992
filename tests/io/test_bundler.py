"""Bundler files: reading, writing, there and back, image lists, and what is refused."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import plain_bal
import plain_bundler
import pytest
from hypothesis import given
from hypothesis import strategies as st

import daba.io
from daba.core.errors import DabaError, DabaWarning
from daba.io import numbers
from daba.problem.pixel_errors import pixel_error, pixel_errors
from daba.problem.problem import Problem

LINES = [
    "# Bundle file v0.3",
    "3 3",
    "500 0 0",
    "1 0 0",
    "0 1 0",
    "0 0 1",
    "0 0 0",
    "0 0 0",  # camera 1 was never registered
    "0 0 0",
    "0 0 0",
    "0 0 0",
    "0 0 0",
    "600 -0.1 0.02",
    "0 -1 0",
    "1 0 0",
    "0 0 1",
    "0.5 -0.5 0.25",
    "0.1 0.2 -5",
    "255 0 128",
    "2 0 17 10 20 2 4 -30.5 40",
    "1 1 -9",
    "1 2 3",
    "0",
    "-0.3 0.4 -6",
    "9 9 9",
    "1 2 5 7 8",
]


def write(folder: Path, lines: list[str], name: str = "bundle.out") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_by_hand(tmp_path: Path) -> None:
    problem = daba.io.load(write(tmp_path, LINES))
    assert (problem.num_cameras, problem.num_points, problem.num_observations) == (2, 3, 3)
    assert problem.name == "bundle"
    assert problem.info["intrinsics"] == "standard"
    np.testing.assert_array_equal(problem.camera_index, [0, 1, 1])
    np.testing.assert_array_equal(problem.point_index, [0, 0, 2])
    u = np.array([[-10 / 500, -20 / 500], [30.5 / 600, -40 / 600], [-7 / 600, -8 / 600]])
    np.testing.assert_allclose(problem.u, u)
    np.testing.assert_allclose(problem.points[0], [-0.1, -0.2, 5])
    R = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]])
    np.testing.assert_allclose(problem.rotations[1], R.T, atol=1e-15)
    np.testing.assert_allclose(problem.centers[1], R.T @ [0.5, -0.5, 0.25])
    np.testing.assert_array_equal(problem.info["colors"], [[255, 0, 128], [1, 2, 3], [9, 9, 9]])
    assert problem.info["colors"].dtype == np.uint8
    np.testing.assert_array_equal(problem.info["keys"], [17, 4, 5])
    np.testing.assert_array_equal(problem.info["registered"], [0, 2])
    assert problem.info["cameras_in_file"] == 3


def test_the_papers_reading_where_it_is_asked_for(tmp_path: Path) -> None:
    problem = daba.io.load(write(tmp_path, LINES), "paper")
    expected = np.array([[1, 0, 0], [1, -0.1 * 600.0**2, 0.02 * 600.0**4]])
    np.testing.assert_allclose(problem.intrinsics, expected)


def test_what_was_read_is_what_is_written(tmp_path: Path) -> None:
    lines = [line.replace("-0.1 0.02", "0 0") for line in LINES]
    path, again = write(tmp_path, lines), tmp_path / "again.out"
    daba.io.save(daba.io.load(path), again)
    before, after = plain_bundler.read(path), plain_bundler.read(again)
    assert after[1] == before[1]
    for a, b in zip(after[0], before[0], strict=True):
        np.testing.assert_allclose([*a.model, *a.R[0], *a.R[1], *a.R[2], *a.t],
                                   [*b.model, *b.R[0], *b.R[1], *b.R[2], *b.t],
                                   rtol=1e-14, atol=1e-15)  # fmt: skip


def test_a_real_file(real_file: Callable[[str], Path], tmp_path: Path) -> None:
    path, again = real_file("bundler/platypus-6.out"), tmp_path / "again.out"
    problem = daba.io.load(path)
    cameras, points = plain_bundler.read(path)
    assert problem.num_observations == 10927
    views = [view for point in points for view in point.views]
    assert problem.camera_index.tolist() == [view[0] for view in views]
    assert problem.info["keys"].tolist() == [view[1] for view in views]
    errors = np.array(plain_bundler.pixel_errors(cameras, points))
    assert pixel_error(problem).rms == pytest.approx(np.sqrt((errors**2).mean()), rel=0.01)
    daba.io.save(problem, again)
    cameras, points = plain_bundler.read(again)
    written = np.array(plain_bundler.pixel_errors(cameras, points))
    np.testing.assert_allclose(written, errors, atol=1e-3)
    np.testing.assert_allclose(written, pixel_errors(problem), rtol=1e-6, atol=1e-9)
    assert [view for point in points for view in point.views] == views


@pytest.mark.parametrize("suffix", [".out", ".out.bz2", ".out.gz"])
def test_an_independent_reader_sees_the_same_pixel_errors(suffix: str, tmp_path: Path) -> None:
    problem = plain_bal.scene()  # its observations are not sorted by point
    path = tmp_path / f"scene{suffix}"
    daba.io.save(problem, path)
    cameras, points = plain_bundler.read(path)
    order = np.argsort(problem.point_index, kind="stable")
    expected = pixel_errors(problem)[order]
    np.testing.assert_allclose(plain_bundler.pixel_errors(cameras, points), expected, rtol=1e-6)
    assert [v[0] for p in points for v in p.views] == problem.camera_index[order].tolist()
    assert all(p.colour == [0, 0, 0] for p in points)


def test_reading_back_gives_the_same_objective(tmp_path: Path) -> None:
    problem = plain_bal.scene(3, cameras=20, points=200)
    path = tmp_path / "scene.out"
    daba.io.save(problem, path)
    again = daba.io.load(path)
    assert plain_bal.objective(again) == pytest.approx(plain_bal.objective(problem), rel=1e-5)
    np.testing.assert_allclose(again.points, problem.points, rtol=1e-15)
    np.testing.assert_allclose(again.rotations, problem.rotations, atol=1e-14)
    np.testing.assert_allclose(again.focal, problem.focal, rtol=1e-14)


@pytest.mark.parametrize("block", [8, 16, 100])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("-30.5", "\n-30.5").replace(" ", "\t"),
        lambda text: text.rstrip() + "\n\n  ",
        lambda text: "\ufeff" + text,
        lambda text: text + "# a comment after the end\n",
    ],
)
def test_layout_does_not_matter(change, block, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    a = daba.io.load(write(tmp_path, LINES))
    monkeypatch.setattr(numbers, "BLOCK", block)  # small blocks cut everywhere
    changed = tmp_path / "changed.out"
    changed.write_bytes(change("\n".join(LINES) + "\n").encode())
    b = daba.io.load(changed)
    for what in ("cameras", "points", "u", "camera_index", "point_index"):
        np.testing.assert_array_equal(getattr(a, what), getattr(b, what))


def test_compressed_files_are_known_by_name_or_by_content(tmp_path: Path) -> None:
    data = "\n".join(LINES).encode()
    for name, pack in (("a.out.bz2", bz2.compress), ("a.out.gz", gzip.compress)):
        for path in (tmp_path / name, tmp_path / "a.out"):
            path.write_bytes(pack(data))
            assert daba.io.load(path).num_observations == 3


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """A few cameras and points, some of them unseen, some seen twice by one camera."""
    C, P = draw(st.integers(1, 5)), draw(st.integers(2, 8))
    scene = plain_bal.scene(draw(st.integers(0, 99)), cameras=C, points=P, noise=2.0)
    K = draw(st.integers(1, 3 * scene.num_observations))
    chosen = draw(st.lists(st.integers(0, scene.num_observations - 1), min_size=K, max_size=K))
    total = C + draw(st.integers(1, 3))
    places = sorted(draw(st.permutations(range(total)))[:C])
    small = st.integers(0, 255)
    return replace(
        scene,
        camera_index=scene.camera_index[chosen],
        point_index=scene.point_index[chosen],
        u=scene.u[chosen],
        weights=scene.weights[chosen],
        info={
            "keys": np.array(draw(st.lists(st.integers(-1, 9999), min_size=K, max_size=K))),
            "colors": np.array(draw(st.lists(st.tuples(small, small, small), min_size=P,
                                             max_size=P)), np.uint8),
            "registered": np.array(places),
            "cameras_in_file": total,
        },
    )  # fmt: skip


@given(problems(), st.integers(30, 300))
def test_there_and_back(tmp_path_factory: pytest.TempPathFactory, p: Problem, block: int) -> None:
    path = tmp_path_factory.mktemp("bundler") / "p.out"
    daba.io.save(p, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "BLOCK", block)
        q = daba.io.load(path)
    order = np.argsort(p.point_index, kind="stable")
    np.testing.assert_array_equal(q.camera_index, p.camera_index[order])
    np.testing.assert_array_equal(q.point_index, p.point_index[order])
    np.testing.assert_array_equal(q.info["keys"], p.info["keys"][order])
    np.testing.assert_array_equal(q.info["colors"], p.info["colors"])
    np.testing.assert_array_equal(q.info["registered"], p.info["registered"])
    assert q.info["cameras_in_file"] == p.info["cameras_in_file"]
    np.testing.assert_array_equal(q.points, p.points)
    np.testing.assert_allclose(q.centers, p.centers, atol=1e-13)
    np.testing.assert_allclose(q.pixels, p.pixels[order], rtol=1e-12, atol=1e-12)
    cameras, points = plain_bundler.read(path)
    assert [i for i, c in enumerate(cameras) if c.model[0] > 0] == p.info["registered"].tolist()
    assert sum(len(point.views) for point in points) == p.num_observations


def test_what_no_longer_fits_is_not_written(tmp_path: Path) -> None:
    problem = daba.io.load(write(tmp_path, LINES))
    fewer = replace(
        problem,
        camera_index=problem.camera_index[:2],
        point_index=problem.point_index[:2],
        u=problem.u[:2],
        weights=problem.weights[:2],
    )
    daba.io.save(fewer, tmp_path / "fewer.out")
    cameras, points = plain_bundler.read(tmp_path / "fewer.out")
    assert len(cameras) == 3
    assert [view[1] for point in points for view in point.views] == [0, 0]


def test_views_of_cameras_that_were_never_registered(tmp_path: Path) -> None:
    lines = [*LINES[:25], "2 1 3 1 1 2 5 7 8"]
    with pytest.warns(DabaWarning, match=r"bundle\.out: 1 views are left out"):
        problem = daba.io.load(write(tmp_path, lines))
    np.testing.assert_array_equal(problem.camera_index, [0, 1, 1])
    np.testing.assert_array_equal(problem.info["keys"], [17, 4, 5])


def test_odd_colours_are_kept(tmp_path: Path) -> None:
    lines = [line.replace("255 0 128", "0.5 300 -1") for line in LINES]
    problem = daba.io.load(write(tmp_path, lines))
    assert problem.info["colors"][0].tolist() == [0.5, 300, -1]
    daba.io.save(problem, tmp_path / "again.out")
    assert plain_bundler.read(tmp_path / "again.out")[1][0].colour == [0.5, 300, -1]


def test_nothing_is_lost_on_the_way_through_npz(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a.jpg 0 500\nb.jpg\nc.jpg 0 600\n")
    problem = daba.io.load(write(tmp_path, LINES))
    daba.io.save(problem, tmp_path / "p.npz")
    direct, around = tmp_path / "direct.out", tmp_path / "around.out"
    daba.io.save(problem, direct)
    daba.io.save(daba.io.load(tmp_path / "p.npz"), around)
    assert around.read_bytes() == direct.read_bytes()


def test_image_lists(tmp_path: Path) -> None:
    for folder in ("in", "out", "other"):
        (tmp_path / folder).mkdir()
    lines = "a.jpg 0 500\nsub/b.jpg\nümlaut.jpg 0 600\n"
    (tmp_path / "in" / "list.txt").write_text(lines)
    problem = daba.io.load(write(tmp_path / "in", LINES))
    assert problem.info["images"] == ["a.jpg 0 500", "sub/b.jpg", "ümlaut.jpg 0 600"]
    for _ in range(2):  # an equal list is as good as none
        daba.io.save(problem, tmp_path / "out" / "bundle.out")
    assert (tmp_path / "out" / "list.txt").read_text() == lines
    (tmp_path / "other" / "list.txt").write_text("x.jpg\n")
    with pytest.warns(DabaWarning, match="is that of other images and stays as it is"):
        daba.io.save(problem, tmp_path / "other" / "bundle.out")
    assert (tmp_path / "other" / "list.txt").read_text() == "x.jpg\n"
    with pytest.warns(DabaWarning, match=r"is ignored: it names 1 images, but bundle\.out has 3"):
        assert "images" not in daba.io.load(tmp_path / "other" / "bundle.out").info


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (1, "# Bundle file v0.4", "line 1: a Bundler file begins with '# Bundle file v0.3'"),
        (1, "3 3", "line 1: a Bundler file begins with"),
        (2, "3", "line 2: expected two whole numbers, 'cameras points', but here is '3'"),
        (2, "3 x", "line 2: expected two whole numbers"),
        (2, "3 -3", "line 2: the number of points must be positive, not -3"),
        (2, "0 3", "line 2: the number of cameras must be positive, not 0"),
        (2, "3 9999999999", "line 2: 9999999999 points are more than the supported"),
        (2, "3 4", "the file ends too early, after line 26, in point 3 of 4"),
        (2, "3 2", "line 24: '-0.3' follows after the last point; 3 cameras and 2 points"),
        (2, "4 3", "line 20: camera 3: its rotation matrix, which ends here, is none"),
        (3, "-500 0 0", "line 3: camera 0: the focal length must not be negative, but is -500"),
        (3, "nan 0 0", "line 3: NaN or infinite value 'nan'"),
        (3, "500 0", "line 7: camera 0: its rotation matrix, which ends here, is none"),
        (6, "0 0 -1", "line 6: camera 0: its rotation matrix, which ends here, is none"),
        (14, "0 -1.01 0", "line 16: camera 2: its rotation matrix"),
        (17, "0.5 inf 0", "line 17: NaN or infinite value 'inf'"),
        (18, "0.1 0.2 five", "line 18: 'five' is not a number"),
        (19, "1e999 0 0", "line 19: NaN or infinite value '1e999'"),
        (20, "2.5 0 17 10 20", "line 20: point 0: the number of its views must be a whole number"),
        (20, "-2", "line 20: point 0: the number of its views must not be -2"),
        (20, "nan", "line 20: NaN or infinite value 'nan'"),
        (20, "2 3 17 10 20 2 4 1 1", "line 20: camera 3 of a view is out of range: there are 3"),
        (20, "2 -1 17 10 20 2 4 1 1", "line 20: camera -1 of a view is out of range"),
        (20, "2 0.5 17 10 20 2 4 1 1", "line 20: the camera of a view must be a whole number"),
        (20, "2 0 1.5 10 20 2 4 1 1", "line 20: the key of a view must be a whole number"),
        (20, "2 0 17 10 nan 2 4 1 1", "line 20: NaN or infinite value 'nan'"),
        (26, "1 2 5 7", "the file ends too early, after line 26, in point 2 of 3"),
        (26, "1 2 5 7 8 9", "line 26: '9' follows after the last point"),
        (26, "1 2 5 7 8\n# fine\nnot", "line 28: 'not' follows after the last point"),
        (26, "99999999999 2 5 7 8", "line 26: point 2: the number of its views must be a whole"),
    ],
)
def test_the_line_is_named(line: int, text: str, expected: str, tmp_path: Path) -> None:
    lines = LINES.copy()
    lines[line - 1] = text
    path = write(tmp_path, lines, "bad.out")
    with pytest.raises(DabaError) as caught:
        daba.io.load(path)
    assert str(caught.value).startswith("bad.out")
    assert expected in str(caught.value)


def test_cut_short(tmp_path: Path) -> None:
    path, text = tmp_path / "cut.out", "\n".join(LINES)
    for end in range(len(text) - 1):  # wherever it is cut, it is noticed
        path.write_text(text[:end])
        with pytest.raises(DabaError, match=r"^cut\.out"):
            daba.io.load(path)


def test_empty(tmp_path: Path) -> None:
    path = write(tmp_path, [])
    with pytest.raises(DabaError, match=r"^bundle\.out: the file is empty"):
        daba.io.load(path)
    nothing = [line if i != 19 else "0" for i, line in enumerate(LINES[:25])]
    with pytest.raises(DabaError, match=r"^bundle\.out: empty problem: 2 cameras, 3 points, 0"):
        daba.io.load(write(tmp_path, [*nothing, "0"]))
