"""COLMAP's own bundle adjustment, through pycolmap where it is installed: it minimises standard
pixel errors, with one RADIAL camera (f, k1, k2) per image."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.problem.intrinsics import forward_model
from daba.problem.pixel_errors import pixel_error
from daba.problem.problem import Floats, Problem, camera_records
from daba.tools.bench.cases import RADIUS, Case


def run_colmap(case: Case, problem: Problem) -> dict[str, Any]:
    """Pixel errors at the start and at the end, measured by daba."""
    try:
        import pycolmap
    except ImportError as error:
        raise DabaError("pycolmap is not installed: pip install pycolmap") from error
    start = forward_model(problem)
    model = _reconstruction(pycolmap, problem, start)
    options = pycolmap.BundleAdjustmentOptions()
    options.print_summary = False
    options.ceres.solver_options.max_num_iterations = case.iterations
    if case.max_seconds is not None:
        options.ceres.solver_options.max_solver_time_in_seconds = case.max_seconds
    options.ceres.solver_options.num_threads = case.threads or -1
    if case.loss == "huber":
        options.ceres.loss_function_type = pycolmap.LossFunctionType.HUBER
        options.ceres.loss_function_scale = RADIUS
    began = time.perf_counter()
    with _silence():
        pycolmap.bundle_adjustment(model, options)
    seconds = time.perf_counter() - began
    solved, cameras = _read(model, problem)
    before, after = pixel_error(problem, start), pixel_error(solved, cameras)
    return {
        "histories": [],
        "start_pixels": before.rms,
        "pixels": after.rms,
        "median_pixels": after.median,
        "behind": after.behind,
        "solving": seconds,
        "program": f"pycolmap {pycolmap.__version__}",
    }


@contextmanager
def _silence() -> Iterator[None]:
    """COLMAP's log goes past Python, into the line that tells how the benchmark is going."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _reconstruction(pycolmap: Any, problem: Problem, cameras: Floats) -> Any:
    """The problem as COLMAP has it; images are numbered from 1, points in their order."""
    model = pycolmap.Reconstruction()
    order = np.argsort(problem.camera_index, kind="stable")
    ends = np.searchsorted(problem.camera_index[order], np.arange(problem.num_cameras + 1))
    pixels = problem.focal[problem.camera_index, None] * problem.u
    index = np.empty(len(order), np.int64)
    index[order] = np.arange(len(order)) - ends[problem.camera_index[order]]
    for i, (f, k1, k2) in enumerate(cameras):
        camera = pycolmap.Camera(
            camera_id=i + 1, model="RADIAL", width=1, height=1, params=[f, 0.0, 0.0, k1, k2]
        )
        model.add_camera_with_trivial_rig(camera)
        R, t = problem.rotations[i], problem.centers[i]
        seen = pixels[order[ends[i] : ends[i + 1]]]
        image = pycolmap.Image(name=str(i), keypoints=seen, camera_id=i + 1, image_id=i + 1)
        pose = pycolmap.Rigid3d(pycolmap.Rotation3d(R.T), -R.T @ t)
        model.add_image_with_trivial_frame(image, pose)
    by_point = np.argsort(problem.point_index, kind="stable")
    ptr = np.searchsorted(problem.point_index[by_point], np.arange(problem.num_points + 1))
    images = (problem.camera_index[by_point] + 1).tolist()
    keys = index[by_point].tolist()
    for j, point in enumerate(problem.points):
        some = slice(ptr[j], ptr[j + 1])
        elements = list(map(pycolmap.TrackElement, images[some], keys[some]))
        model.add_point3D_with_id(
            j + 1, pycolmap.Point3D(xyz=point, track=pycolmap.Track(elements))
        )
    return model


def _read(model: Any, problem: Problem) -> tuple[Problem, Floats]:
    """The solution, and (f, k1, k2) of its cameras."""
    cameras = np.array([model.cameras[i + 1].params for i in range(problem.num_cameras)])
    poses = [model.images[i + 1].cam_from_world() for i in range(problem.num_cameras)]
    R = np.array([pose.rotation.matrix().T for pose in poses])
    t = -np.einsum("iab,ib->ia", R, np.array([pose.translation for pose in poses]))
    points = problem.points.copy()  # COLMAP removes points that it finds behind their cameras
    for j, point in model.points3D.items():
        points[j - 1] = point.xyz
    pinhole = np.tile([1.0, 0.0, 0.0], (len(R), 1))  # (f, k1, k2) say the rest
    return problem.with_estimate(camera_records(R, t, pinhole), points), cameras[:, [0, 3, 4]]
