"""The cameras that took a problem's images, as COLMAP describes them, and the pixels they saw.

An image, which is what `Problem.cameras` has a record for, was taken by one camera; images may
share a camera. It sits on one sensor of a rig, and a frame is the rig at one moment: images of a
frame keep their places relative to each other. Where there are no rigs, every image is a frame.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.camera_models import BY_ID, MODELS, PARAMETERS, CameraModel, image_points, unproject
from daba.core.errors import DabaError
from daba.core.types import Bools, Floats, Ints, distinct, frozen
from daba.problem.checks import beside_centers, closest

if TYPE_CHECKING:
    from daba.problem.problem import Problem


IDENTITY = np.concatenate([np.eye(3).ravel(), np.zeros(3)])
"""The record of a sensor at the place of its rig."""
CHUNK = 1 << 13
"""Observations handled at once: what is computed of them stays in the processor's cache, and pixel
errors take half the time that they take with 2¹⁸ (89 k observations, SIMPLE_RADIAL)."""


@frozen
class Optics:
    """See the module's first lines. C images, N cameras, K observations."""

    camera: Ints
    """Camera of each image, (C,)."""
    model: Ints
    """COLMAP's number of each camera's model, (N,)."""
    params: Floats
    """Parameters of each camera in COLMAP's order, zeros behind them, (N, 16)."""
    refined: Bools
    """Which parameters a solve may change, (N, 16)."""
    pixels: Floats | None
    """What was observed, in COLMAP's pixels, (K, 2); None: they are the problem's u times focal."""
    frame: Ints | None = None
    """Frame of each image, (C,); None: every image is its own."""
    frames: Floats | None = None
    """R, row by row, and centre of each frame, rig to world, (F, 12)."""
    sensor: Ints | None = None
    """Sensor of each image, (C,); 0 is the place of the rig itself."""
    sensors: Floats | None = None
    """R and centre of each sensor, camera to rig, (M, 12); the first is the identity."""
    refined_sensors: Bools | None = None
    """Which sensors a solve may move, (M,)."""
    held: Bools | None = None
    """Cameras whose parameters the user has fixed, (N,); None: none."""
    held_sensors: Bools | None = None
    """Sensors of which the user has fixed every image, (M,); None: none."""
    bundler: bool = False
    """Whether pixels are those of BAL and Bundler: counted from the principal point, and what is
    behind a camera has some, too."""
    rays: Floats | None = None
    """Ray coefficients d of each image that stand for its camera's parameters, (C, 3), once they
    are known."""

    @property
    def rigs(self) -> bool:
        return self.frame is not None

    def models(self) -> list[CameraModel]:
        """Of each camera."""
        return [BY_ID[number] for number in self.model.tolist()]

    def with_refined(
        self,
        focal_length: bool = True,
        extra_params: bool = True,
        principal_point: bool = False,
        sensor_from_rig: bool = True,
    ) -> Optics:
        """The same with what a solve may change, as COLMAP's users say it; what the user has fixed
        stays fixed."""
        refined = np.zeros_like(self.refined)
        for number in distinct(self.model).tolist():
            chosen = BY_ID[number].indices(focal_length, principal_point, extra_params)
            refined[np.ix_(self.model == number, np.array(chosen, np.int64))] = True
        if self.held is not None:
            refined[self.held] = False
        sensors = None
        if self.sensors is not None:
            sensors = np.full(len(self.sensors), sensor_from_rig)
            sensors[0] = False
            if self.held_sensors is not None:
                sensors &= ~self.held_sensors
        return replace(self, refined=refined, refined_sensors=sensors)

    def with_fixed(self, free_cameras: Bools) -> Optics:
        """The same, without refining what a mask (C, 9) of images says the user has fixed: a camera
        if the intrinsics of any of its images are, a sensor if the poses of all of them are."""
        held = np.zeros(len(self.model), bool) if self.held is None else self.held.copy()
        held[self.camera[~free_cameras[:, 6:].all(axis=1)]] = True
        refined = self.refined & ~held[:, None]
        if self.sensor is None or self.refined_sensors is None:
            return replace(self, held=held, refined=refined)
        moving = np.zeros(len(self.refined_sensors), bool)
        moving[self.sensor[free_cameras[:, :6].any(axis=1)]] = True
        still = ~moving if self.held_sensors is None else ~moving | self.held_sensors
        sensors = self.refined_sensors & ~still
        return replace(
            self, held=held, refined=refined, held_sensors=still, refined_sensors=sensors
        )

    def with_cameras(self, camera: Ints) -> Optics:
        """The same with other cameras of images, (C,): each becomes one with the parameters that
        its first image has now."""
        _, first, group = np.unique(camera, return_index=True, return_inverse=True)
        old = self.camera[first]
        return replace(
            self,
            camera=group.reshape(-1).astype(np.int32),
            model=self.model[old],
            params=self.params[old],
            refined=self.refined[old],
            held=None if self.held is None else self.held[old],
        )

    def with_observations(self, keep: np.ndarray) -> Optics:
        """The same with the pixels of some observations."""
        return self if self.pixels is None else replace(self, pixels=self.pixels[keep])

    def image_poses(self) -> Floats:
        """R and centre of each image, (C, 12), as frames and sensors say."""
        assert self.frames is not None
        assert self.sensors is not None
        return compose(self.frames[self.frame], self.sensors[self.sensor])

    def with_images_at(self, poses: Floats) -> Optics:
        """The same with frames moved to where their images are now, (C, 12): to the mean of what
        the images of a frame say."""
        assert self.frame is not None
        assert self.frames is not None
        assert self.sensors is not None
        moved = np.flatnonzero((self.image_poses() != poses).any(axis=1))
        some = np.isin(self.frame, self.frame[moved])
        at, S = self.frame[some], self.sensors[self.sensor][some]
        R = np.einsum("nij,nkj->nik", poses[some, :9].reshape(-1, 3, 3), S[:, :9].reshape(-1, 3, 3))
        t = poses[some, 9:] - np.einsum("nij,nj->ni", R, S[:, 9:])
        sums = np.zeros((len(self.frames), 12))
        np.add.at(sums, at, np.hstack([R.reshape(-1, 9), t]))
        which, count = np.unique(at, return_counts=True)
        U, _, V = np.linalg.svd(sums[which, :9].reshape(-1, 3, 3))
        frames = self.frames.copy()
        frames[which] = np.hstack([(U @ V).reshape(-1, 9), sums[which, 9:] / count[:, None]])
        return replace(self, frames=frames)

    def scaled(self, scale: float) -> Optics:
        """The same in a world larger by this factor: sensors are farther from each other."""
        if self.sensors is None:
            return self
        return replace(self, sensors=self.sensors * np.r_[np.ones(9), np.full(3, scale)])

    def tables(self) -> dict[str, np.ndarray]:
        """All arrays but the pixels, by name."""
        arrays = {name: getattr(self, name) for name in TABLES}
        return {name: array for name, array in arrays.items() if array is not None}

    def validated(self, images: int, observations: int) -> Optics:
        """Return self, or raise `DabaError` for what no solver could handle."""
        N = len(self.model)
        shapes: dict[str, tuple[np.ndarray | None, tuple[int, ...]]] = {
            "camera": (self.camera, (images,)),
            "params": (self.params, (N, PARAMETERS)),
            "refined": (self.refined, (N, PARAMETERS)),
        }
        if self.pixels is not None:
            shapes["pixels"] = (self.pixels, (observations, 2))
        if self.frame is not None:
            F = int(self.frame.max(initial=-1)) + 1
            M = 0 if self.sensors is None else len(self.sensors)
            shapes |= {
                "frame": (self.frame, (images,)),
                "frames": (self.frames, (F, 12)),
                "sensor": (self.sensor, (images,)),
                "sensors": (self.sensors, (M, 12)),
                "refined_sensors": (self.refined_sensors, (M,)),
            }
        for what, (array, shape) in shapes.items():
            if array is None or array.shape != shape:
                found = None if array is None else array.shape
                raise DabaError(f"optics: {what} must have shape {shape}, not {found}")
        for number in distinct(self.model).tolist():
            if number not in BY_ID:
                raise DabaError(f"camera model {number} is not known")
        if len(self.camera) and not 0 <= self.camera.min() <= self.camera.max() < N:
            raise DabaError(f"optics: an image has a camera that is not one of {N}")
        for what, array in (("camera", self.params), ("observation", self.pixels)):
            if array is None or np.isfinite(array).all():
                continue
            bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
            raise DabaError(f"{what} {bad[0]}: NaN or infinite value ({array[bad[0]]})")
        return self


TABLES = tuple(name for name in Optics.__dataclass_fields__ if name not in ("pixels", "bundler"))
"""Names that `Optics.tables` may give."""
PANORAMA = MODELS["EQUIRECTANGULAR"]


def compose(rigs: Floats, sensors: Floats) -> Floats:
    """Records (n, 12) of cameras in the world, of sensors in rigs that are there. On the place of
    the rig itself a camera is where the rig is, to the last bit."""
    R, S = rigs[:, :9].reshape(-1, 3, 3), sensors[:, :9].reshape(-1, 3, 3)
    t = rigs[:, 9:] + np.einsum("nij,nj->ni", R, sensors[:, 9:])
    return np.hstack([np.einsum("nij,njk->nik", R, S).reshape(-1, 9), t])


def observe(problem: Problem, chosen: np.ndarray | slice = slice(None)) -> tuple[Floats, Bools]:
    """Where cameras see the points of some observations, in pixels, (n, 2), and whether they do."""
    optics = problem.optics
    image, point = problem.camera_index[chosen], problem.point_index[chosen]
    pixels, seen = np.empty((len(image), 2)), np.empty(len(image), bool)
    R, t = problem.poses[:, :9], problem.poses[:, 9:]
    model = optics.model[optics.camera]
    for number in distinct(model).tolist():
        known = BY_ID[number]
        params = np.ascontiguousarray(optics.params[:, : known.count])[optics.camera]
        every = bool((model == number).all())
        found = None if every else np.flatnonzero((model == number)[image])
        for start in range(0, len(image) if found is None else len(found), CHUNK):
            chunk = slice(start, start + CHUNK)
            k: Any = chunk if found is None else found[chunk]
            i = image[k]
            δ = problem.points.take(point[k], axis=0) - t.take(i, axis=0)
            x = np.einsum("kji,kj->ki", R.take(i, axis=0).reshape(-1, 3, 3), δ)
            if optics.bundler:
                x[x[:, 2] < 0] *= -1.0  # a camera of BAL sees a line, not a ray
            pixels[k], seen[k] = image_points(known, params.take(i, axis=0), x)
    return pixels, seen


def well_seen(problem: Problem) -> Bools:
    """Whether cameras see the points of their observations: not those on their centres either,
    whose direction is rounding."""
    seen, centers = observe(problem)[1], problem.poses[:, 9:]
    beside = beside_centers(problem.points, centers)
    if beside is not None:
        k = np.flatnonzero(beside[problem.point_index])
        image = problem.camera_index[k]
        δ = problem.points[problem.point_index[k]] - centers[image]
        seen[k] &= np.abs(δ).max(axis=1) > closest(centers)[image]
    return seen


def reprojection_errors(problem: Problem) -> tuple[Floats, Bools]:
    """|r| of each observation in pixels, (K,), and whether its camera sees the point; where it does
    not, the error is infinite. Of a panorama, as COLMAP has it, the angle between the rays, in
    pixels along its horizon: it has no seam, and pixels at the poles count no more than others."""
    pixels, seen = observe(problem)
    x, y = (pixels - problem.pixels).T
    errors = np.sqrt(x * x + y * y)
    panorama = problem.optics.model == PANORAMA.id
    if panorama.any():
        k = np.flatnonzero(panorama[problem.optics.camera[problem.camera_index]])
        errors[k] = _panorama_errors(problem, k)
    return np.where(seen & np.isfinite(errors), errors, np.inf), seen


def _panorama_errors(problem: Problem, k: np.ndarray) -> Floats:
    optics = problem.optics
    params = optics.params[optics.camera[problem.camera_index[k]], : PANORAMA.count]
    observed, x = unproject(PANORAMA, params, problem.pixels[k]), towards_points(problem, k)
    across = np.linalg.norm(np.cross(observed, x), axis=1)
    angle = np.arctan2(across, np.einsum("ki,ki->k", observed, x))
    return np.asarray(angle * params[:, 0] / (2 * np.pi))


def towards_points(problem: Problem, k: np.ndarray) -> Floats:
    """Unit directions, in the cameras' frames, to the points of some observations."""
    i = problem.camera_index[k]
    δ = problem.points[problem.point_index[k]] - problem.centers[i]
    x = np.einsum("kji,kj->ki", problem.rotations[i], δ)
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))
