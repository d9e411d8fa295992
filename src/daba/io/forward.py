"""From the forward model of BAL and Bundler, whose cameras look along −z, to our rays and back.

Both project `P = R X + t` to `u_px = f (1 + k1 ρ² + k2 ρ⁴) p` with `p = −P.xy / P.z` and
`ρ = |p|`. The paper's ray model sees the same scene reflected through the origin:

    u = −u_px / f,  R ← Rᵀ,  t ← Rᵀ t,  l = −X
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.io import bal_weights
from daba.io.files import PathLike
from daba.io.numbers import chunks
from daba.problem.intrinsics import forward_model, rays_from_forward
from daba.problem.problem import Floats, Ints, Problem, camera_records, pixel_weights
from daba.problem.rays import COEFFICIENTS, lenses, radial_optics

Reading = Literal["paper", "standard"]
"""How k1 and k2 of a file are taken."""
Intrinsics = Literal["auto", "paper", "standard"]
"""The same, as users ask for it: "auto" is what files of that kind usually mean."""


class ForwardCameras(NamedTuple):
    """Cameras as BAL and Bundler have them."""

    R: Floats
    """(C,3,3), world to camera."""
    t: Floats
    """(C,3)."""
    model: Floats
    """(C,3): f, k1, k2."""


class ForwardObservations(NamedTuple):
    """Observations: camera, point, and where, in pixels."""

    camera: Ints
    point: Ints
    pixels: Floats


def check_intrinsics(intrinsics: str) -> None:
    if intrinsics not in ("paper", "standard"):
        raise DabaError(f"intrinsics must be 'paper' or 'standard', not {intrinsics!r}")


def to_problem(
    path: PathLike,
    intrinsics: Reading,
    cameras: ForwardCameras,
    points: Floats,
    seen: ForwardObservations,
) -> Problem:
    """The problem that a file describes; `points` and `seen.pixels` are overwritten.

    intrinsics   "paper" takes k1, k2 as the paper's authors do, d = (1, k1 f², k2 f⁴);
                 "standard" fits d per camera to the forward model, with the residual of the
                 fit in `problem.info["intrinsics_fit"]`
    """
    cam, pt, u = seen
    f, k = np.ascontiguousarray(cameras.model[:, 0]), cameras.model[:, 1:]
    for c in chunks(len(u)):
        u[c] /= -f[cam[c], None]
    info = first_info(path, intrinsics)
    given: Floats | None = None
    with np.errstate(over="ignore", invalid="ignore"):  # `validated` names the camera
        if intrinsics == "paper":
            d = paper_intrinsics(cameras.model)
        else:
            d, info["intrinsics_fit"] = rays_from_forward(cam, u, f, k)
            given = np.ascontiguousarray(cameras.model)
            f, d = _change_divisor(cam, u, f, d, bal_weights.load(path, f))
    weights = np.empty(len(u))
    for c in chunks(len(u)):
        weights[c] = pixel_weights(u[c], f[cam[c]])
    np.negative(points, out=points)
    one_each = np.arange(len(f), dtype=np.int32)
    try:
        return Problem(
            cameras=records(cameras, d),
            points=points,
            camera_index=cam,
            point_index=pt,
            u=u,
            weights=weights,
            focal=f,
            name=stem(path),
            info=info,
            given_optics=None if given is None else radial_optics(one_each, given, d),
        ).validated()
    except DabaError as error:
        raise DabaError(f"{Path(path).name}: {error}") from error


def from_problem(problem: Problem) -> ForwardCameras:
    """The cameras of a problem, fitted by `daba.problem.intrinsics.forward_model`."""
    _check_forward(problem)
    R = problem.rotations.transpose(0, 2, 1)  # world to camera
    return ForwardCameras(R, np.einsum("cij,cj->ci", R, problem.centers), forward_model(problem))


def _check_forward(problem: Problem) -> None:
    """Raise `DabaError` if the cameras of a problem cannot be written as (f, k1, k2)."""
    optics = problem.given_optics
    if optics is None or optics.bundler:
        return
    ids = problem.info.get("camera_ids", np.arange(len(optics.model)))
    for number, model in zip(ids, optics.models(), strict=True):
        if model.id not in COEFFICIENTS:
            raise DabaError(
                f"camera {number} is {model.name}, which BAL and Bundler cannot express; they have "
                "a focal length and two coefficients of radial distortion"
            )
    lens = lenses(optics)
    uneven = np.flatnonzero(lens[:, 0] != lens[:, 1])
    if len(uneven):
        warnings.warn(
            f"camera {ids[uneven[0]]} has different fx and fy, and BAL and Bundler one focal "
            "length: its pixels are written as if they were square",
            DabaWarning,
            stacklevel=4,
        )


def pixels(problem: Problem, k: slice | np.ndarray) -> Floats:
    """Some observations in the file's pixels, (n,2)."""
    given = problem.given_optics
    if given is not None and given.bundler and given.pixels is not None:
        return -given.pixels[k]
    return np.asarray(-problem.focal[problem.camera_index[k], None] * problem.u[k])


def divisors(problem: Problem, focal: Floats) -> Floats:
    """By what observations were divided, of cameras that are written with these focal lengths: of a
    solution in pixels, by them."""
    return problem.focal if problem.has_rays else focal


def records(cameras: ForwardCameras, d: Floats) -> Floats:
    R, t, _ = cameras
    return camera_records(R.transpose(0, 2, 1), np.einsum("cji,cj->ci", R, t), d)


def paper_intrinsics(model: Floats) -> Floats:
    f, k1, k2 = model.T
    return np.column_stack([np.ones_like(f), k1 * f**2, k2 * f**4])


def first_info(path: PathLike, intrinsics: Reading) -> dict[str, Any]:
    return {"source": Path(path).name, "intrinsics": intrinsics, "world_sign": -1}


def stem(path: PathLike) -> str:
    """A problem's name: its file's, without what says how it is stored."""
    name = Path(path).name
    for suffix in (".bz2", ".gz", ".txt", ".bal", ".out"):
        name = name.removesuffix(suffix)
    return name or "problem"


def _change_divisor(
    cam: Ints, u: Floats, f: Floats, d: Floats, divisor: Floats | None
) -> tuple[Floats, Floats]:
    """Focal length and d after u, divided by f so far, is divided by `divisor` instead.

    With c = f / divisor, u ← c u, and the same ray is (u, c z): d1 + d2 s + d3 s² in the new s.
    """
    if divisor is None:
        return f, d
    scale = f / divisor
    for c in chunks(len(u)):
        u[c] *= scale[cam[c], None]
    return divisor, d * scale[:, None] ** [1, -1, -3]
