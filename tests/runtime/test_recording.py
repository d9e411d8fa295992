"""Recorded solves: the right iterations, the right numbers, and errors in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import daba
from daba.problem.problem import Problem
from daba.runtime.recording import Recorder, Snapshot, Still, is_recording, read_recording


@pytest.fixture(scope="module")
def start() -> Problem:
    problem = daba.generate(daba.SceneOptions(cameras=12, points=150, seed=5)).start
    far = problem.cameras.copy()
    far[:, 9:12] += [4e6, -2e6, 300.0]  # as in a map
    moved = problem.with_estimate(far, problem.points + [4e6, -2e6, 300.0])
    moved.info["colors"] = np.arange(450).reshape(150, 3) % 256
    return moved


def test_first_and_last_are_start_and_solution(start: Problem, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "film", info=start.info)
    result = daba.solve(start, method="daba", devices=3, iterations=24, recorder=recorder)
    assert is_recording(tmp_path / "film")
    still, shots = read_recording(tmp_path / "film")
    assert [shot.iteration for shot in shots] == [*range(21), 22, 24]
    assert result.partition is not None
    np.testing.assert_array_equal(
        still.camera_device, result.partition.camera_device[still.camera_id]
    )
    np.testing.assert_array_equal(still.colors, start.info["colors"][still.point_id])
    for shot, problem in ((shots[0], start), (shots[-1], result.problem)):
        # single precision, from the middle of the cameras on
        np.testing.assert_allclose(
            shot.points + still.origin, problem.points[still.point_id], atol=2e-4, rtol=0
        )
        np.testing.assert_allclose(
            shot.cameras[:, 9:] + still.origin, problem.centers[still.camera_id], atol=2e-4, rtol=0
        )
        np.testing.assert_allclose(
            shot.cameras[:, :9], problem.cameras[still.camera_id, :9], atol=1e-6
        )
    entry = result.history[-1]
    assert (shots[-1].mean_objective, shots[-1].seconds) == (entry.mean_objective, entry.seconds)


def test_of_many_a_part_is_taken(
    start: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daba.runtime.recording.POINTS", 40)
    monkeypatch.setattr("daba.runtime.recording.CAMERAS", 4)
    daba.solve(start, iterations=1, recorder=Recorder(tmp_path / "film"))
    still, shots = read_recording(tmp_path / "film")
    assert sorted(still.camera_id) == [0, 3, 6, 9]
    assert sorted(still.point_id) == list(range(0, 150, 3))
    assert shots[0].points.shape == (50, 3)
    assert len(still.colors) == 0


def test_a_solve_that_goes_on_is_one_film(start: Problem, tmp_path: Path) -> None:
    """Another partition, and iterations and seconds that are counted on."""
    recorder = Recorder(tmp_path / "film")
    first = daba.solve(start, method="daba", devices=3, iterations=4, recorder=recorder)
    last = daba.solve(first.problem, devices=2, iterations=3, recorder=recorder)
    still, shots = read_recording(tmp_path / "film")
    assert [shot.iteration for shot in shots] == list(range(8))
    assert shots[-1].seconds == first.seconds + last.seconds
    np.testing.assert_array_equal(still.point_id, np.arange(150))
    for shot, problem in ((shots[4], first.problem), (shots[7], last.problem)):
        np.testing.assert_allclose(shot.points + still.origin, problem.points, atol=2e-4, rtol=0)


def test_watchers_see_what_is_written(start: Problem, tmp_path: Path) -> None:
    seen: list[tuple[Still, Snapshot]] = []
    recorder = Recorder(tmp_path / "film", [lambda *both: seen.append(both)])
    daba.solve(start, method="duba", devices=2, iterations=3, recorder=recorder)
    _, shots = read_recording(tmp_path / "film")
    assert [shot.iteration for _, shot in seen] == [0, 1, 2, 3]
    for (_, mine), theirs in zip(seen, shots, strict=True):
        np.testing.assert_array_equal(mine.points, theirs.points)


def test_a_full_disk_does_not_end_the_solve(
    start: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise daba.DabaError("no space left")

    monkeypatch.setattr("daba.runtime.recording.open_output", full)
    with pytest.warns(daba.DabaWarning, match=r"the recording failed .*no space left"):
        result = daba.solve(start, iterations=2, recorder=Recorder(tmp_path / "film"))
    assert result.history[-1].iteration == 2


def test_a_page_that_fails_does_not_end_the_solve(start: Problem) -> None:
    calls = []

    def fail(*_: object) -> None:
        calls.append(1)
        raise OSError("the browser is on fire")

    with pytest.warns(daba.DabaWarning, match=r"the view .*the browser is on fire"):
        result = daba.solve(start, iterations=2, recorder=Recorder(watchers=[fail]))
    assert result.history[-1].iteration == 2
    assert len(calls) == 1


def test_folders_that_will_not_do(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    for path, words in (
        (tmp_path, "not empty"),
        (tmp_path / "a", "it is a file"),
        (tmp_path / "a" / "c", "a is a file, not a folder"),
    ):
        with pytest.raises(daba.DabaError, match=words):
            Recorder(path)


def test_damaged_recordings(start: Problem, tmp_path: Path) -> None:
    film = tmp_path / "film"
    daba.solve(start, iterations=1, recorder=Recorder(film))
    shot = film / "iteration-00000001.npz"
    whole = shot.read_bytes()
    shot.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(daba.DabaError, match=r"iteration-00000001\.npz is damaged"):
        read_recording(film)
    with np.load(film / "iteration-00000000.npz") as first:
        np.savez(shot, **{**first, "points": np.zeros((3, 3))})
    with pytest.raises(daba.DabaError, match="does not belong to"):
        read_recording(film)
    for path in film.glob("iteration-*"):
        path.unlink()
    with pytest.raises(daba.DabaError, match="holds no iteration"):
        read_recording(film)
