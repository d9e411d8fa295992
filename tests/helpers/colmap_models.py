"""Small COLMAP models, made by pycolmap, which knows nothing of us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is not installed")

PARAMS = {
    "SIMPLE_PINHOLE": [900.0, 512, 384],
    "PINHOLE": [900.0, 940, 512, 384],
    "SIMPLE_RADIAL": [900.0, 512, 384, 0.08],
    "RADIAL": [900.0, 512, 384, 0.08, -0.03],
    "OPENCV": [900.0, 940, 512, 384, 0.05, -0.02, 1e-3, -2e-3],
    "FULL_OPENCV": [900.0, 940, 512, 384, 0.05, -0.02, 1e-3, -2e-3, 0.01, 0.02, 0.01, 0.005],
    "OPENCV_FISHEYE": [500.0, 520, 512, 384, 0.02, -0.01, 0.002, -0.001],
    "SIMPLE_RADIAL_FISHEYE": [500.0, 512, 384, 0.02],
    "FOV": [700.0, 720, 512, 384, 0.6],
    "THIN_PRISM_FISHEYE": [500.0, 520, 512, 384, 0.02, -0.01, 1e-3, 1e-3, 0, 0, 1e-3, -1e-3],
    "DIVISION": [900.0, 940, 512, 384, -0.05],
    "EUCM": [600.0, 610, 512, 384, 0.5, 1.0],
    "RADIAL_FISHEYE": [500.0, 512, 384, 0.02, -0.01],
    "RAD_TAN_THIN_PRISM_FISHEYE": [
        500.0,
        520,
        512,
        384,
        0.02,
        -0.01,
        2e-3,
        0,
        0,
        0,
        1e-3,
        1e-3,
        1e-3,
        0,
        -1e-3,
        0,
    ],
    "SIMPLE_DIVISION": [900.0, 512, 384, -0.05],
    "SIMPLE_FISHEYE": [500.0, 512, 384],
    "FISHEYE": [500.0, 520, 512, 384],
    "EQUIRECTANGULAR": [1024.0, 768],
}


def synthetic(
    model: str = "SIMPLE_RADIAL",
    *,
    cameras: int = 2,
    sensors: int = 1,
    images: int = 6,
    points: int = 150,
    noise: float = 0.5,
    seed: int = 0,
) -> Any:
    """A reconstruction with `cameras` rigs of so many sensors, and so many frames of each."""
    pycolmap.set_random_seed(seed)
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig = cameras, sensors
    options.num_frames_per_rig, options.num_points3D = images, points
    options.camera_model_id = getattr(pycolmap.CameraModelId, model)
    options.camera_params = PARAMS[model]
    r = pycolmap.synthesize_dataset(options)
    if noise:
        more = pycolmap.SyntheticNoiseOptions()
        more.point2D_stddev = noise
        pycolmap.synthesize_noise(more, r)
    r.update_point_3d_errors()
    return r


def narrowed(r: Any, times: float, noise: float = 0.5, seed: int = 0) -> Any:
    """With focal lengths so many times as long, and the scene as much smaller: a telephoto."""
    for camera in r.cameras.values():
        params, focal = camera.params.copy(), list(camera.focal_length_idxs())
        params[focal] *= times
        camera.params = params
    for point in r.points3D.values():
        point.xyz = point.xyz / times
    return _observed_anew(r, noise, seed)


def flattened(r: Any, noise: float = 0.5, seed: int = 0) -> Any:
    """With points in a plane, or nearly so: focal lengths along x and y hardly matter."""
    for point in r.points3D.values():
        point.xyz = point.xyz * [1.0, 1.0, 1e-3]
    return _observed_anew(r, noise, seed)


def _observed_anew(r: Any, noise: float, seed: int) -> Any:
    random = np.random.default_rng(seed)
    for image in r.images.values():
        for k in map(int, image.get_observation_point2D_idxs()):
            seen = image.project_point(r.points3D[image.points2D[k].point3D_id].xyz)
            image.points2D[k].xy = seen + noise * random.normal(size=2)
    r.update_point_3d_errors()
    return r


def thinned(r: Any, share: float, seed: int = 0) -> Any:
    """With such a share of its observations."""
    random = np.random.default_rng(seed)
    for number, image in r.images.items():
        for k in map(int, image.get_observation_point2D_idxs()):
            if random.random() > share:
                r.delete_observation(number, k)
    return r


def perturbed(r: Any, seed: int = 0, rotation: float = 0.5, share: float = 0.005) -> Any:
    """Frames turned by so many degrees and moved, and points moved, by a share of the extent."""
    random = np.random.default_rng(seed)
    centers = np.array([image.projection_center() for image in r.images.values()])
    extent = np.linalg.norm(np.ptp(centers, axis=0))

    def direction() -> np.ndarray:
        v = random.normal(size=3)
        return np.asarray(v / np.linalg.norm(v))

    for frame in r.frames.values():
        pose = frame.rig_from_world
        R = pycolmap.Rotation3d(np.deg2rad(rotation) * direction()) * pose.rotation
        center = pose.inverse().translation + share * extent * direction()
        frame.rig_from_world = pycolmap.Rigid3d(R, -(R.matrix() @ center))
    for point in r.points3D.values():
        point.xyz = point.xyz + share * extent * direction()
    r.update_point_3d_errors()
    return r


def written(r: Any, folder: Path, kind: str = "binary") -> Path:
    folder.mkdir(parents=True)
    (r.write_text if kind == "text" else r.write_binary)(str(folder))
    return folder


def read(folder: Path) -> Any:
    return pycolmap.Reconstruction(str(folder))


def mean_error(r: Any) -> float:
    """Computed anew, whatever the file says."""
    r.update_point_3d_errors()
    return float(r.compute_mean_reprojection_error())
