"""`pycolmap.Reconstruction` in and out, without files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from colmap_models import mean_error, pycolmap, synthetic, written

import daba
from daba.core.errors import DabaError
from daba.problem.optics import Optics
from daba.problem.pixel_errors import mean_reprojection_error
from daba.problem.problem import Problem


def shifted(problem: Problem) -> Problem:
    """Another estimate in pixels; what is held stays."""
    optics = problem.optics
    params = np.where(optics.refined, 1.001 * optics.params, optics.params)
    changes: dict[str, Any] = {"params": params}
    poses = problem.poses + np.r_[np.zeros(9), 0.01, 0.02, 0.03]
    if optics.frames is not None and optics.sensors is not None:
        assert optics.refined_sensors is not None
        step = np.r_[np.zeros(9), 0.01, 0.02, 0.03]
        changes["frames"] = optics.frames + step
        changes["sensors"] = optics.sensors + optics.refined_sensors[:, None] * step
    free = problem.free_points
    points = problem.points + 0.01 * (1.0 if free is None else free[:, None])
    return problem.with_optics(replace(optics, **changes), points, poses)


@pytest.fixture(params=[1, 3])
def reconstruction(request: Any) -> Any:
    return synthetic("OPENCV", sensors=request.param, images=4, points=60)


def test_the_same_problem_as_from_files(reconstruction: Any, tmp_path: Path) -> None:
    a = daba.load(reconstruction)
    b = daba.load(written(reconstruction, tmp_path / "model"))
    image = np.argsort(b.image_ids)  # files may have another order
    point = np.searchsorted(np.sort(a.point3D_ids), b.point3D_ids)
    point = np.argsort(a.point3D_ids)[point]
    assert a.image_names == [b.image_names[i] for i in image]
    np.testing.assert_allclose(a.cam_from_world, b.cam_from_world[image], atol=1e-12)
    np.testing.assert_array_equal(a.points[point], b.points)
    assert mean_reprojection_error(a) == pytest.approx(mean_reprojection_error(b), rel=1e-12)
    for number, params in b.camera_params.items():
        np.testing.assert_array_equal(a.camera_params[number], params)
    row = np.lexsort((a.info["keys"], a.camera_index))
    other = np.lexsort((b.info["keys"], np.argsort(image)[b.camera_index]))
    np.testing.assert_array_equal(a.pixels[row], b.pixels[other])
    with pytest.raises(DabaError, match=r"came from a pycolmap\.Reconstruction"):
        daba.save(a, tmp_path / "out")
    daba.save(a, tmp_path / "a.npz")
    assert mean_reprojection_error(daba.load(tmp_path / "a.npz")) == mean_reprojection_error(a)


def test_update_in_place(reconstruction: Any) -> None:
    before = mean_error(reconstruction)
    poses = {i: image.cam_from_world().matrix() for i, image in reconstruction.images.items()}
    daba.colmap.update(reconstruction, daba.load(reconstruction))
    for number, pose in poses.items():
        np.testing.assert_array_equal(reconstruction.images[number].cam_from_world().matrix(), pose)
    problem = shifted(daba.load(reconstruction))
    daba.colmap.update(reconstruction, problem)
    assert mean_error(reconstruction) == pytest.approx(mean_reprojection_error(problem), rel=1e-9)
    assert mean_error(reconstruction) != pytest.approx(before, rel=1e-3)
    for number, params in problem.camera_params.items():
        np.testing.assert_array_equal(reconstruction.cameras[number].params, params)
    kept, dropped = daba.filter_outliers(problem, 5.0)
    assert dropped.observations > 0
    daba.colmap.update(reconstruction, kept)
    assert reconstruction.compute_num_observations() == kept.num_observations
    reconstruction.delete_point3D(int(problem.point3D_ids[0]))
    with pytest.raises(DabaError, match="is not the model any more"):
        daba.colmap.update(reconstruction, problem)


class Solve:
    """Stands for `daba.solve`: remembers what it was asked, and moves what is free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.optics: Optics | None = None
        monkeypatch.setattr("daba.runtime.solve.solve", self)

    def __call__(self, problem: Problem, **options: Any) -> Any:
        self.problem, self.options = problem, options
        names = ("focal_length", "extra_params", "principal_point", "sensor_from_rig")
        given = {name: options[f"refine_{name}"] for name in names}
        self.optics = problem.optics.with_refined(**given)
        moved = shifted(problem.changed(given_optics=self.optics))
        entry = SimpleNamespace(objective=1.0, iteration=3)
        return SimpleNamespace(
            problem=moved, history=[entry, entry], objective=1.0, converged=True, reason="done"
        )


def test_bundle_adjustment_with_everything_free(
    reconstruction: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve = Solve(monkeypatch)
    options = pycolmap.BundleAdjustmentOptions()
    options.refine_principal_point = True
    options.ceres.loss_function_type = pycolmap.LossFunctionType.SOFT_L1
    options.ceres.loss_function_scale = 2.0
    options.ceres.solver_options.max_num_iterations = 7
    summary = daba.colmap.bundle_adjustment(reconstruction, options, devices=2)
    assert solve.options["error"] == "pixel"
    assert solve.options["devices"] == 2
    assert solve.options["iterations"] == 7
    assert (solve.options["loss"].name, solve.options["loss"].radius) == ("soft-l1", 2.0)
    assert solve.optics is not None
    assert solve.optics.refined[:, :8].all()
    assert summary.num_residuals == 2 * reconstruction.compute_num_observations()
    assert summary.termination_type == pycolmap.BundleAdjustmentTerminationType.CONVERGENCE
    assert summary.is_solution_usable()
    assert "iterations 3" in summary.brief_report()
    expected = mean_reprojection_error(shifted(solve.problem.changed(given_optics=solve.optics)))
    assert mean_error(reconstruction) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(DabaError, match=r"takes a pycolmap\.Reconstruction"):
        daba.colmap.bundle_adjustment("sparse/0")


def test_bundle_adjustment_with_a_config(
    reconstruction: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve = Solve(monkeypatch)
    config = pycolmap.BundleAdjustmentConfig()
    ids = sorted(reconstruction.reg_image_ids())
    for number in ids[: len(ids) // 2]:
        config.add_image(number)
    inside = set(ids[: len(ids) // 2])
    camera = reconstruction.images[ids[0]].camera_id
    config.set_constant_cam_intrinsics(camera)
    frame = reconstruction.images[ids[0]].frame_id
    config.set_constant_rig_from_world_pose(frame)
    point = next(iter(reconstruction.point3D_ids()))
    config.add_variable_point(point)
    before = {i: p.xyz.copy() for i, p in reconstruction.points3D.items()}
    params = reconstruction.cameras[camera].params.copy()
    daba.colmap.bundle_adjustment(reconstruction, config=config)
    problem = solve.problem
    assert problem.free_cameras is not None
    assert problem.free_points is not None
    for i, number in enumerate(problem.image_ids.tolist()):
        seen = problem.point_index[problem.camera_index == i]
        if number not in inside:
            assert set(problem.point3D_ids[seen].tolist()) <= {point}
            assert not problem.free_cameras[i, :6].any()
        of = reconstruction.images[number].camera_id
        chosen = any(reconstruction.images[one].camera_id == of for one in inside)
        assert problem.free_cameras[i, 6:].all() == (chosen and of != camera)
    same = [i for i in ids if reconstruction.images[i].frame_id == frame]
    rows = np.isin(problem.image_ids, same)
    assert not problem.free_cameras[rows, :6].all(axis=1).all()  # one of them holds the frame
    for number, xyz in before.items():
        images = {e.image_id for e in reconstruction.points3D[number].track.elements}
        stays = not images <= inside and number != point
        assert np.array_equal(reconstruction.points3D[number].xyz, xyz) == stays
    np.testing.assert_array_equal(reconstruction.cameras[camera].params, params)
    with pytest.raises(DabaError, match="has no image of this"):
        daba.colmap.bundle_adjustment(reconstruction, config=pycolmap.BundleAdjustmentConfig())
