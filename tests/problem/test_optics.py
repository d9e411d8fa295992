"""What cameras see, against pycolmap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from colmap_models import read, synthetic, written

import daba
from daba.problem.optics import reprojection_errors, well_seen


def test_the_error_of_a_point_next_to_a_centre_is_that_of_colmap(tmp_path: Path) -> None:
    """Least squares may draw the point of a wrong match into a camera. A solve must not begin
    there, but where one ends COLMAP has a pixel for it, and so have we."""
    r = synthetic(noise=0.5)
    image = next(iter(r.images.values()))
    pose = image.cam_from_world()
    k = next(iter(image.get_observation_point2D_idxs()))
    near = np.array([2e-13, -1e-13, 7e-13])
    r.points3D[image.points2D[k].point3D_id].xyz = pose.inverse() * near
    problem = daba.load(written(r, tmp_path / "model"))
    errors, seen = reprojection_errors(problem)
    assert seen.all()
    assert np.count_nonzero(~well_seen(problem)) == 1
    model = read(tmp_path / "model")
    expected = sorted(
        float(np.linalg.norm(image.project_point(model.points3D[p.point3D_id].xyz) - p.xy))
        for image in model.images.values()
        for p in image.get_observation_points2D()
    )
    np.testing.assert_allclose(np.sort(errors), expected, rtol=2e-3)  # the near one is rounding
