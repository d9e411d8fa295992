"""COLMAP models adjusted: as well as COLMAP's own bundle adjustment does it from the same start."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from colmap_models import (
    flattened,
    mean_error,
    narrowed,
    perturbed,
    pycolmap,
    read,
    synthetic,
    written,
)
from odd_problems import mirrored
from places import DATA

import daba
from daba.core import camera_models
from daba.io.store import writing
from daba.io.store.store import Store
from daba.problem.pixel_errors import mean_reprojection_error
from daba.problem.problem import Problem
from daba.tools.cli import main

pytestmark = pytest.mark.usefixtures("compiled")

MODELS = DATA / "colmap"


def adjusted_by_colmap(folder: Path, intrinsics: bool = True) -> float:
    """Mean reprojection error after COLMAP's bundle adjustment, with what daba adjusts free."""
    r = read(folder)
    options = options_of_colmap()
    options.refine_focal_length = options.refine_extra_params = intrinsics
    pycolmap.bundle_adjustment(r, options)
    return mean_error(r)


def options_of_colmap() -> Any:
    options = pycolmap.BundleAdjustmentOptions()
    options.print_summary = False
    return options


def start(model: str, folder: Path, **options: Any) -> Path:
    return written(perturbed(synthetic(model, noise=1.0, **options)), folder)


@pytest.mark.parametrize("cameras", [1, 8])
@pytest.mark.parametrize("model", sorted(camera_models.MODELS))
def test_as_good_as_colmap(model: str, cameras: int, tmp_path: Path) -> None:
    """One camera for all images, and one for each; of sixteen parameters one for two, since a
    single image leaves several minima."""
    images = 2 if (model, cameras) == ("RAD_TAN_THIN_PRISM_FISHEYE", 8) else 8 // cameras
    folder = start(model, tmp_path / "start", cameras=cameras, images=images)
    result = daba.solve(daba.load(folder))
    assert result.options.error == "pixel"
    daba.save(result.problem, tmp_path / "out")
    error = read(tmp_path / "out").compute_mean_reprojection_error()
    assert error <= 1.001 * adjusted_by_colmap(folder)
    assert error < 0.5 * mean_error(read(folder))
    assert result.colmap_errors is not None
    assert result.colmap_errors["mean_px"] == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("seed", [2, 4])
def test_a_camera_at_the_edge_does_not_hold_up_the_rest(seed: int, tmp_path: Path) -> None:
    """Some of these lenses would be best with α or β below zero, where there are none."""
    start = synthetic("EUCM", cameras=8, images=1, points=100, noise=1.0, seed=seed)
    folder = written(perturbed(start, seed), tmp_path / "start")
    result = daba.solve(daba.load(folder))
    assert result.colmap_errors is not None
    assert result.colmap_errors["mean_px"] <= 1.001 * adjusted_by_colmap(folder)


def test_a_field_of_view_stays_where_colmap_can_project(tmp_path: Path) -> None:
    """Gross outliers without a robust loss are best explained by ω = π, where COLMAP's projection
    of what lies near the centre is off by 1e10 pixels."""
    start = perturbed(synthetic("FOV", cameras=8, images=1, noise=0.5, seed=9111))
    random = np.random.default_rng(9111)
    for image in start.images.values():
        for k in map(int, image.get_observation_point2D_idxs()):
            if random.random() < 0.1:
                image.points2D[k].xy = random.uniform(0, 1, 2) * [1024, 768]
    problem = daba.load(written(start, tmp_path / "start"))
    result = daba.solve(problem, iterations=60)
    omega = result.problem.optics.params[:, 4]
    assert (np.abs(omega) <= 3.0).all()
    assert (omega > 2.5).any()  # or this shows nothing
    daba.save(result.problem, tmp_path / "out")
    assert result.colmap_errors is not None
    assert mean_error(read(tmp_path / "out")) == pytest.approx(
        result.colmap_errors["mean_px"], rel=1e-3
    )


def test_parameters_that_hardly_matter_reach_the_optimum(tmp_path: Path) -> None:
    """k3 and k4 of a fisheye lens on a telephoto: a change by 1000 is not seen in the pixels."""
    exact = narrowed(synthetic("OPENCV_FISHEYE", cameras=8, images=1, noise=0.0), times=15.0)
    problem = daba.load(written(perturbed(exact, share=0.0005), tmp_path / "start"))
    theirs = read(tmp_path / "start")
    pycolmap.bundle_adjustment(theirs, options_of_colmap())
    aim = daba.pixel_error(daba.load(theirs)).rms
    assert daba.pixel_error(daba.solve(problem).problem).rms <= 1.0001 * aim


@pytest.mark.parametrize(("seed", "points"), [(2, 150), (4, 150), (6, 150), (4, 400)])
def test_a_valley_that_curves_is_followed(seed: int, points: int, tmp_path: Path) -> None:
    """A plane leaves fx and fy of each image open: straight steps end up to 1.5 % above COLMAP's F
    after 100 iterations. In plain NumPy, and with kernels."""
    start = flattened(
        synthetic("PINHOLE", cameras=8, images=1, points=points, noise=0.0, seed=seed), 1.0, seed
    )
    theirs = read(written(perturbed(start, seed), tmp_path / "start"))
    problem = daba.load(tmp_path / "start")
    pycolmap.bundle_adjustment(theirs, options_of_colmap())
    aim = daba.pixel_error(daba.load(theirs)).rms
    assert daba.pixel_error(daba.solve(problem, iterations=40).problem).rms <= 1.0005 * aim


@pytest.mark.parametrize(("refined", "devices"), [(True, 1), (False, 1), (True, 3)])
def test_rigs_as_good_as_colmap(refined: bool, devices: int, tmp_path: Path) -> None:
    """Three sensors, eight frames; sensors move in their rig, or do not."""
    start = perturbed(synthetic(cameras=1, sensors=3, images=8, points=100, noise=1.0))
    folder = written(start, tmp_path / "start")
    options = options_of_colmap()
    options.refine_sensor_from_rig = refined
    theirs = read(folder)
    pycolmap.bundle_adjustment(theirs, options)
    result = daba.solve(daba.load(folder), refine_sensor_from_rig=refined, devices=devices)
    daba.save(result.problem, tmp_path / "out")
    ours = read(tmp_path / "out")
    assert mean_error(ours) <= 1.001 * mean_error(theirs)
    for number, rig in read(folder).rigs.items():
        for sensor, pose in rig.non_ref_sensors.items():
            same = np.array_equal(pose.matrix(), ours.rigs[number].non_ref_sensors[sensor].matrix())
            assert same is not refined


@pytest.mark.parametrize("sigma", [1e-6, 1e3])
def test_priors_of_focal_lengths_in_pixels(sigma: float, tmp_path: Path) -> None:
    """A strong one is obeyed and a weak one is not felt, from the model and from its store."""
    model = daba.load(start("SIMPLE_RADIAL", tmp_path / "start", cameras=1, images=8))
    [before] = model.camera_params.values()
    d = model.intrinsics[:1] * [1.03, 1.0, 1.0]
    known = daba.Targets.make([0], d, information=np.diag([sigma**-2, 0, 0])[None])
    problem = model.changed(priors=daba.Priors(intrinsics=known))
    free = daba.solve(model)
    results = [daba.solve(problem, iterations=60)]
    writing.save(problem, tmp_path / "start.daba", 2)
    results.append(daba.solve(Store(tmp_path / "start.daba"), iterations=60))
    for result in results:
        solution = result.problem if result is results[0] else daba.gather(result)
        assert solution is not None
        [params] = solution.camera_params.values()
        if sigma < 1:
            assert params[0] == pytest.approx(1.03 * before[0], rel=1e-4)
        else:
            [unbound] = free.problem.camera_params.values()
            assert params[0] == pytest.approx(unbound[0], rel=1e-4)


@pytest.mark.parametrize("points", [60, 500])
def test_nothing_is_refined_of_cameras_that_images_have_alone(points: int, tmp_path: Path) -> None:
    folder = start("SIMPLE_RADIAL", tmp_path / "start", cameras=8, images=1, points=points)
    result = daba.solve(daba.load(folder), refine_focal_length=False, refine_extra_params=False)
    daba.save(result.problem, tmp_path / "out")
    aim = adjusted_by_colmap(folder, intrinsics=False)
    assert mean_error(read(tmp_path / "out")) <= 1.001 * aim


def test_fixed_intrinsics(tmp_path: Path) -> None:
    folder = start("RADIAL", tmp_path / "start")
    result = daba.solve(daba.constrain(daba.load(folder), fix="intrinsics"), method="lm")
    daba.save(result.problem, tmp_path / "out")
    assert (tmp_path / "out" / "cameras.bin").read_bytes() == (folder / "cameras.bin").read_bytes()
    aim = adjusted_by_colmap(folder, intrinsics=False)
    assert mean_error(read(tmp_path / "out")) == pytest.approx(aim, rel=1e-3)


def test_devices_share_cameras(tmp_path: Path) -> None:
    """Images of one camera on different devices still have one camera."""
    folder = start("SIMPLE_RADIAL", tmp_path / "start", cameras=1, images=10)
    problem = daba.load(folder)
    result = daba.solve(problem, devices=3)
    [before], [after] = (p.camera_params.values() for p in (problem, result.problem))
    assert np.abs(after - before).max() > 1e-4
    daba.save(result.problem, tmp_path / "out")
    assert mean_error(read(tmp_path / "out")) <= 1.001 * adjusted_by_colmap(folder)


def test_no_iterations_no_change(tmp_path: Path) -> None:
    folder = start("SIMPLE_RADIAL", tmp_path / "start")
    r = read(folder)
    # a point behind its cameras is not touched either
    image = next(iter(r.images.values()))
    r.points3D[1].xyz = image.projection_center() - 3 * image.viewing_direction()
    folder = written(r, tmp_path / "behind")
    result = daba.solve(daba.load(folder), method="lm", iterations=0)
    assert result.corrected == 0
    daba.save(result.problem, tmp_path / "out")
    before, after = read(folder), read(tmp_path / "out")
    for number, image in before.images.items():
        pose, new = image.cam_from_world(), after.images[number].cam_from_world()
        np.testing.assert_array_equal(new.params, pose.params)
    for number, point in before.points3D.items():
        np.testing.assert_array_equal(after.points3D[number].xyz, point.xyz)
    assert (tmp_path / "out" / "cameras.bin").read_bytes() == (folder / "cameras.bin").read_bytes()
    assert mean_error(after) == pytest.approx(mean_error(before), rel=1e-9)


def test_points_behind_are_corrected(tmp_path: Path) -> None:
    """COLMAP's error of a model with one point behind a camera is infinite for all purposes."""
    r = synthetic("SIMPLE_RADIAL", noise=0.5)
    aim = mean_error(r)
    image = next(iter(r.images.values()))
    seen = [image.points2D[int(k)].point3D_id for k in image.get_observation_point2D_idxs()[:5]]
    for number in seen:
        r.points3D[number].xyz = 2 * image.projection_center() - r.points3D[number].xyz
    folder = written(r, tmp_path / "start")
    assert mean_error(r) > 1e100
    problem = daba.load(folder)
    result = daba.solve(problem, method="lm")
    assert result.corrected >= 5
    assert daba.pixel_error(result.problem).behind == 0
    assert mean_reprojection_error(result.problem) < 1.05 * aim
    assert "points behind images" in result.summary()


def test_a_point_on_the_centre_of_a_camera_is_corrected(tmp_path: Path) -> None:
    """Its depth is rounding, of either sign, and its pixel anywhere."""
    r = synthetic(noise=0.5)
    image = next(iter(r.images.values()))
    seen = [p.point3D_id for p in image.points2D if p.has_point3D()]
    for point in seen[:2]:
        r.points3D[point].xyz = image.projection_center()
    result = daba.solve(daba.load(written(r, tmp_path / "start")))
    assert result.corrected == 2
    assert result.colmap_errors is not None
    assert result.colmap_errors["mean_px"] < 0.7


@pytest.mark.parametrize(("method", "error"), [("daba", "ray"), ("lm", "ray"), ("lm", "pixel")])
def test_a_store_of_a_model_gives_what_the_model_does(
    method: Any, error: Any, tmp_path: Path
) -> None:
    """Points that are behind cameras at the start, too."""
    problem = daba.load(written(synthetic("SIMPLE_RADIAL", noise=0.5), tmp_path / "start"))
    problem = mirrored(problem, range(0, 40, 9))
    writing.save(problem, tmp_path / "start.daba", 2)
    options = daba.Options(method=method, devices=2, iterations=20, error=error)
    left = daba.solve(problem, options)
    right = daba.solve(Store(tmp_path / "start.daba"), options)
    assert left.corrected == right.corrected > 0
    assert left.objective == right.objective
    found = daba.gather(right)
    assert found is not None
    assert found.points.tobytes() == left.problem.points.tobytes()
    assert daba.pixel_error(found).behind == 0


def test_a_store_is_adjusted_in_pixels_as_its_model_is(tmp_path: Path) -> None:
    start = perturbed(synthetic("SIMPLE_RADIAL", noise=0.5))
    problem = daba.load(written(start, tmp_path / "start"))
    writing.save(problem, tmp_path / "start.daba", 2)
    left = daba.solve(problem, devices=2)
    right = daba.solve(Store(tmp_path / "start.daba"))
    assert right.options.error == left.options.error == "pixel"
    assert left.objective == right.objective
    assert left.hidden == right.hidden
    found = daba.gather(right)
    assert found is not None
    assert found.points.tobytes() == left.problem.points.tobytes()
    assert found.optics.params.tobytes() == left.problem.optics.params.tobytes()
    assert np.isfinite(daba.pixel_error(left.problem).rms)


@pytest.mark.parametrize("method", ["duba", "admm", "dr"])
def test_methods_that_know_rays_only_are_finished_in_pixels(method: str, tmp_path: Path) -> None:
    """Of a model and of its store, to the same bits, and as well as COLMAP does it."""
    folder = start("SIMPLE_RADIAL", tmp_path / "in", cameras=1, images=12, points=120)
    problem = daba.load(folder)
    writing.save(problem, tmp_path / "a.daba", 3)
    options: dict[str, Any] = {"method": method, "iterations": 15}
    model = daba.solve(problem, devices=3, **options)
    parts = daba.solve(Store(tmp_path / "a.daba"), **options)
    assert [e.objective for e in model.history] == [e.objective for e in parts.history]
    assert f"{method} went" in model.notes[0]
    assert model.notes == parts.notes
    found = mean_reprojection_error(model.problem)
    assert found < 1.001 * adjusted_by_colmap(folder)


@pytest.mark.parametrize("method", ["admm", "dr"])
def test_consensus_with_intrinsics_held(method: str) -> None:
    scene = daba.SceneOptions(scene="orbit", cameras=12, points=150, focal_error=0.0, seed=2)
    problem = daba.constrain(daba.generate(scene).start, fix="intrinsics", share_intrinsics="none")
    best = daba.solve(problem, method="lm").history[-1].objective
    result = daba.solve(problem, method=method, devices=3, iterations=60)
    np.testing.assert_allclose(result.problem.intrinsics, problem.intrinsics, rtol=1e-14)
    assert best <= result.history[-1].objective * (1 + 1e-12)
    assert result.history[-1].objective < 1.01 * best


def test_rays_that_never_meet() -> None:
    """The best place of a point whose rays diverge is behind its cameras; far away is good, too."""
    scene = daba.SceneOptions(scene="orbit", cameras=30, points=200, seed=2)
    problem = _diverging(daba.generate(scene).start)
    left = daba.solve(problem, method="lm")
    assert daba.pixel_error(left.problem).behind == 2
    result = daba.solve(problem, method="lm", points_in_front=True)
    assert daba.pixel_error(result.problem).behind == 0
    assert result.corrected == 1
    assert result.objective == pytest.approx(result.problem.objective(), rel=1e-9)
    assert result.objective < 1.5 * left.objective


def _diverging(problem: Problem) -> Problem:
    """One more point, seen by two neighbours, who look past each other a little."""
    i = 0
    j = int(np.linalg.norm(problem.centers - problem.centers[i], axis=1).argsort()[1])
    between = problem.centers[j] - problem.centers[i]
    angle = np.arccos(problem.rotations[i, :, 2] @ problem.rotations[j, :, 2])
    u = []
    for k, outwards in ((i, -between), (j, between)):
        side = (problem.rotations[k].T @ outwards)[:2]
        u.append(np.tan(0.5 * angle + 0.01) * side / np.linalg.norm(side))
    behind = problem.centers[i] - 20 * problem.rotations[i, :, 2]
    P = problem.num_points
    return replace(
        problem,
        points=np.vstack([problem.points, behind]),
        camera_index=np.append(problem.camera_index, np.array([i, j], np.int32)),
        point_index=np.append(problem.point_index, np.array([P, P], np.int32)),
        u=np.vstack([problem.u, u]),
        weights=np.append(problem.weights, problem.focal[[i, j]]),
    )


def test_filter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Observations moved far away are found and dropped, and no others."""
    r = synthetic("SIMPLE_RADIAL", noise=0.3)
    images = list(r.images.values())
    wrong = []
    for image in images[:4]:
        keys = image.get_observation_point2D_idxs()[:3]
        for k in keys:
            image.points2D[int(k)].xy += np.array([40.0, -30.0])
            wrong.append((image.image_id, int(k)))
    folder, out = written(r, tmp_path / "0"), tmp_path / "ba"
    history = tmp_path / "h.json"
    code = main(
        ["solve", str(folder), "--output", str(out), "--filter", "4", "--history", str(history)]
        + ["--method", "lm", "--loss", "huber", "--loss-radius", "2"]
    )
    assert code == 0
    said = capsys.readouterr().out
    told = json.loads(history.read_text())["result"]
    assert told["dropped"]["observations"] == told["dropped"]["beyond"] == len(wrong)
    assert {entry["name"] for entry in told["dropped"]["worst"]} == {i.name for i in images[:4]}
    assert f"{len(wrong)} observations ({len(wrong)} beyond 4 px" in said
    after = read(out)
    assert after.compute_num_observations() == r.compute_num_observations() - len(wrong)
    for number, key in wrong:
        assert not after.images[number].points2D[key].has_point3D()
    assert f"→ {after.compute_mean_reprojection_error():.6g} px" in said
    assert told["colmap"]["mean_px"] == pytest.approx(mean_error(after), rel=1e-9)


def test_filter_of_any_problem() -> None:
    scene = daba.generate(daba.SceneOptions(scene="orbit", cameras=8, points=120, seed=2))
    problem = scene.start
    u = problem.u.copy()
    u[::100] += 0.1
    result = daba.solve(replace(problem, u=u), method="lm", loss=daba.Huber(2.0), filter=5.0)
    assert result.dropped is not None
    assert result.dropped.observations >= len(u[::100])
    assert result.problem.num_observations == len(u) - result.dropped.observations
    numbers = [entry.iteration for entry in result.history]
    assert numbers == list(range(len(numbers)))
    assert result.objective == pytest.approx(result.problem.objective(daba.Huber(2.0)), rel=1e-9)
    assert daba.pixel_errors(result.problem).max() < 10


def test_no_filter_after_a_stop() -> None:
    problem = daba.generate(daba.SceneOptions(scene="orbit", cameras=8, points=120, seed=2)).start
    result = daba.solve(problem, filter=0.5, callback=lambda entry: entry.iteration == 2)
    assert result.history[-1].iteration == 2
    assert result.dropped is None


def test_filter_refuses() -> None:
    problem = daba.generate(daba.SceneOptions(scene="orbit", cameras=8, points=120, seed=2)).start
    with pytest.raises(daba.DabaError, match="filter must be positive"):
        daba.solve(problem, filter=-1.0)
    with pytest.raises(daba.DabaError, match="nothing would be left"):
        daba.filter_outliers(problem, 1e-9)


@pytest.mark.parametrize("name", ["cup-362", "pinhole-149"])
def test_real_models(name: str, tmp_path: Path) -> None:
    """COLMAP's own result, perturbed and adjusted, is as good as it was."""
    if not (MODELS / name).is_dir():
        pytest.skip(f"no {name}: ../shared/data/colmap is not beside this checkout")
    r = read(MODELS / name)
    aim = mean_error(r)
    folder = written(perturbed(r, seed=3), tmp_path / "start")
    result = daba.solve(daba.load(folder), method="lm")
    daba.save(result.problem, tmp_path / "out")
    error = read(tmp_path / "out").compute_mean_reprojection_error()
    assert error == pytest.approx(aim, rel=0.02)
    assert result.colmap_errors is not None
    assert result.colmap_errors["mean_px"] == pytest.approx(error, rel=1e-9)


def test_focal_lengths_that_go_astray_are_told(tmp_path: Path) -> None:
    """Pixels alone do not show it: a solve may lower them by bending what they hardly determine."""
    start = daba.load(written(synthetic("OPENCV", cameras=4, images=2), tmp_path / "model"))
    result = daba.solve(start, iterations=2)
    assert result.remarks == result.notes
    params = result.problem.optics.params.copy()
    params[1, :2] *= [2.9, 1.0]
    params[2, :2] *= [1.0, 3.1]
    params[3, :2] *= [0.05, -1.0]
    optics = replace(result.problem.optics, params=params)
    solution = result.problem
    bent = replace(result, solution=solution.with_optics(optics, solution.points, solution.poses))
    (words,) = bent.remarks
    number = start.info["camera_ids"][3]
    assert "of 2 of 4 cameras has changed more than 3-fold" in words
    assert f"that of camera {number} from 940 to -9" in words
    assert words in dict(bent.rows())["note"]
    assert bent.to_dict()["result"]["notes"] == [words]
