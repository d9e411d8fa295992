"""Problem: cameras, points and observations, in the paper's notation.

Camera i is one record of 15 numbers, `[R (3×3, row by row) | t | d]`: rotation (camera to
world), centre, and the coefficients of the ray `p = (u, d1 + d2 |u|² + d3 |u|⁴)`.
Point j is `l`. Observation k says that camera `camera_index[k]` sees point `point_index[k]`
at `u[k]` (pixels divided by the camera's focal length) with weight `weights[k]` (ω), which
turns the angular error into pixels.

The same cameras and observations in pixels, as files describe them, are `Problem.optics`. Whichever
of the two sides was read or solved for last, the other follows from it when it is first asked for.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from daba.core.errors import DabaError
from daba.core.types import Bools, Floats, Ints, frozen
from daba.problem.checks import check_positive, check_problem, checked_indices

if TYPE_CHECKING:
    from daba.core.losses import Loss
    from daba.problem.constraints import Constraints
    from daba.problem.optics import Optics
    from daba.problem.priors import Priors


RAY_SIDE = ("cameras", "u", "weights", "focal")
"""What follows from the optics of a problem that was read or solved in pixels."""
_CONSTRAINTS = ("shared", "free_cameras", "free_points", "priors")
_NEITHER_SIDE = ("camera_index", "point_index", "name", "info", *_CONSTRAINTS)


def camera_records(rotations: ArrayLike, centers: ArrayLike, intrinsics: ArrayLike) -> Floats:
    """Pack rotations (C,3,3), centres (C,3) and intrinsics (C,3) into records (C,15)."""
    R = np.asarray(rotations, dtype=np.float64).reshape(-1, 9)
    return np.ascontiguousarray(
        np.hstack([R, np.asarray(centers, np.float64), np.asarray(intrinsics, np.float64)])
    )


@frozen
class Problem:
    """A bundle adjustment problem together with its current estimate.

    Arrays are float64 (indices int32) and are treated as read-only: a solver returns a new
    `Problem` that shares the observations. Build one with `Problem.from_arrays`, or read a
    file with `daba.load`.
    """

    cameras: Floats
    """Camera records, (C, 15): R row by row (camera to world), centre t, ray coefficients d."""
    points: Floats
    """Points l, (P, 3)."""
    camera_index: Ints
    """Camera of each observation, (K,)."""
    point_index: Ints
    """Point of each observation, (K,)."""
    u: Floats
    """Observed image points divided by the camera's focal length, (K, 2)."""
    weights: Floats
    """ω of each observation, (K,); `ω |e|` is a pixel error to first order."""
    focal: Floats
    """Focal length, in pixels, by which each camera's observations were divided, (C,)."""
    name: str = "problem"
    """The name that tables and files show."""
    info: dict[str, Any] = field(default_factory=dict)
    """What the reader wants remembered: file, intrinsics reading, fit residuals."""
    shared: Ints | None = None
    """Group of each camera, (C,): cameras with the same number share d exactly, and so must have
    the same `focal` and d at the start. None: every camera has its own."""
    free_cameras: Bools | None = None
    """Which of rotation (3), centre (3) and d (3) of each camera may change, (C, 9); None: all."""
    free_points: Bools | None = None
    """Which points may change, (P,); None: all."""
    priors: Priors | None = None
    """What is known of centres, d and points beside the observations."""
    given_optics: Optics | None = None
    """The cameras as they were read, or solved for in pixels; None if they are only known as rays.
    `optics` is in step with the estimate, this need not be."""

    @staticmethod
    def from_arrays(
        rotations: ArrayLike,
        centers: ArrayLike,
        points: ArrayLike,
        camera_index: ArrayLike,
        point_index: ArrayLike,
        pixels: ArrayLike,
        focal: ArrayLike,
        intrinsics: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        name: str = "problem",
        info: dict[str, Any] | None = None,
        shared: ArrayLike | None = None,
        free_cameras: ArrayLike | None = None,
        free_points: ArrayLike | None = None,
        priors: Priors | None = None,
    ) -> Problem:
        """Build a problem from plain arrays and check it.

        Args:
            rotations: (C,3,3), camera to world; the camera looks along its own +z
            centers: (C,3), camera centres in the world
            points: (P,3)
            camera_index: (K,), the camera of each observation
            point_index: (K,), its point
            pixels: (K,2), relative to the principal point, x right and y down (or any right-handed
                choice, as long as rotations agree with it)
            focal: scalar or (C,), pixels
            intrinsics: (C,3) ray coefficients d in units of the focal length; (1,0,0), a pinhole,
                if absent
            weights: (K,); `focal * sqrt(1 + |u|²)` if absent, which makes errors pixels
            info: anything to be remembered with the problem
            shared: constraint, as in the field of the same name
            free_cameras: constraint, as in the field of the same name
            free_points: constraint, as in the field of the same name
            priors: constraint, as in the field of the same name
        """
        R = np.asarray(rotations, dtype=np.float64)
        if R.ndim != 3 or R.shape[1:] != (3, 3):
            raise DabaError(f"rotations must have shape (C, 3, 3), not {R.shape}")
        C = len(R)
        f = np.ascontiguousarray(np.broadcast_to(np.asarray(focal, dtype=np.float64), (C,)))
        if intrinsics is None:
            intrinsics = np.tile([1.0, 0.0, 0.0], (C, 1))
        for what, array, width in (("centers", centers, 3), ("intrinsics", intrinsics, 3)):
            if np.shape(array) != (C, width):
                raise DabaError(f"{what} must have shape ({C}, {width}), not {np.shape(array)}")
        cam = checked_indices(camera_index, "camera_index", C)
        px = np.asarray(pixels, dtype=np.float64)
        if px.shape != (len(cam), 2):
            raise DabaError(f"pixels must have shape ({len(cam)}, 2), not {px.shape}")
        check_positive("camera", "focal length", f)
        u = np.ascontiguousarray(px / f[cam, None])
        if weights is None:
            weights = pixel_weights(u, f[cam])
        pts = np.ascontiguousarray(points, dtype=np.float64)
        if pts.ndim != 2 or pts.shape[1] != 3:
            raise DabaError(f"points must have shape (P, 3), not {np.shape(points)}")
        return Problem(
            cameras=camera_records(R, centers, intrinsics),
            points=pts,
            camera_index=cam,
            point_index=checked_indices(point_index, "point_index", len(pts)),
            u=u,
            weights=np.ascontiguousarray(weights, dtype=np.float64),
            focal=f,
            name=name,
            info=dict(info or {}),
            shared=None if shared is None else np.asarray(shared),
            free_cameras=None if free_cameras is None else np.asarray(free_cameras),
            free_points=None if free_points is None else np.asarray(free_points),
            priors=priors,
        ).validated()

    @staticmethod
    def from_optics(optics: Optics, poses: Floats, points: Floats, **others: Any) -> Problem:
        """A problem given in pixels; rays are computed when they are first asked for.

        Args:
            optics: the cameras, and the pixels observed
            poses: R row by row, camera to world, and centre of each image, (C, 12)
            points: (P, 3)
            others: the other fields, of which `camera_index` and `point_index` are needed
        """
        problem = object.__new__(Problem)
        problem.__dict__.update(dict.fromkeys(_CONSTRAINTS), name="problem", info={})
        problem.__dict__.update(others)
        problem.__dict__.update(_poses=poses, points=points, given_optics=optics)
        return problem

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The side that is not known yet, from the other."""
            if name not in RAY_SIDE or "_poses" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            from daba.problem.rays import ray_side

            self.__dict__.update(ray_side(self))
            del self.__dict__["_poses"]
            return self.__dict__[name]

    @property
    def has_rays(self) -> bool:
        """Whether the ray side is known already."""
        return "_poses" not in self.__dict__

    @cached_property
    def optics(self) -> Optics:
        """The cameras as COLMAP describes them, in step with the estimate. Those of a problem that
        is only known as rays are RADIAL, fitted to its rays."""
        from daba.problem.rays import optics_in_step

        return optics_in_step(self)

    @property
    def num_cameras(self) -> int:
        """C."""
        return len(self.poses)

    @property
    def num_points(self) -> int:
        """P."""
        return len(self.points)

    @property
    def num_observations(self) -> int:
        """K."""
        return len(self.camera_index)

    @property
    def poses(self) -> Floats:
        """R and t, (C,12)."""
        known = self.__dict__.get("_poses")
        return self.cameras[:, :12] if known is None else known

    @property
    def rotations(self) -> Floats:
        """R, (C,3,3), camera to world."""
        return self.poses[:, :9].reshape(-1, 3, 3)

    @property
    def centers(self) -> Floats:
        """t, (C,3)."""
        return self.poses[:, 9:12]

    @property
    def intrinsics(self) -> Floats:
        """d, (C,3)."""
        return self.cameras[:, 12:15]

    @property
    def pixels(self) -> Floats:
        """Observed image points in pixels, (K,2): those of the file, of COLMAP from the corner of
        the image, else from the principal point."""
        if self.given_optics is not None and self.given_optics.pixels is not None:
            return self.given_optics.pixels
        return self.u * self.focal[self.camera_index, None]

    @property
    def cam_from_world(self) -> Floats:
        """[R | t] of each image as COLMAP has it, world to camera, (C,3,4)."""
        R = self.rotations.transpose(0, 2, 1)
        return np.concatenate([R, -np.einsum("cij,cj->ci", R, self.centers)[:, :, None]], axis=2)

    @property
    def image_ids(self) -> np.ndarray:
        """COLMAP's id of each image, (C,); those of other problems are counted from 0."""
        return np.asarray(self.info.get("image_ids", np.arange(self.num_cameras)))

    @property
    def image_names(self) -> list[str]:
        """The name of each image, C of them; empty if the file had none."""
        names = self.info.get("images")
        if names is None:
            return []
        rows = self.info.get("registered", range(len(names)))
        return [str(names[row]) for row in rows]

    @property
    def point3D_ids(self) -> np.ndarray:
        """COLMAP's id of each point, (P,); those of other problems are counted from 0."""
        return np.asarray(self.info.get("point3D_ids", np.arange(self.num_points)))

    @property
    def camera_params(self) -> dict[int, Floats]:
        """Parameters of each camera in the order of its COLMAP model, by COLMAP's camera id; those
        of other problems are counted from 0."""
        optics = self.optics
        ids = self.info.get("camera_ids", range(len(optics.model)))
        rows = zip(ids, optics.models(), optics.params, strict=True)
        return {int(number): row[: model.count] for number, model, row in rows}

    @property
    def constraints(self) -> Constraints | None:
        """The constraints, in the form that solvers take; None if there are none."""
        if (given := self._given_constraints()) is None:
            return None
        from daba.problem.constraints import normalized

        return normalized(given)

    @property
    def requested_constraints(self) -> Constraints | None:
        """The constraints that were asked for, beside what follows from the models of cameras: in
        pixels images share a camera because they have the same, and its model says the rest."""
        poses = None if self.free_cameras is None else self.free_cameras.copy()
        if poses is not None and self.given_optics is not None:
            poses[:, 6:] = ~np.asarray(self.optics.held)[self.optics.camera, None]
        given = (None, poses, self.free_points, self.priors)
        if all(what is None for what in given):
            return None
        from daba.problem.constraints import Constraints, normalized

        return normalized(Constraints(*given))

    def _given_constraints(self) -> Constraints | None:
        """The constraints as they were given, and what no rays of a camera's model can change."""
        given = (self.shared, self._free_in_rays(), self.free_points, self.priors)
        if all(what is None for what in given):
            return None
        from daba.problem.constraints import Constraints

        return Constraints(*given)

    def _free_in_rays(self) -> Bools | None:
        if self.given_optics is None:
            return self.free_cameras
        from daba.problem.rays import free_coefficients

        free = free_coefficients(self.given_optics)[self.given_optics.camera]
        if free.all():
            return self.free_cameras
        whole = np.hstack([np.ones((len(free), 6), bool), free])
        return whole if self.free_cameras is None else whole & self.free_cameras

    @property
    def plain(self) -> bool:
        """Whether there are only observations: nothing shared, nothing fixed, no priors. A solver
        that knows no constraints must refuse a problem that is not plain."""
        return self.constraints is None

    def with_estimate(self, cameras: Floats, points: Floats) -> Problem:
        """The same observations with other cameras and points. Images of a frame that have moved
        relative to each other are put where their rig allows, as near as it does."""
        given = self.given_optics
        if given is not None and given.rigs:
            given = given.with_images_at(cameras[:, :12])
            cameras = np.hstack([given.image_poses(), cameras[:, 12:]])
        return self.changed(cameras=cameras, points=points, given_optics=given)

    def with_optics(self, optics: Optics, points: Floats, poses: Floats | None = None) -> Problem:
        """The same observations with a solution in pixels: cameras, points, and the poses (C, 12)
        of images, which those of frames say where there are rigs."""
        if optics.rigs:
            poses = optics.image_poses()
        assert poses is not None
        if optics.pixels is None:  # the rays as which they are kept will be divided anew
            optics = replace(optics, pixels=self.pixels)
        kept = {name: getattr(self, name) for name in _NEITHER_SIDE}
        return Problem.from_optics(optics, poses, points, **kept)

    def changed(self, **changes: Any) -> Problem:
        """The same with some other fields; what is not known yet stays so."""
        if not self.has_rays and any(name in RAY_SIDE for name in changes):
            self.cameras  # noqa: B018 (one part of the rays needs the others)
        problem = object.__new__(Problem)
        problem.__dict__.update(self.__dict__ | changes)
        if not set(changes) <= {"points", "name", "info", "priors", "free_points"}:
            problem.__dict__.pop("optics", None)
        return problem

    def with_observations(self, keep: np.ndarray, info: dict[str, Any] | None = None) -> Problem:
        """The same with some of its observations, in their order."""
        changes: dict[str, Any] = {
            name: self.__dict__[name][keep]
            for name in ("camera_index", "point_index", "u", "weights")
            if name in self.__dict__
        }
        if self.given_optics is not None:
            changes["given_optics"] = self.given_optics.with_observations(keep)
        problem = object.__new__(Problem)
        problem.__dict__.update(self.__dict__ | changes)
        problem.__dict__.pop("optics", None)
        return problem if info is None else problem.changed(info=info)

    def objective(self, loss: Loss | None = None) -> float:
        """F(x) = Σ ½ ρ(ω² |e|²) and the priors' terms, computed with plain NumPy."""
        from daba.core.losses import Trivial
        from daba.problem import reference

        return reference.objective(self, loss or Trivial()) + self.prior_objective()

    def prior_objective(self) -> float:
        """The priors' part of F(x): Σ ½ ρ(rᵀΛr), each with its own loss."""
        return 0.0 if self.priors is None else self.priors.objective(self.cameras, self.points)

    def __repr__(self) -> str:
        return f"<Problem {self.in_words()}>"

    def in_words(self) -> str:
        """Its name and sizes."""
        from daba.core.text import printable
        from daba.problem.images import ImageNames

        images = ImageNames.of(self.info, self.num_cameras).count(self.num_cameras)
        sizes = f"{self.num_points:,} points, {self.num_observations:,} observations"
        return printable(f"{self.name}: {images}, {sizes}")

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        from daba.problem.diagnostics import html

        return html(self)

    def validated(self, observations: bool = True) -> Problem:
        """Return self, or raise `DabaError` naming the first camera, point or observation
        that no solver could handle; `observations`: whether these are looked at, too."""
        check_problem(self, observations)
        if (given := self._given_constraints()) is not None:
            from daba.problem.constraints import validate, validate_groups

            validate(given, self.num_cameras, self.num_points)
            if self.has_rays:
                validate_groups(given, self.cameras, self.focal)
        return self


def pixel_weights(u: Floats, focal: Floats) -> Floats:
    """ω = f √(1 + |u|²): with it `ω |e|` is a pixel error to first order."""
    return np.asarray(focal * np.sqrt(1.0 + np.einsum("kx,kx->k", u, u)))
