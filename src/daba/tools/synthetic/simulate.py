"""Make a scene: the truth with its noisy observations, and the start a solver is given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daba.core.types import frozen
from daba.problem.problem import Floats, Ints, Problem, camera_records, pixel_weights
from daba.tools.synthetic import city, orbit, street
from daba.tools.synthetic.layout import Scenery
from daba.tools.synthetic.optics import HALF_IMAGE, Lenses, image_points, optics
from daba.tools.synthetic.options import SceneOptions
from daba.tools.synthetic.tracks import observe
from daba.tools.synthetic.visibility import mean_views

LAYOUTS = {"street": street.layout, "city": city.layout, "orbit": orbit.layout}
CHUNK = 1 << 20
ROOM = 1.15
"""Views a point should have for each it gets: room for some tracks to be long."""


@frozen
class Scene:
    """A synthetic problem twice: the observations are the same, the estimates differ."""

    truth: Problem
    """The true cameras and points."""
    start: Problem
    """The perturbed ones, to begin a solution from."""


def generate(options: SceneOptions) -> Scene:
    """Make a synthetic scene; the same options give the same bits."""
    options = options.validated()
    rng = np.random.default_rng(options.seed)
    lenses = optics(rng, options.cameras, options.focal_error, options.distortion)
    layout = _crowded_enough(rng, options, lenses)
    points, camera, point = observe(rng, options, layout, lenses)
    u = _images(layout, lenses, points, camera, point)
    u = _spoiled(rng, options, u, lenses.focal[camera])
    truth = Problem(
        cameras=camera_records(layout.rotations, layout.centers, lenses.intrinsics),
        points=points,
        camera_index=camera,
        point_index=point,
        u=u,
        weights=pixel_weights(u, lenses.focal[camera]),
        focal=lenses.focal,
        name=f"{options.scene}-{options.cameras}",
        info={"synthetic": options.scene, "seed": options.seed},
    ).validated()
    return Scene(truth, _perturbed(rng, options, layout, truth))


def _crowded_enough(rng: np.random.Generator, options: SceneOptions, lenses: Lenses) -> Scenery:
    """A layout whose cameras stand so close that tracks can be as long as wanted."""
    for crowding in (1.0, 1.5, 2.2, 3.3, 5.0):
        layout = LAYOUTS[options.scene](rng, options.cameras, crowding * options.mean_track)
        if mean_views(rng, layout, lenses, options.longest_track) > ROOM * options.mean_track:
            break
    return layout


def _images(layout: Scenery, lenses: Lenses, points: Floats, camera: Ints, point: Ints) -> Floats:
    """Exact image points u of all observations, in pieces to bound the memory."""
    u = np.empty((len(camera), 2))
    for start in range(0, len(camera), CHUNK):
        k = slice(start, start + CHUNK)
        c = camera[k]
        y = np.einsum("kx,kxy->ky", points[point[k]] - layout.centers[c], layout.rotations[c])
        u[k] = image_points(y, lenses.intrinsics[c])
    return u


def _spoiled(rng: np.random.Generator, options: SceneOptions, u: Floats, focal: Floats) -> Floats:
    """Image points with noise and outliers."""
    if options.noise > 0:
        u = u + rng.standard_normal(u.shape) * (options.noise / focal)[:, None]
    wrong = rng.permutation(len(u))[: round(options.outliers * len(u))]
    u[wrong] = rng.uniform(-1, 1, (len(wrong), 2)) * HALF_IMAGE / focal[wrong, None]
    return u


def _perturbed(
    rng: np.random.Generator, options: SceneOptions, layout: Scenery, truth: Problem
) -> Problem:
    """The start: bent as a whole, then each camera and point moved, and lenses unknown."""
    C, P = truth.num_cameras, truth.num_points
    bend = _Bend.draw(rng, options.drift, layout.centers)
    moved, turn = bend(layout.centers)
    turn += np.radians(options.rotation_error) * rng.standard_normal((C, 3))
    moved += options.center_error * layout.spacing * rng.standard_normal((C, 3))
    rotations = rotation(turn) @ layout.rotations
    intrinsics = np.tile([1.0, 0.0, 0.0], (C, 1))

    points, _ = bend(truth.points)
    scale = options.point_error * _distances(truth)
    points += scale[:, None] * rng.standard_normal((P, 3)).clip(-3, 3)
    start = truth.with_estimate(camera_records(rotations, moved, intrinsics), points)
    return replace(start, info=dict(truth.info))


def _distances(truth: Problem) -> Floats:
    """Distance of each point from the nearest camera that sees it."""
    away = np.empty(truth.num_observations, np.float32)
    for start in range(0, len(away), CHUNK):
        k = slice(start, start + CHUNK)
        delta = truth.points[truth.point_index[k]] - truth.centers[truth.camera_index[k]]
        away[k] = np.linalg.norm(delta, axis=1)
    first = np.flatnonzero(np.diff(truth.point_index, prepend=-1))
    return np.minimum.reduceat(away, first).astype(np.float64)


@frozen
class _Bend:
    """A smooth displacement D(x) = Σ a sin(k·x + φ): what drift leaves after loops are closed."""

    a: Floats
    k: Floats
    phase: Floats

    @staticmethod
    def draw(rng: np.random.Generator, drift: float, centers: Floats) -> _Bend:
        extent = float(np.linalg.norm(np.ptp(centers, axis=0)))
        a = drift * extent * rng.standard_normal((4, 3))
        k = 2 * np.pi / extent * rng.standard_normal((4, 3))
        return _Bend(a, k, rng.uniform(0, 2 * np.pi, 4))

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        """x + D(x), and the turn ½ curl D(x) that goes with it."""
        angle = x @ self.k.T + self.phase
        return x + np.sin(angle) @ self.a, 0.5 * np.cos(angle) @ np.cross(self.k, self.a)


def rotation(v: Floats) -> Floats:
    """exp of rotation vectors (n, 3), by Rodrigues' formula."""
    angle = np.linalg.norm(v, axis=1)
    x, y, z = (v / np.maximum(angle, 1e-300)[:, None]).T
    o = np.zeros_like(x)
    K = np.stack([o, -z, y, z, o, -x, -y, x, o], axis=1).reshape(-1, 3, 3)
    s, c = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    return np.asarray(np.eye(3) + s * K + (1 - c) * (K @ K))
