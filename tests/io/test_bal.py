"""BAL: both readings, writing, and the trip there and back."""

from __future__ import annotations

import bz2
import gzip
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import plain_bal
import pytest
from command_line import run
from hypothesis import given, settings
from hypothesis import strategies as st

import daba.io
from daba.core.errors import DabaError, DabaWarning
from daba.io import bal, formats, numbers
from daba.io.bal_weights import weights_path
from daba.io.store import store, writing
from daba.problem.pixel_errors import pixel_error, pixel_errors
from daba.problem.problem import Problem

REAL = {
    "ladybug-49-7776-pre": 2.022618,
    "trafalgar-21-11315-pre": 9.720695,
    "kitti-vo-250": 0.966683,
    "notredame-150-30128-sub-pre": 42.826640,
}

TINY = (
    "2 2 4\n0 0 10 20\n0 1 -30 40\n1 0 5 -6\n1 1 7 8\n"
    + "0 0 0 0 0 0 500 0 0\n0.1 0 0 0 0 0.5 600 1e-8 0\n"
    + "0.1 0.2 -5\n-0.3 0.4 -6\n"
)


def test_a_file_that_the_paper_would_not_read_so_gets_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As solutions are written: d2 would be −0.05 · 500² = −12,500."""
    path = tmp_path / "solution.txt"
    path.write_text(TINY.replace("500 0 0", "500 -0.05 0").replace("600 1e-8", "600 -0.05"))
    with pytest.warns(DabaWarning, match=r"solution.txt: k1 = -0.05 of camera 0 makes no sense"):
        daba.io.load(path)
    with pytest.warns(DabaWarning, match="intrinsics standard"):
        formats.open_source(path, "auto", tmp_path)
    daba.io.load(path, intrinsics="paper")  # who asks for it gets it
    daba.io.load(path, intrinsics="standard")
    outcome = run(capsys, "info", path)
    assert (outcome.code, "--intrinsics standard" in outcome.err) == (0, True)


@pytest.mark.parametrize("name", REAL)
def test_real_problems_start_where_the_paper_says(
    name: str, real_file: Callable[[str], Path]
) -> None:
    problem = daba.io.load(real_file(f"{name}.txt.bz2"))
    mean = plain_bal.objective(problem) / problem.num_observations
    assert mean == pytest.approx(REAL[name], abs=1e-6)
    assert problem.name == name
    assert problem.info["world_sign"] == -1


def test_conversion_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "tiny.txt"
    path.write_text(TINY)
    problem = daba.io.load(path)
    assert problem.num_cameras == problem.num_points == 2
    np.testing.assert_array_equal(problem.camera_index, [0, 0, 1, 1])
    np.testing.assert_array_equal(problem.point_index, [0, 1, 0, 1])
    np.testing.assert_allclose(problem.u[1], [30 / 500, -40 / 500])
    np.testing.assert_allclose(problem.weights[1], 500 * np.sqrt(1 + 0.01))
    np.testing.assert_allclose(problem.points[0], [-0.1, -0.2, 5])
    np.testing.assert_allclose(problem.rotations[0], np.eye(3))
    c, s = np.cos(0.1), np.sin(0.1)
    R = np.array([[1, 0, 0], [0, c, s], [0, -s, c]], float)
    np.testing.assert_allclose(problem.rotations[1], R)
    np.testing.assert_allclose(problem.centers[1], 0.5 * np.array([0, s, c]))
    np.testing.assert_allclose(problem.intrinsics, np.array([[1, 0, 0], [1, 1e-8 * 600.0**2, 0]]))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(" ", "\t"),
        lambda text: text.replace("500 0 0\n", "500\n0\n0\n\n"),
        lambda text: text + "\n\n  ",
        lambda text: text.rstrip(),
        lambda text: "\ufeff" + text,
        lambda text: text + "# a comment after the end\n",
    ],
)
@pytest.mark.parametrize("block", [16, 1 << 22])
def test_layout_does_not_matter(change, block, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(numbers, "BLOCK", block)  # small blocks cut everywhere
    plain, changed = tmp_path / "plain.txt", tmp_path / "changed.txt"
    plain.write_text(TINY)
    changed.write_bytes(change(TINY).encode())
    a, b = daba.io.load(plain), daba.io.load(changed)
    np.testing.assert_array_equal(a.cameras, b.cameras)
    np.testing.assert_array_equal(a.points, b.points)
    np.testing.assert_array_equal(a.u, b.u)


def test_compressed_files_are_known_by_name_or_by_content(tmp_path: Path) -> None:
    for name, pack in (("a.txt.bz2", bz2.compress), ("a.bal.gz", gzip.compress)):
        for path in (tmp_path / name, tmp_path / "a.txt"):
            path.write_bytes(pack(TINY.encode()))
            assert daba.io.load(path).num_observations == 4


def test_standard_reading_of_pinholes_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "tiny.txt"
    path.write_text(TINY.replace("1e-8", "0"))
    problem = daba.io.load(path, intrinsics="standard")
    np.testing.assert_allclose(problem.intrinsics, [[1, 0, 0]] * 2, rtol=0, atol=1e-12)
    assert problem.info["intrinsics_fit"]["max_px"] < 1e-9


def test_unknown_reading_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.txt"
    path.write_text(TINY)
    with pytest.raises(DabaError, match="'paper' or 'standard'"):
        daba.io.load(path, intrinsics="brown")  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", [".txt", ".bal", ".txt.bz2", ".txt.gz"])
def test_an_independent_reader_sees_the_same_pixel_errors(suffix: str, tmp_path: Path) -> None:
    problem = plain_bal.scene()
    path = tmp_path / f"out{suffix}"
    daba.io.save(problem, path)
    read = plain_bal.read(path)
    np.testing.assert_allclose(plain_bal.pixel_errors(read), pixel_errors(problem), rtol=1e-6)
    assert [o[0] for o in read[0]] == problem.camera_index.tolist()
    assert [o[1] for o in read[0]] == problem.point_index.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_reading_back_gives_the_same_objective_and_pixel_error(seed: int, tmp_path: Path) -> None:
    problem = plain_bal.scene(seed, cameras=20, points=200)
    path = tmp_path / "out.txt"
    daba.io.save(problem, path)
    again = daba.io.load(path, intrinsics="standard")
    assert plain_bal.objective(again) == pytest.approx(plain_bal.objective(problem), rel=1e-5)
    assert pixel_error(again).rms == pytest.approx(pixel_error(problem).rms, rel=1e-4)
    np.testing.assert_allclose(again.focal, problem.focal, rtol=1e-14)
    np.testing.assert_allclose(again.weights, problem.weights, rtol=1e-12)
    np.testing.assert_allclose(again.points, problem.points, rtol=1e-15)
    np.testing.assert_allclose(again.rotations, problem.rotations, atol=1e-14)
    np.testing.assert_allclose(again.centers, problem.centers, atol=1e-13)


def test_what_was_read_is_what_is_written(tmp_path: Path) -> None:
    path, again = tmp_path / "tiny.txt", tmp_path / "again.txt"
    path.write_text(TINY.replace("1e-8", "0"))
    daba.io.save(daba.io.load(path, intrinsics="standard"), again)
    assert again.read_text().splitlines()[:5] == TINY.splitlines()[:5]
    assert not weights_path(again).exists()  # the focal lengths are those divided by
    before, after = plain_bal.read(path), plain_bal.read(again)
    np.testing.assert_allclose(after[1], before[1], atol=1e-14)
    np.testing.assert_array_equal(after[2], before[2])


def test_the_file_holds_numbers_only(tmp_path: Path) -> None:
    problem = plain_bal.scene()
    daba.io.save(problem, tmp_path / "out.txt")
    numbers = [float(token) for token in (tmp_path / "out.txt").read_text().split()]
    C, P, K = problem.num_cameras, problem.num_points, problem.num_observations
    assert len(numbers) == 3 + 4 * K + 9 * C + 3 * P


def test_without_the_weights_a_file_is_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    daba.io.save(plain_bal.scene(), path)
    content = json.loads((tmp_path / "out.txt.weights.json").read_text())
    assert content["format"] == "daba weights"
    assert content["focal"] == [camera[6] for camera in plain_bal.read(path)[1]]
    assert content["divisor"] == plain_bal.scene().focal.tolist()
    (tmp_path / "out.txt.weights.json").unlink()
    problem = daba.io.load(path, intrinsics="standard")
    assert problem.focal.tolist() == content["focal"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"focal": [1.0] * 6}, "it belongs to a file with other focal lengths"),
        ({"focal": []}, "it belongs to a file with other focal lengths"),
        ({"version": 2}, "it holds 'daba weights' version 2, not"),
        ({"format": "else"}, "it holds 'else' version 1, not"),
        ({"divisor": [1.0] * 5}, "it is damaged"),
        ({"divisor": [-1.0] * 6}, "it is damaged"),
        ({"divisor": ["x"] * 6}, "it is damaged"),
        (None, "it is damaged"),
    ],
)
def test_weights_that_do_not_fit_are_ignored(
    change: dict[str, object] | None, reason: str, tmp_path: Path
) -> None:
    path, beside = tmp_path / "out.txt", tmp_path / "out.txt.weights.json"
    daba.io.save(plain_bal.scene(), path)
    content = json.loads(beside.read_text())
    text = beside.read_text()[:100] if change is None else json.dumps(content | change)
    beside.write_text(text)
    with pytest.warns(DabaWarning, match=rf"out\.txt\.weights\.json is ignored: {reason}"):
        problem = daba.io.load(path, intrinsics="standard")
    assert problem.focal.tolist() == content["focal"]
    daba.io.load(path, intrinsics="paper")  # the paper's reading does not look at it


def test_stale_weights_do_not_survive(tmp_path: Path) -> None:
    path, beside = tmp_path / "out.txt", tmp_path / "out.txt.weights.json"
    daba.io.save(plain_bal.scene(), path)
    assert beside.exists()
    plain = tmp_path / "plain.txt"
    plain.write_text(TINY.replace("1e-8", "0"))
    daba.io.save(daba.io.load(plain, intrinsics="standard"), path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.txt", "plain.txt"]


def test_weights_stay_beside_the_target_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "there" / "target.txt")
    daba.io.save(plain_bal.scene(), link)
    assert (tmp_path / "there" / "target.txt.weights.json").exists()
    again = daba.io.load(link, intrinsics="standard")
    np.testing.assert_array_equal(again.focal, plain_bal.scene().focal)


def test_cameras_with_hardly_any_observations_are_written(tmp_path: Path) -> None:
    full = plain_bal.scene(cameras=4)
    keep = np.ones(full.num_observations, bool)
    for camera, count in ((1, 1), (2, 2), (3, 0)):
        keep[np.flatnonzero(full.camera_index == camera)[count:]] = False
    problem = Problem(
        **{
            **vars(full),
            "camera_index": full.camera_index[keep],
            "point_index": full.point_index[keep],
            "u": full.u[keep],
            "weights": full.weights[keep],
        }
    )
    path = tmp_path / "out.txt"
    daba.io.save(problem, path)
    again = daba.io.load(path, intrinsics="standard")
    assert plain_bal.objective(again) == pytest.approx(plain_bal.objective(problem), rel=1e-6)


unit = st.floats(-1, 1, allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(
    st.tuples(unit, unit, unit).filter(lambda v: np.linalg.norm(v) > 1e-3),
    st.one_of(
        st.floats(0, np.pi),
        st.floats(0, 1e-6),
        st.floats(0, 1e-6).map(lambda x: np.pi - x),
        st.sampled_from([0.0, 1e-300, 1e-160, np.pi / 2, np.pi]),
    ),
)
def test_angle_axis_there_and_back(axis: tuple[float, float, float], angle: float) -> None:
    v = angle * np.array(axis) / np.linalg.norm(axis)
    R = bal.rotation_matrices(v[None])
    np.testing.assert_allclose(R[0] @ R[0].T, np.eye(3), atol=4e-15)
    back = bal.angle_axes(R)[0]
    np.testing.assert_allclose(bal.rotation_matrices(back[None]), R, atol=4e-15)
    if angle < 3.1:  # at π, v and −v are the same rotation
        np.testing.assert_allclose(back, v, rtol=1e-12, atol=1e-14)


def test_pixels_are_those_of_the_format(tmp_path: Path) -> None:
    """The pixel error is BAL's own formula, parameters are the file's, and a solution in pixels is
    written with the very numbers that were found."""
    daba.save(plain_bal.scene(), tmp_path / "a.txt")
    start = daba.load(tmp_path / "a.txt", "standard")
    read = plain_bal.read(tmp_path / "a.txt")
    model = np.array(read[1])[:, 6:]
    np.testing.assert_array_equal(start.optics.params[:, [0, 3, 4]], model)
    assert not start.optics.params[:, [1, 2]].any()
    np.testing.assert_allclose(pixel_errors(start), plain_bal.pixel_errors(read), rtol=1e-9)
    behind = start.changed(points=2 * start.centers[0] - start.points)
    assert np.isfinite(pixel_errors(behind)).all()
    optics = start.optics
    params = optics.params * np.linspace(0.99, 1.01, optics.params.size).reshape(-1, 16)
    solved = start.with_optics(replace(optics, params=params), start.points + 0.01, start.poses)
    daba.save(solved, tmp_path / "b.txt")
    assert not (tmp_path / "b.txt.weights.json").exists()
    after = plain_bal.read(tmp_path / "b.txt")
    np.testing.assert_array_equal(np.array(after[1])[:, 6:], params[:, [0, 3, 4]])
    np.testing.assert_allclose(pixel_errors(solved), plain_bal.pixel_errors(after), rtol=1e-9)
    np.testing.assert_array_equal(solved.focal, params[:, 0])
    np.testing.assert_allclose(solved.pixels, start.pixels, rtol=1e-12, atol=1e-12)
    again = daba.load(tmp_path / "b.txt", "standard")
    assert again.objective() == pytest.approx(solved.objective(), rel=1e-9)


def test_pixels_of_a_store_that_only_has_rays(tmp_path: Path) -> None:
    """Cameras are fitted to the rays of all devices, as those of the whole problem are."""
    problem = plain_bal.scene()
    writing.save(problem, tmp_path / "a.daba", devices=3)
    there = store.Store(tmp_path / "a.daba")
    np.testing.assert_allclose(there.optics.params, problem.optics.params, rtol=1e-9, atol=1e-12)
    for device in range(3):
        piece = there.device_block(device, "pixel")
        ids = there.numbers(device)
        for records, number in zip((piece.intra, piece.inter), ids, strict=True):
            np.testing.assert_array_equal(records.u, problem.pixels[number])
            assert (records.weight == 1).all()


def test_a_problem_in_pixels_can_be_pickled(tmp_path: Path) -> None:
    daba.save(plain_bal.scene(), tmp_path / "a.txt")
    start = daba.load(tmp_path / "a.txt", "standard")
    solved = start.with_optics(start.optics, start.points + 0.01, start.poses)
    again = pickle.loads(pickle.dumps(solved))
    assert not again.has_rays
    np.testing.assert_array_equal(again.u, solved.u)
    with pytest.raises(AttributeError):
        again.nothing  # noqa: B018
