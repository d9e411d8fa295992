"""`daba.colmap.bundle_adjustment` against pycolmap's own, on the same objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from colmap_models import mean_error, perturbed, pycolmap, synthetic, thinned

import daba

pytestmark = pytest.mark.usefixtures("compiled")


def exact() -> Any:
    """Options with which pycolmap goes on to the very end."""
    options = pycolmap.BundleAdjustmentOptions()
    options.print_summary = False
    options.ceres.solver_options.gradient_tolerance = 1e-10
    options.ceres.solver_options.function_tolerance = 1e-12
    return options


def test_everything_free() -> None:
    ours = perturbed(synthetic(cameras=1, images=8, noise=0.7))
    theirs = pycolmap.Reconstruction(ours)
    options = exact()
    pycolmap.bundle_adjustment(theirs, options)
    summary = daba.colmap.bundle_adjustment(ours, options)
    assert mean_error(ours) == pytest.approx(mean_error(theirs), rel=1e-6)
    assert summary.is_solution_usable()
    assert summary.final_cost < 0.1 * summary.initial_cost
    assert summary.num_residuals == 2 * ours.compute_num_observations()


@pytest.mark.parametrize(
    ("images", "points", "degrees", "devices", "solver"),
    [(30, 1500, 8.0, 1, "S factored"), (40, 600, 6.0, 4, "4 clusters")],
)
def test_a_rough_start(images: int, points: int, degrees: float, devices: int, solver: str) -> None:
    """Cameras that share their intrinsics are wrong together; steps that are solved loosely let
    points follow them, and end at 5.6 and 11 times COLMAP's error."""
    ours = thinned(synthetic(cameras=1, images=images, points=points, seed=1), 0.7, seed=1)
    perturbed(ours, seed=1, rotation=degrees, share=0.01 * degrees)
    camera = ours.cameras[1]
    camera.params = camera.params * [1.0 + 0.01 * degrees, 1.0, 1.0, 1.0]
    theirs = pycolmap.Reconstruction(ours)
    pycolmap.bundle_adjustment(theirs, exact())
    summary = daba.colmap.bundle_adjustment(ours, exact(), devices=devices)
    assert solver in summary.result.linear_solver
    assert mean_error(ours) == pytest.approx(mean_error(theirs), rel=1e-6)


def test_many_images_with_few_points_are_no_dense_problem() -> None:
    """S would have 480 rows for 1,940 observations."""
    r = thinned(synthetic(cameras=1, images=80, points=250), 0.095)
    assert r.compute_num_observations() < 2000
    assert daba.colmap.bundle_adjustment(r, iterations=1).result.linear_solver == "direct"


def test_what_a_config_holds_is_held() -> None:
    """Six of eight images, one point that all of them move, one that none moves, a frame held: then
    nothing is left open, and every point and pose is pycolmap's."""
    ours = perturbed(synthetic(cameras=1, images=8, noise=0.7), rotation=0.2, share=0.002)
    theirs = pycolmap.Reconstruction(ours)
    config = pycolmap.BundleAdjustmentConfig()
    ids, points = sorted(ours.reg_image_ids()), sorted(ours.point3D_ids())
    for number in ids[:6]:
        config.add_image(number)
    config.add_variable_point(points[0])
    config.add_constant_point(points[5])
    config.set_constant_rig_from_world_pose(ours.images[ids[0]].frame_id)
    pycolmap.create_default_bundle_adjuster(exact(), config, theirs).solve()
    daba.colmap.bundle_adjustment(ours, exact(), config)
    assert mean_error(ours) == pytest.approx(mean_error(theirs), rel=1e-6)
    for number in ids:
        np.testing.assert_allclose(
            ours.images[number].projection_center(),
            theirs.images[number].projection_center(),
            atol=1e-6,
        )
    for number in points:
        xyz = theirs.points3D[number].xyz
        np.testing.assert_allclose(ours.points3D[number].xyz, xyz, atol=1e-6)
