"""A solution in COLMAP's own terms: lenses, poses, points, and the pixel errors COLMAP computes."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from daba.core.errors import DabaError
from daba.io.colmap import optics
from daba.io.colmap.model import Model
from daba.io.colmap.parts import Edits
from daba.io.colmap.poses import from_colmap, to_colmap
from daba.io.colmap.reading import observations, used_cameras
from daba.io.colmap.rigs import frame_poses, image_poses
from daba.problem.problem import Floats, Ints, Problem, camera_records

UNSEEN = float(np.sqrt(np.finfo(np.float64).max))
"""COLMAP's error, in pixels, of a point that its camera does not see."""


def is_colmap(problem: Problem) -> bool:
    """Whether a problem was read from a COLMAP model."""
    return "colmap" in problem.info


class ModelObservations(NamedTuple):
    """Observations of the model that the solution still has, whether a solve used them or not."""

    row: np.ndarray
    """Its number among all 2D points of the model."""
    camera: Ints
    point: Ints


class Solution:
    """The problem's estimate, put into the model it was read from.

    What a solve has not touched is as it was in the files, to the last bit.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        about = problem.info["colmap"]
        self.rigs = about["rigs"]
        self.model = Model(about["path"])
        self.start_poses = image_poses(self.model, self.rigs)
        self.registered = np.asarray(problem.info["registered"])
        if len(self.model.images.ids) != problem.info["cameras_in_file"]:
            raise self._other_model()
        self.cameras, self.group = used_cameras(self.model, self.registered)
        """COLMAP's cameras, and which of them each of ours has."""
        self._check()

    @cached_property
    def _lenses(self) -> tuple[Floats, dict[str, float]]:
        p, info = self.problem, self.problem.info
        lens, start = np.asarray(info["lens"]), np.asarray(info["lens_rays"])
        d = np.empty_like(start)
        d[self.group] = p.intrinsics
        split = np.flatnonzero((d[self.group] != p.intrinsics).any(axis=1))
        if len(split):
            camera = info["lens_ids"][self.group[split[0]]]
            raise DabaError(
                f"images that have camera {camera} in {self.model.folder} have different "
                "intrinsics now, which a COLMAP model cannot express"
            )
        moved = (d != start).any(axis=1)
        k = np.flatnonzero(moved[self.group[p.camera_index]])
        group = self.group[p.camera_index[k]]
        new, fit = optics.lenses_of(self.cameras, lens, d, group, p.u[k])
        return np.where(moved[:, None], new, lens), fit

    @property
    def lenses(self) -> Floats:
        """fx, fy, cx, cy, k1, k2 of each COLMAP camera, (G,6)."""
        return self._lenses[0]

    @property
    def fit(self) -> dict[str, float]:
        """How far the lenses are from the rays that were solved for, in pixels: rms and max."""
        return self._lenses[1]

    @cached_property
    def seen(self) -> ModelObservations:
        row, camera, point = observations(self.model, self.registered)
        kept = ~self.dropped[row]
        return ModelObservations(row[kept], camera[kept], point[kept])

    @cached_property
    def dropped(self) -> np.ndarray:
        """Which 2D points of the model have lost their 3D point, (N,)."""
        lost = np.zeros(len(self.model.images.points), bool)
        gone = np.asarray(self.problem.info.get("dropped", np.empty((0, 2), np.int64)))
        lost[self.model.images.ptr[self.registered[gone[:, 0]]] + gone[:, 1]] = True
        return lost

    @cached_property
    def errors(self) -> Floats:
        """Pixel error of each observation of `seen`, (n,)."""
        p, (row, camera, point) = self.problem, self.seen
        δ = p.points[point] - p.centers[camera]
        x = np.einsum("kji,kj->ki", p.rotations[camera], δ)
        pixels = optics.project(self.cameras, self.lenses, self.group[camera], x)
        r = np.linalg.norm(pixels - self.model.images.xy[row], axis=1)
        return np.where(np.isnan(r), UNSEEN, r)

    @cached_property
    def point_errors(self) -> Floats:
        """Mean error of each point's observations, as COLMAP keeps it; 0 where there are none."""
        P = self.problem.num_points
        count = np.bincount(self.seen.point, minlength=P)
        return np.bincount(self.seen.point, self.errors, P) / np.maximum(count, 1)

    @property
    def mean_error(self) -> float:
        """What COLMAP calls the mean reprojection error: the mean over points of their errors."""
        return float(self.point_errors[~self.removed].mean())

    @cached_property
    def removed(self) -> np.ndarray:
        """3D points that a filter has left without observations, (P,)."""
        P = self.problem.num_points
        before = self.model.points.tracks > 0
        return before & (np.bincount(self.seen.point, minlength=P) == 0)

    def observation_errors(self) -> Floats:
        """Errors of the problem's own observations, (K,)."""
        images, p = self.model.images, self.problem
        row = images.ptr[self.registered[p.camera_index]] + np.asarray(p.info["keys"])
        index = np.empty(len(images.points), np.int64)
        index[self.seen.row] = np.arange(len(self.seen.row))
        return np.asarray(self.errors[index[row]])

    def edits(self) -> Edits:
        """What is to be written."""
        p, model = self.problem, self.model
        params = {
            camera.id: optics.params(camera, lens)
            for camera, lens, old in zip(
                self.cameras, self.lenses, map(optics.lens, self.cameras), strict=True
            )
            if not np.array_equal(lens, old)
        }
        near = self.start_poses[self.registered]
        start = camera_records(*from_colmap(near), p.intrinsics)
        changed = (start[:, :12] != p.cameras[:, :12]).any(axis=1)
        moved = np.zeros(len(model.images.ids), bool)
        moved[self.registered[changed]] = True
        poses = model.images.poses.copy()
        poses[moved] = to_colmap(p.rotations[changed], p.centers[changed], near[changed])
        keep_rigs = model.has_rigs and self.rigs == "keep"
        return Edits(
            params=params,
            poses=poses,
            frames=frame_poses(model, poses, moved) if keep_rigs else None,
            xyz=p.points,
            errors=self.point_errors,
            dropped=self.dropped,
            removed=self.removed,
        )

    def _check(self) -> None:
        """The files must still be those the problem was read from."""
        p = self.problem
        same = (
            len(self.model.points.ids) == p.num_points
            and np.isfinite(self.start_poses[self.registered]).all()
            and np.array_equal([camera.id for camera in self.cameras], p.info["lens_ids"])
        )
        if not same:
            raise self._other_model()

    def _other_model(self) -> DabaError:
        name = self.problem.name
        return DabaError(f"{self.model.folder} is not the model any more that '{name}' came from")
