"""Constraints as a user asks for them: what to fix, what to share, what is known beside the images.

The command line is made from the same class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from daba.core.errors import DabaError
from daba.core.losses import Loss, make_loss
from daba.core.types import distinct, frozen
from daba.problem.problem import Bools, Ints, Problem

if TYPE_CHECKING:
    from daba.problem.priors import Targets

FIXABLE = ("intrinsics", "poses", "cameras", "points", "gauge")


@frozen
class ConstraintOptions:
    """Constraints of a problem as a user gives them; see `daba.constrain`."""

    fix: tuple[str, ...] = ()
    """What must not change; give it again for more. intrinsics, poses, cameras (both) or points
    fixes all of them; with :FILE only those that the file lists, by number (from 0) or image name.
    gauge fixes what observations cannot tell: the pose of the first camera, and scale by one
    coordinate of the camera farthest from it."""
    share_intrinsics: Literal["file", "none", "all"] = "file"
    """Which cameras share intrinsics exactly: those the file says; none; or all that have the same
    focal length and intrinsics at the start."""
    position_priors: Path | None = None
    """CSV of known camera centres (GNSS), with a header: camera (number from 0) or image (name); x,
    y, z; and sigma, or sx, sy, sz, or the covariance cxx, cxy, cxz, cyy, cyz, czz. Or a COLMAP
    database (.db), whose pose priors are taken."""
    control_points: Path | None = None
    """CSV of points with known coordinates, in the same form, with a column point."""
    intrinsics_prior: float | None = None
    """Relative standard deviation of focal lengths around those at the start, such as 0.01."""
    prior_loss: Literal["trivial", "huber", "welsch", "cauchy", "geman-mcclure", "soft-l1"] = (
        "trivial"
    )
    """Robust loss of position priors and control points; trivial is least squares."""
    prior_radius: float = 3.0
    """Where that loss turns robust, in standard deviations."""
    align: Literal["auto", "no"] = "auto"
    """Whether the whole scene is first moved to where the tables of positions and control points
    say, by the similarity that fits them best; auto does so unless a pose or point is fixed."""

    @property
    def nothing(self) -> bool:
        """Whether the problem stays as it is."""
        return not self.fix and self.share_intrinsics == "file" and not self.has_priors

    @property
    def has_priors(self) -> bool:
        given = (self.position_priors, self.control_points, self.intrinsics_prior)
        return any(value is not None for value in given)


def constrain(
    problem: Problem, options: ConstraintOptions | None = None, **changes: Any
) -> Problem:
    """The problem with constraints: `daba.constrain(problem, fix=("gauge",),
    share_intrinsics="all", position_priors="gnss.csv")`. What it had already stays. Options are
    those of `daba.ConstraintOptions`."""
    options = replace(options or ConstraintOptions(), **changes)
    if isinstance(options.fix, str):
        options = replace(options, fix=(options.fix,))
    problem = _shared(problem, options.share_intrinsics)
    for what in options.fix:
        problem = _fixed(problem, what)
    problem = _with_priors(problem, options).validated()
    if options.align == "no" or (
        options.position_priors is None and options.control_points is None
    ):
        return problem
    from daba.problem.similarity import aligned

    return aligned(problem)


def _shared(problem: Problem, how: str) -> Problem:
    if how == "none":
        return _with_groups(problem, None)
    if how == "file":
        return problem
    if how != "all":
        raise DabaError(f"share_intrinsics must be file, none or all, not '{how}'")
    rows = np.column_stack([problem.focal, problem.intrinsics])
    if (optics := problem.given_optics) is not None:
        own = np.column_stack([optics.model, optics.params])
        rows = np.hstack([rows, own[optics.camera]])
    group = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    if len(distinct(group)) == problem.num_cameras:
        raise DabaError(
            "no two cameras have the same focal length and intrinsics at the start, so there is "
            "nothing to share"
        )
    return _with_groups(problem, group.astype(np.int32))


def _with_groups(problem: Problem, group: Ints | None) -> Problem:
    """The problem with other groups of cameras that share intrinsics; None: none do."""
    optics = problem.given_optics
    if optics is not None:
        one_each = np.arange(problem.num_cameras, dtype=np.int32)
        optics = optics.with_cameras(one_each if group is None else group)
    return problem.changed(shared=group, given_optics=optics)


def _fixed(problem: Problem, what: str) -> Problem:
    kind, _, file = what.partition(":")
    if kind not in FIXABLE or (kind == "gauge" and file) or (what.endswith(":")):
        raise DabaError(
            f"cannot fix '{what}': say {', '.join(FIXABLE)}, or {FIXABLE[0]}:FILE, {FIXABLE[1]}:"
            f"FILE, {FIXABLE[2]}:FILE or {FIXABLE[3]}:FILE"
        )
    cameras = np.ones((problem.num_cameras, 9), bool)
    points = np.ones(problem.num_points, bool)
    chosen: Ints | slice = slice(None)
    if file:
        from daba.io.tables import read_list

        chosen = read_list(file, "point" if kind == "points" else "camera", problem)
    if kind == "gauge":
        _fix_gauge(problem, cameras)
    elif kind == "points":
        points[chosen] = False
    else:
        columns = {"intrinsics": slice(6, 9), "poses": slice(0, 6), "cameras": slice(0, 9)}[kind]
        cameras[chosen, columns] = False
    return problem.changed(
        free_cameras=_both(problem.free_cameras, cameras),
        free_points=_both(problem.free_points, points),
    )


def _both(before: Bools | None, now: Bools) -> Bools:
    return now if before is None else before & now


def _fix_gauge(problem: Problem, free: Bools) -> None:
    """The seven numbers that a similarity of the whole scene changes."""
    away = problem.centers - problem.centers[0]
    far = int(np.argmax((away**2).sum(axis=1)))
    if far == 0:
        raise DabaError("all cameras are at the same place: the gauge cannot be fixed by them")
    free[0, :6] = False
    free[far, 3 + int(np.argmax(np.abs(away[far])))] = False


def _with_priors(problem: Problem, options: ConstraintOptions) -> Problem:
    loss = make_loss(options.prior_loss, options.prior_radius)
    if not options.has_priors:
        return problem
    from daba.io.tables import read_control_points, read_positions
    from daba.problem.priors import Priors

    priors = problem.priors or Priors()
    readers: tuple[tuple[str, Path | None, Callable[[Path, Problem, Loss], Targets]], ...] = (
        ("positions", options.position_priors, read_positions),
        ("points", options.control_points, read_control_points),
    )
    for kind, path, read in readers:
        if path is not None:
            priors = replace(priors, **{kind: read(path, problem, loss)})
    if options.intrinsics_prior is not None:
        priors = replace(priors, intrinsics=_focal_priors(problem, options.intrinsics_prior))
    return problem.changed(priors=priors) if len(priors) else problem


def _focal_priors(problem: Problem, sigma: float) -> Targets:
    """d1 is what scales the focal length; one prior for all cameras that share it."""
    from daba.problem.priors import Targets

    if not (np.isfinite(sigma) and sigma > 0):
        raise DabaError(f"the intrinsics prior must be a positive number, not {sigma}")
    group = problem.shared if problem.shared is not None else np.arange(problem.num_cameras)
    first = np.sort(np.unique(group, return_index=True)[1])
    d = problem.intrinsics[first]
    information = np.zeros((len(first), 3, 3))
    information[:, 0, 0] = 1.0 / np.square(sigma * d[:, 0])
    return Targets.make(first, d, information=information)
