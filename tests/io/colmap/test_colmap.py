"""COLMAP models in and out, against pycolmap."""

from __future__ import annotations

import shutil
import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from colmap_models import PARAMS, mean_error, pycolmap, read, synthetic, written

import daba
from daba.core.errors import DabaError, DabaWarning
from daba.io.colmap.model import Model
from daba.io.colmap.parts import MODELS
from daba.problem.pixel_errors import mean_reprojection_error
from daba.problem.problem import Problem
from daba.problem.rays import COEFFICIENTS, free_coefficients, rays_fit
from daba.tools.cli import main
from helpers import rng, turned

KINDS = ("binary", "text")


@pytest.fixture(scope="module", params=KINDS)
def folder(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two SIMPLE_RADIAL cameras with six images each."""
    place = tmp_path_factory.mktemp(request.param) / "model"
    return written(synthetic(), place, request.param)


def moved(problem: Problem, seed: int = 1) -> Problem:
    """Another estimate of the same problem, with intrinsics that move where they may."""
    random = rng(seed)
    C = problem.num_cameras
    cameras = turned(problem.cameras, 0.01 * random.normal(size=(C, 3)))
    cameras[:, 9:12] += 0.02 * random.normal(size=(C, 3))
    assert problem.shared is not None
    change = 0.01 * random.normal(size=(problem.shared.max() + 1, 3))[problem.shared]
    free = free_coefficients(problem.optics)[problem.optics.camera]
    cameras[:, 12:] += np.where(free, change, 0.0)
    points = problem.points + 0.02 * random.normal(size=problem.points.shape)
    return problem.with_estimate(cameras, points)


def test_models_are_those_of_pycolmap() -> None:
    theirs = {
        name: (int(number), len(pycolmap.Camera.create_from_model_name(1, name, 9.0, 8, 6).params))
        for name, number in pycolmap.CameraModelId.__members__.items()
        if name != "INVALID"
    }
    assert MODELS.items() <= theirs.items()  # a newer one may have more


def test_problem_is_that_of_pycolmap(folder: Path) -> None:
    r, problem = read(folder), daba.load(folder)
    assert problem.num_points == r.num_points3D()
    assert problem.num_observations == r.compute_num_observations()
    assert problem.num_cameras == r.num_images()
    model = Model(folder)
    for i, row in enumerate(problem.info["registered"]):
        image = r.images[int(model.images.ids[row])]
        np.testing.assert_allclose(problem.centers[i], image.projection_center(), atol=1e-12)
        matrix = image.cam_from_world().rotation.matrix()
        np.testing.assert_allclose(problem.rotations[i].T, matrix, atol=1e-12)
        mine = problem.camera_index == i
        keys = problem.info["keys"][mine]
        np.testing.assert_array_equal(keys, image.get_observation_point2D_idxs())
        ids = [image.points2D[int(k)].point3D_id for k in keys]
        np.testing.assert_array_equal(model.points.ids[problem.point_index[mine]], ids)
        assert problem.info["images"][row] == image.name
    assert len(set(np.asarray(problem.shared).tolist())) == r.num_cameras()


@pytest.mark.parametrize("model", PARAMS)
def test_rays_and_pixel_errors_of_every_model(model: str, tmp_path: Path) -> None:
    r = synthetic(model, images=3, points=60, noise=1.0)
    folder = written(r, tmp_path / "model")
    problem = daba.load(folder)
    s = np.einsum("kx,kx->k", problem.u, problem.u)
    d = problem.intrinsics[problem.camera_index]
    ray = np.column_stack([problem.u, d[:, 0] + s * (d[:, 1] + s * d[:, 2])])
    ray /= np.linalg.norm(ray, axis=1, keepdims=True)
    parts = Model(folder)
    assert problem.shared is not None
    for i, row in enumerate(problem.info["registered"]):
        k = np.flatnonzero(problem.camera_index == i)
        xy = parts.images.xy[parts.images.ptr[row] + problem.info["keys"][k]]
        camera = r.cameras[int(problem.info["camera_ids"][problem.shared[i]])]
        # the polynomial is a fit: good to a hundredth of a pixel; others are exact
        close = 1e-5 if model in ("SIMPLE_RADIAL", "RADIAL") else 1e-9
        np.testing.assert_allclose(ray[k], camera.cam_ray_from_img(xy), atol=close)
    assert mean_reprojection_error(problem) == pytest.approx(mean_error(r), rel=1e-9)
    assert daba.pixel_error(problem).mean > 0.5
    free = np.ones((problem.num_cameras, 9), bool)
    if problem.constraints is not None and problem.constraints.free_cameras is not None:
        free = problem.constraints.free_cameras
    assert free[:, :6].all()
    assert free[0, 6:].tolist() == list(COEFFICIENTS.get(MODELS[model][0], (False,) * 3))


@pytest.mark.parametrize("model", ["SIMPLE_PINHOLE", "RADIAL", "OPENCV", "OPENCV_FISHEYE"])
def test_weights_make_pixels(model: str, tmp_path: Path) -> None:
    """ω|e| is the pixel error for small errors, on the average of directions."""
    problem = daba.load(written(synthetic(model, noise=0.0), tmp_path / "model"))
    random = rng(0)
    close = problem.points + 1e-5 * random.normal(size=problem.points.shape)
    near = problem.with_estimate(problem.cameras, close)
    rms = daba.pixel_error(near).rms
    assert np.sqrt(2 * near.objective() / near.num_observations) == pytest.approx(rms, rel=0.02)


def test_nothing_changes_without_a_solve(folder: Path, tmp_path: Path) -> None:
    problem = daba.load(folder)
    daba.save(problem, tmp_path / "out")
    names = sorted(path.name for path in folder.iterdir())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    for name in names:
        if not name.startswith("points3D"):  # errors of points are computed anew
            assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()
    before, after = read(folder), read(tmp_path / "out")
    for number, point in before.points3D.items():
        np.testing.assert_array_equal(after.points3D[number].xyz, point.xyz)
        assert after.points3D[number].error == pytest.approx(point.error, abs=1e-9)


def test_a_solution_is_written(folder: Path, tmp_path: Path) -> None:
    problem = moved(daba.load(folder))
    daba.save(problem, tmp_path / "out")
    before, after = read(folder), read(tmp_path / "out")
    error = mean_reprojection_error(problem)
    assert after.compute_mean_reprojection_error() == pytest.approx(error, rel=1e-12)
    assert mean_error(after) == pytest.approx(error, rel=1e-9)
    ids = Model(folder).images.ids[problem.info["registered"]]
    for i, number in enumerate(ids.tolist()):
        image = after.images[number]
        np.testing.assert_allclose(image.projection_center(), problem.centers[i], atol=1e-12)
        matrix = image.cam_from_world().rotation.matrix()
        np.testing.assert_allclose(matrix.T, problem.rotations[i], atol=1e-12)
        assert image.name == before.images[number].name
    assert after.point3D_ids() == before.point3D_ids()
    order = Model(folder).points.ids.tolist()
    for point, number in zip(problem.points, order, strict=True):
        np.testing.assert_array_equal(after.points3D[number].xyz, point)
        np.testing.assert_array_equal(after.points3D[number].color, before.points3D[number].color)
        assert after.points3D[number].track.length() == before.points3D[number].track.length()
    assert after.num_rigs() == before.num_rigs()
    assert rays_fit(problem)["max_px"] < 0.5


@pytest.mark.parametrize("model", ["SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL"])
def test_intrinsics_go_back(model: str, tmp_path: Path) -> None:
    """A camera read with another focal length, moved to the rays of the first, is the first."""
    folder = written(synthetic(model, cameras=1, noise=0.0), tmp_path / "a")
    aim = daba.load(folder)
    r = read(folder)
    other = r.cameras[1]
    params = np.array(other.params)
    focal = other.focal_length_idxs()
    params[focal] *= 1.02
    other.params = params
    start = daba.load(written(r, tmp_path / "b"))
    scale = start.focal[0] / aim.focal[0]
    cameras = start.cameras.copy()
    cameras[:, 12:] = aim.intrinsics / scale ** np.array([1, -1, -3])
    daba.save(start.with_estimate(cameras, start.points), tmp_path / "out")
    back = read(tmp_path / "out").cameras[1].params
    np.testing.assert_allclose(back, PARAMS[model], rtol=1e-4, atol=1e-4)


def test_cameras_that_keep_their_intrinsics_are_written_as_they_were(tmp_path: Path) -> None:
    folder = written(synthetic("OPENCV_FISHEYE"), tmp_path / "model")
    daba.save(moved(daba.load(folder)), tmp_path / "out")
    name = "cameras.bin"
    assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_other_kind(kind: Any, folder: Path, tmp_path: Path) -> None:
    problem = moved(daba.load(folder))
    daba.save(problem, tmp_path / "out", kind=kind)
    suffixes = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert suffixes == {".txt" if kind == "text" else ".bin"}
    after = read(tmp_path / "out")
    assert mean_error(after) == pytest.approx(mean_reprojection_error(problem), rel=1e-9)


def test_what_was_dropped_is_taken_from_tracks(folder: Path, tmp_path: Path) -> None:
    """As COLMAP's own filter does it, observation by observation."""
    problem = daba.load(folder)
    kept, dropped = daba.filter_outliers(problem, 0.2)
    assert 0 < dropped.beyond < problem.num_observations
    assert dropped.points > 0
    daba.save(kept, tmp_path / "out")
    aim, ids = read(folder), Model(folder).images.ids[problem.info["registered"]]
    gone = np.setdiff1d(_pairs(problem, ids), _pairs(kept, ids))
    for pair in gone.tolist():
        number, key = divmod(pair, 1 << 20)
        if aim.images[number].points2D[key].has_point3D():  # not with its point already
            aim.delete_observation(number, key)
    after = read(tmp_path / "out")
    assert after.point3D_ids() == aim.point3D_ids()
    for number, point in aim.points3D.items():
        theirs = sorted((e.image_id, e.point2D_idx) for e in point.track.elements)
        track = after.points3D[number].track.elements
        assert sorted((e.image_id, e.point2D_idx) for e in track) == theirs
    for number, image in aim.images.items():
        idxs = after.images[number].get_observation_point2D_idxs()
        np.testing.assert_array_equal(idxs, image.get_observation_point2D_idxs())
    assert after.compute_mean_reprojection_error() == pytest.approx(mean_error(aim), rel=1e-9)
    assert mean_reprojection_error(kept) == pytest.approx(mean_error(aim), rel=1e-9)


def _pairs(problem: Problem, ids: np.ndarray) -> np.ndarray:
    return ids[problem.camera_index] * (1 << 20) + problem.info["keys"]


def test_images_without_a_pose_stay(tmp_path: Path) -> None:
    """pycolmap itself would lose them."""
    r = synthetic(cameras=1)
    folder = written(r, tmp_path / "model")
    for part in ("rigs", "frames"):
        (folder / f"{part}.bin").unlink()
    data = (folder / "images.bin").read_bytes()
    (count,) = struct.unpack_from("<Q", data)
    lost = struct.pack("<I7dI", 99, *[np.nan] * 7, 1) + b"lost.jpg\0" + struct.pack("<Q", 1)
    lost += struct.pack("<ddq", 1.0, 2.0, -1)
    (folder / "images.bin").write_bytes(struct.pack("<Q", count + 1) + data[8:] + lost)
    problem = daba.load(folder)
    assert problem.num_cameras == count
    daba.save(moved(problem), tmp_path / "out")
    assert (tmp_path / "out" / "images.bin").read_bytes().endswith(lost)


def test_rigs_of_several_cameras(tmp_path: Path) -> None:
    folder = written(synthetic(sensors=2), tmp_path / "model")
    problem = moved(daba.load(folder, rigs="free"))
    daba.save(problem, tmp_path / "out")
    assert not (tmp_path / "out" / "frames.bin").exists()
    after = read(tmp_path / "out")
    assert mean_error(after) == pytest.approx(mean_reprojection_error(problem), rel=1e-9)
    assert after.num_frames() == after.num_images() == problem.num_cameras


@pytest.mark.parametrize("kind", KINDS)
def test_rigs_with_one_image_per_frame_are_kept(kind: str, tmp_path: Path) -> None:
    """The second sensor's images have poses of their own, through their place in the rig."""
    r = synthetic(sensors=2, cameras=1)
    for image in list(r.images.values()):
        keep = (image.frame_id % 2 == 0) == image.is_ref_in_frame()
        if not keep:
            for k in image.get_observation_point2D_idxs():
                r.delete_observation(image.image_id, int(k))
    folder = written(_with_single_images(r), tmp_path / "model", kind)
    problem = moved(daba.load(folder))
    daba.save(problem, tmp_path / "out")
    before, after = read(folder), read(tmp_path / "out")
    assert after.num_rigs() == 1
    assert {frame.num_data_ids() for frame in after.frames.values()} == {1}
    ids = Model(folder).images.ids[problem.info["registered"]]
    for i, number in enumerate(ids.tolist()):
        center = after.images[number].projection_center()
        np.testing.assert_allclose(center, problem.centers[i], atol=1e-12)
        assert not np.allclose(center, before.images[number].projection_center(), atol=1e-4)
    assert mean_error(after) == pytest.approx(mean_reprojection_error(problem), rel=1e-9)


def _with_single_images(r: Any) -> Any:
    """The same with images that see nothing taken out of their frames."""
    new = pycolmap.Reconstruction()
    for camera in r.cameras.values():
        new.add_camera(camera)
    for rig in r.rigs.values():
        new.add_rig(rig)
    for frame in r.frames.values():
        other = pycolmap.Frame()
        other.frame_id, other.rig_id = frame.frame_id, frame.rig_id
        images = [i for i in r.images.values() if i.frame_id == frame.frame_id and i.num_points3D]
        for image in images:
            other.add_data_id(image.data_id)
        other.rig_from_world = frame.rig_from_world
        new.add_frame(other)
        for image in images:
            copy = pycolmap.Image(
                name=image.name, camera_id=image.camera_id, image_id=image.image_id
            )
            copy.frame_id = frame.frame_id
            copy.points2D = [pycolmap.Point2D(p.xy) for p in image.points2D]
            new.add_image(copy)
        new.register_frame(frame.frame_id)
    for number, point in r.points3D.items():
        new.add_point3D_with_id(
            number, pycolmap.Point3D(xyz=point.xyz, track=point.track, color=point.color)
        )
    return new


def test_overwriting(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    problem = moved(daba.load(copy))
    with pytest.raises(DabaError, match="this is the model that is read"):
        daba.save(problem, copy)
    aim = mean_reprojection_error(problem)
    daba.save(problem, copy, overwrite=True)
    assert mean_error(read(copy)) == pytest.approx(aim, rel=1e-9)
    assert sorted(tmp_path.iterdir()) == [copy]  # nothing is left behind


def test_project_file_comes_along(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "project.ini").write_text("a = b\n")
    daba.save(daba.load(copy), tmp_path / "out")
    assert (tmp_path / "out" / "project.ini").read_text() == "a = b\n"


def test_store_and_npz_lead_back_to_the_model(folder: Path, tmp_path: Path) -> None:
    problem = moved(daba.load(folder))
    for name in ("a.npz", "a.daba"):
        daba.save(problem, tmp_path / name)
        daba.save(daba.load(tmp_path / name), tmp_path / f"{name}-out")
        error = mean_error(read(tmp_path / f"{name}-out"))
        assert error == pytest.approx(mean_reprojection_error(problem), rel=1e-9)


def test_conversion_to_other_formats(tmp_path: Path) -> None:
    problem = daba.load(written(synthetic("RADIAL"), tmp_path / "model"))
    error = daba.pixel_error(problem).rms
    for name in ("a.txt", "a.out"):
        daba.save(problem, tmp_path / name)
        other = daba.load(tmp_path / name, "standard")
        assert daba.pixel_error(other).rms == pytest.approx(error, rel=1e-3)
    daba.save(problem, tmp_path / "a.ply")
    pinhole = daba.load(written(synthetic("PINHOLE"), tmp_path / "pinhole"))
    with pytest.warns(DabaWarning, match="fx and fy"):
        daba.save(pinhole, tmp_path / "b.txt")
    fisheye = daba.load(written(synthetic("OPENCV_FISHEYE"), tmp_path / "fisheye"))
    with pytest.raises(DabaError, match="camera 1 is OPENCV_FISHEYE"):
        daba.save(fisheye, tmp_path / "c.txt")


def test_pose_priors_of_a_database(tmp_path: Path) -> None:
    options = pycolmap.SyntheticDatasetOptions()
    options.prior_position, options.num_points3D = True, 40
    noise = pycolmap.SyntheticNoiseOptions()
    noise.prior_position_stddev = 0.1
    path = tmp_path / "database.db"
    with pycolmap.Database.open(str(path)) as database:
        r = pycolmap.synthesize_dataset(options, database)
        pycolmap.synthesize_noise(noise, r, database)
        aim = {p.corr_data_id.id: p.position.ravel() for p in database.read_all_pose_priors()}
    folder = written(r, tmp_path / "model")
    problem = daba.constrain(daba.load(folder), position_priors=path)
    assert problem.priors is not None
    known = problem.priors.positions
    assert len(known) == len(aim) == problem.num_cameras
    ids = Model(folder).images.ids[problem.info["registered"]][known.index]
    np.testing.assert_allclose(known.target, [aim[k] for k in ids.tolist()], atol=1e-12)
    np.testing.assert_allclose(known.information, np.tile(100 * np.eye(3), (len(aim), 1, 1)))
    (tmp_path / "bad.db").write_text("no database")
    for name, why in (("none.db", "no such file"), ("bad.db", "not a COLMAP database")):
        with pytest.raises(DabaError, match=why):
            daba.constrain(problem, position_priors=tmp_path / name)


# what is refused


@pytest.mark.parametrize("part", ["cameras", "images", "points3D", "frames"])
def test_missing_files(part: str, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    name = f"{part}{Model(folder).files.SUFFIX}"
    (copy / name).unlink()
    with pytest.raises(DabaError, match=f"{name} is missing"):
        daba.load(copy)


@pytest.mark.parametrize("part", ["cameras", "images", "points3D", "frames", "rigs"])
def test_damaged_files(part: str, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path = copy / f"{part}{Model(folder).files.SUFFIX}"
    data = path.read_bytes().rstrip()
    cut = data[:-5] if path.suffix == ".bin" else data.rsplit(b" ", 1)[0] + b" x\n"
    path.write_bytes(cut)
    where = "" if path.suffix == ".bin" else r"line \d+"
    with pytest.raises(DabaError, match=rf"{path.name}: .*{where}"):
        daba.load(copy)


def test_folders_that_are_no_models(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "sparse" / "0")
    with pytest.raises(DabaError, match=r"holds COLMAP models \(0\) .*such as .*sparse/0"):
        daba.load(tmp_path / "sparse")
    with pytest.raises(DabaError, match="there is no such file or folder"):
        daba.load(tmp_path / "sparse" / "1")
    problem = daba.load(folder)
    with pytest.raises(DabaError, match=r"unknown kind of file '\.obj'"):
        daba.save(problem, tmp_path / "a.obj")
    assert main(["convert", str(folder), str(tmp_path / "a.obj")]) == 2
    daba.save(problem, tmp_path / "model.v2")
    assert (tmp_path / "model.v2").is_dir()


def test_unknown_camera_model(tmp_path: Path) -> None:
    folder = written(synthetic(), tmp_path / "model", "text")
    path = folder / "cameras.txt"
    path.write_text(path.read_text().replace("SIMPLE_RADIAL", "PERISCOPE"))
    with pytest.raises(DabaError, match="line 4: camera 1 has the model PERISCOPE"):
        daba.load(folder)


def test_images_that_see_without_a_pose(tmp_path: Path) -> None:
    folder = written(synthetic(), tmp_path / "model", "text")
    for part in ("rigs", "frames"):
        (folder / f"{part}.txt").unlink()
    path = folder / "images.txt"
    lines = path.read_text().splitlines()
    words = lines[4].split()
    lines[4] = " ".join([words[0], *["nan"] * 7, *words[8:]])
    path.write_text("\n".join(lines))
    with pytest.raises(DabaError, match=r"image \d+ \(.*\) sees 3D points but has no pose"):
        daba.load(folder)


def test_no_points(tmp_path: Path) -> None:
    r = synthetic()
    for number in list(r.point3D_ids()):
        r.delete_point3D(number)
    with pytest.raises(DabaError, match="has no 3D points"):
        daba.load(written(r, tmp_path / "model"))


def test_targets_that_are_refused(folder: Path, tmp_path: Path) -> None:
    problem = daba.load(folder)
    (tmp_path / "file").write_text("x")
    with pytest.raises(DabaError, match="it is a file"):
        daba.save(problem, tmp_path / "file")
    with pytest.raises(DabaError, match="file is a file, not a folder"):
        daba.save(problem, tmp_path / "file" / "b")
    daba.save(problem, tmp_path / "a" / "b")
    assert daba.load(tmp_path / "a" / "b").num_points == problem.num_points
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("x")
    with pytest.raises(DabaError, match=r"holds 'letter\.txt'"):
        daba.save(problem, tmp_path / "other")
    other = replace(problem, info={})
    with pytest.raises(DabaError, match="was not read from one"):
        daba.save(other, tmp_path / "out", format="colmap")


def test_intrinsics_that_are_not_shared_any_more(folder: Path, tmp_path: Path) -> None:
    problem = daba.load(folder)
    cameras = problem.cameras.copy()
    cameras[0, 12] *= 1.01
    with pytest.raises(DabaError, match="have different intrinsics now"):
        daba.save(problem.with_estimate(cameras, problem.points), tmp_path / "out")
    argv = ["solve", str(folder), "--output", str(tmp_path / "out"), "--share-intrinsics", "none"]
    assert main(argv) == 2


def test_changed_source(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    problem = daba.load(copy)
    shutil.rmtree(copy)
    written(synthetic(points=20), copy)
    with pytest.raises(DabaError, match="is not the model any more"):
        daba.save(problem, tmp_path / "out")


def test_without_pycolmap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files need no pycolmap; other kinds of them say what is missing."""
    fisheye = written(synthetic("OPENCV_FISHEYE"), tmp_path / "fisheye")
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    problem = moved(daba.load(fisheye))
    daba.save(problem, tmp_path / "out")
    with pytest.raises(DabaError, match=r"pip install 'daba\[colmap\]'"):
        daba.save(problem, tmp_path / "text", kind="text")


def test_ids_that_are_none(tmp_path: Path) -> None:
    folder = written(synthetic(points=40), tmp_path / "model", "text")
    file = folder / "points3D.txt"
    lines = file.read_text().splitlines()
    lines[-1] = " ".join(["-9223372036854775808", *lines[-1].split()[1:]])
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(DabaError, match=r"points3D\.txt: -9223372036854775808 is no id of a 3D"):
        daba.load(folder)


def test_cameras_that_give_no_rays_name_the_model(tmp_path: Path) -> None:
    """Rays are computed long after the file was read."""
    folder = written(synthetic(points=40), tmp_path / "model", "text")
    file = folder / "cameras.txt"
    lines = file.read_text().splitlines()
    words = lines[-1].split()
    words[4] = "1e-60"  # focal length
    file.write_text("\n".join([*lines[:-1], " ".join(words)]) + "\n")
    problem = daba.load(folder)
    with pytest.raises(DabaError, match="model: its pixels and cameras give no rays: "):
        problem.cameras  # noqa: B018
