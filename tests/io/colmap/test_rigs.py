"""Rigs of several cameras, and what a problem says of its cameras in pixels, against pycolmap."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from colmap_models import PARAMS, mean_error, pycolmap, read, synthetic, written

import daba
from daba.core.camera_models import MODELS
from daba.core.errors import DabaError
from daba.distributed.shard import make_shard
from daba.io.store.solution import write_solution
from daba.partition.partition import make_partition, partition_from_arrays
from daba.problem.optics import Optics, reprojection_errors
from daba.problem.pixel_errors import mean_reprojection_error
from daba.problem.problem import Problem
from daba.tools.cli import main
from daba.tools.viewer.subject import subject_of
from helpers import rng, turned

Capsys = pytest.CaptureFixture[str]
KINDS = ("binary", "text")


@pytest.fixture(scope="module", params=KINDS)
def folder(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rigs of 3 sensors, 4 frames of each."""
    place = tmp_path_factory.mktemp(request.param) / "model"
    return written(synthetic(sensors=3, images=4, points=60), place, request.param)


def solved(problem: Problem, seed: int = 0) -> Problem:
    """Another estimate in pixels: frames, sensors, parameters and points moved."""
    random, optics = rng(seed), problem.optics
    params = optics.params * np.where(optics.refined, 1 + 1e-3 * random.normal(size=(16,)), 1.0)
    changes: dict[str, Any] = {"params": params}
    poses = _shaken(problem.poses, random)
    if optics.frames is not None and optics.sensors is not None:
        sensors = _shaken(optics.sensors, random)
        sensors[0] = optics.sensors[0]
        changes |= {"frames": _shaken(optics.frames, random), "sensors": sensors}
    points = problem.points + 1e-3 * random.normal(size=problem.points.shape)
    return problem.with_optics(replace(optics, **changes), points, poses)


def _shaken(records: np.ndarray, random: np.random.Generator) -> np.ndarray:
    padded = np.pad(records, ((0, 0), (0, 3)))
    new = turned(padded, 1e-3 * random.normal(size=(len(records), 3)))[:, :12]
    new[:, 9:] += 1e-3 * random.normal(size=(len(records), 3))
    return np.asarray(new)


def check_images(r: Any, problem: Problem) -> None:
    for number, pose in zip(problem.image_ids, problem.cam_from_world, strict=True):
        theirs = r.images[int(number)].cam_from_world().matrix()
        np.testing.assert_allclose(pose, theirs, atol=1e-12)


def test_frames_and_sensors_are_those_of_pycolmap(folder: Path) -> None:
    r, problem = read(folder), daba.load(folder)
    optics = problem.optics
    assert optics.rigs
    assert optics.frames is not None
    assert optics.sensors is not None
    assert len(optics.frames) == r.num_frames()
    assert len(optics.sensors) == 1 + 2 * 2  # the rigs' own place, and two more on each
    assert optics.refined_sensors is not None
    assert optics.refined_sensors.tolist() == [False, True, True, True, True]
    check_images(r, problem)
    assert mean_reprojection_error(problem) == pytest.approx(mean_error(r), rel=1e-9)


def test_a_solution_in_pixels_is_written_and_read(folder: Path, tmp_path: Path) -> None:
    problem = solved(daba.load(folder))
    daba.save(problem, tmp_path / "out")
    before, after = read(folder), read(tmp_path / "out")
    check_images(after, problem)
    error = mean_reprojection_error(problem)
    assert mean_error(after) == pytest.approx(error, rel=1e-9)
    assert error > 1.1 * mean_error(before)
    assert after.num_rigs() == before.num_rigs()
    for number, rig in before.rigs.items():
        assert after.rigs[number].sensor_ids() == rig.sensor_ids()
    for number, frame in before.frames.items():
        assert after.frames[number].data_ids == frame.data_ids
    for number, params in problem.camera_params.items():
        np.testing.assert_array_equal(after.cameras[number].params, params)
    again, sensors = daba.load(tmp_path / "out").optics.sensors, problem.optics.sensors
    assert again is not None
    assert sensors is not None
    np.testing.assert_allclose(again, sensors, atol=1e-12)


def test_nothing_changes_without_a_solve(folder: Path, tmp_path: Path) -> None:
    daba.save(daba.load(folder), tmp_path / "out")
    for path in folder.iterdir():
        if not path.name.startswith("points3D"):  # errors of points are computed anew
            assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


def test_images_moved_one_by_one_are_put_where_their_rig_allows(folder: Path) -> None:
    problem = daba.load(folder)
    cameras = problem.cameras.copy()
    cameras[:, 9:12] += 1e-3 * rng(0).normal(size=(len(cameras), 3))
    moved = problem.with_estimate(cameras, problem.points)
    np.testing.assert_allclose(moved.poses, moved.optics.image_poses(), atol=1e-14)
    assert np.abs(moved.centers - cameras[:, 9:12]).max() < 4e-3
    np.testing.assert_array_equal(moved.optics.sensors, problem.optics.sensors)
    shift = problem.cameras.copy()
    shift[:, 9:12] += [1.0, 2.0, 3.0]  # all of them together: nothing to correct
    whole = problem.with_estimate(shift, problem.points + [1.0, 2.0, 3.0])
    np.testing.assert_allclose(whole.centers, shift[:, 9:12], atol=1e-12)


@pytest.mark.parametrize("name", ["a.npz", "a.daba"])
def test_npz_and_store_keep_all_of_it(name: str, folder: Path, tmp_path: Path) -> None:
    problem = daba.constrain(solved(daba.load(folder)), fix=("intrinsics",))
    daba.save(problem, tmp_path / name)
    again = daba.load(tmp_path / name)
    for what in ("u", "weights", "focal", "cameras", "pixels", "poses"):
        np.testing.assert_array_equal(getattr(again, what), getattr(problem, what))
    for what in Optics.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(again.optics, what), getattr(problem.optics, what))
    assert not again.optics.with_refined().refined.any()


def test_frames_stay_on_one_device(folder: Path, tmp_path: Path) -> None:
    problem = daba.load(folder)
    frame = problem.optics.frame
    assert frame is not None
    partition = make_partition(problem, 3)
    for one in range(frame.max() + 1):
        assert len(set(partition.camera_device[frame == one])) == 1
    shard = make_shard(problem, partition, "pixel")
    assert not problem.has_rays  # nobody has asked for them
    order = frame[shard.camera_order]
    assert (np.diff(order) != 0).sum() == frame.max()  # each frame's images follow each other
    parts = shard.intra, shard.inter
    camera, point, u = (
        np.concatenate([getattr(part, what) for part in parts]) for what in ("camera", "point", "u")
    )
    ids = np.lexsort((shard.point_order[point], shard.camera_order[camera]))
    mine = np.lexsort((problem.point_index, problem.camera_index))
    np.testing.assert_array_equal(u[ids], problem.pixels[mine])
    apart = partition.camera_device.copy()
    apart[frame == 0] = np.arange((frame == 0).sum()) % 3
    with pytest.raises(DabaError, match="are of one frame of a rig"):
        partition_from_arrays(problem, apart)
    with pytest.raises(DabaError, match="9 devices but only 8 frames"):
        make_partition(problem, 9)


def test_devices_read_their_own_pixels_from_a_store(folder: Path, tmp_path: Path) -> None:
    problem = daba.load(folder)
    daba.io.store.save(problem, tmp_path / "a.daba", devices=3)
    store = daba.Store(tmp_path / "a.daba")
    shard = make_shard(problem, store.partition(), "pixel")
    pieces = [store.device_block(device, "pixel") for device in range(3)]
    np.testing.assert_array_equal(np.concatenate([p.intra.u for p in pieces]), shard.intra.u)
    assert (pieces[0].intra.weight == 1).all()
    for what, table in problem.optics.tables().items():
        if what != "rays":
            np.testing.assert_array_equal(getattr(store.optics, what), table)
    new = solved(problem)
    order = [store.array(device, "camera_id") for device in range(3)]
    records = np.pad(new.poses, ((0, 0), (0, 3)))
    states = [(records[c], new.points[p.point_id]) for c, p in zip(order, pieces, strict=True)]
    write_solution(store, tmp_path / "b.daba", states, new.optics)
    again = daba.load(tmp_path / "b.daba")
    np.testing.assert_array_equal(reprojection_errors(again)[0], reprojection_errors(new)[0])
    with pytest.raises(DabaError, match="is a solution in pixels"):
        daba.Store(tmp_path / "b.daba").device_block(0)


@pytest.mark.parametrize("model", PARAMS)
def test_every_model_in_pixels(model: str, tmp_path: Path) -> None:
    """Parameters that a solve has changed are written, and are what rays are then made of."""
    folder = written(synthetic(model, images=3, points=40), tmp_path / "model")
    start = daba.load(folder)
    assert not start.has_rays
    known = MODELS[model]
    assert start.optics.refined[0, : known.count].tolist() == [
        name not in ("cx", "cy", "width", "height") for name in known.parameters
    ]
    problem = solved(start)
    daba.save(problem, tmp_path / "out")
    after = read(tmp_path / "out")
    assert mean_error(after) == pytest.approx(mean_reprojection_error(problem), rel=1e-9)
    for number, params in problem.camera_params.items():
        np.testing.assert_array_equal(after.cameras[number].params, params)
    if known.focals:
        assert problem.focal[0] == pytest.approx(after.cameras[1].mean_focal_length(), rel=1e-3)
    assert (problem.focal[0] != start.focal[0]) == (model != "EQUIRECTANGULAR")
    before = mean_reprojection_error(problem)
    problem.u  # noqa: B018 (the rays, from now on)
    assert mean_reprojection_error(problem.changed(name="x")) == before


def test_what_is_refined(tmp_path: Path) -> None:
    problem = daba.load(written(synthetic("OPENCV", sensors=2), tmp_path / "model"))
    optics = problem.optics.with_refined(False, True, True, False)
    assert np.flatnonzero(optics.refined[0]).tolist() == [2, 3, 4, 5, 6, 7]
    assert optics.refined_sensors is not None
    assert not optics.refined_sensors.any()
    (tmp_path / "fixed").write_text("0\n")
    fixed = daba.constrain(problem, fix=(f"intrinsics:{tmp_path / 'fixed'}",)).optics.with_refined()
    held = np.arange(len(fixed.model)) == fixed.camera[0]
    np.testing.assert_array_equal(fixed.refined.any(axis=1), ~held)
    poses = daba.constrain(problem, fix=("poses",)).optics.with_refined()
    assert poses.refined_sensors is not None
    assert not poses.refined_sensors.any()
    assert poses.refined.any()
    gauge = daba.constrain(problem, fix=("gauge",)).optics.with_refined()
    np.testing.assert_array_equal(gauge.refined_sensors, [False, True, True])


def test_commands_open_rigs(folder: Path, tmp_path: Path, capsys: Capsys) -> None:
    assert main(["info", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["optics"]
    assert said["models"] == {"SIMPLE_RADIAL": {"cameras": 6, "images": 24}}
    assert (said["frames"], said["sensors"]) == (8, 5)
    assert said["colmap_error"] == pytest.approx(mean_error(read(folder)), rel=1e-9)
    assert main(["info", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "6 SIMPLE_RADIAL of 24 images" in out
    assert "8 frames, 5 sensors" in out
    assert main(["convert", str(folder), str(tmp_path / "out")]) == 0
    assert read(tmp_path / "out").num_frames() == 8
    assert main(["convert", str(folder), str(tmp_path / "a.daba"), "--devices", "2"]) == 0
    again = daba.load(tmp_path / "a.daba")
    assert again.image_names == daba.load(folder).image_names
    subject = subject_of(again, devices=99)
    assert subject.devices().devices == 8


def test_pycolmap_sees_the_same_after_text(folder: Path, tmp_path: Path) -> None:
    problem = solved(daba.load(folder))
    for kind in KINDS:
        daba.save(problem, tmp_path / kind, kind=kind)  # type: ignore[arg-type]
        r = pycolmap.Reconstruction(str(tmp_path / kind))
        assert mean_error(r) == pytest.approx(mean_reprojection_error(problem), rel=1e-9)


def test_a_sensor_whose_pose_is_cut_short(tmp_path: Path) -> None:
    folder = written(synthetic(sensors=3, images=4, points=60), tmp_path / "model", "text")
    rigs = folder / "rigs.txt"
    lines = rigs.read_text().splitlines()
    at = next(k for k, line in enumerate(lines) if line and line[0] != "#")
    lines[at] = " ".join(lines[at].split()[:-1])
    rigs.write_text("\n".join(lines) + "\n")
    with pytest.raises(daba.DabaError, match=rf"rigs\.txt.*line {at + 1} is damaged or cut short"):
        daba.load(folder)
