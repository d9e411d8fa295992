"""What holds for cameras and points beside their observations: of a problem, or of a part of it.

Parameters that must not change, cameras that share intrinsics, and priors. `Problem` has these as
fields; devices and processes carry their part of them in this form, and files as named arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.losses import make_loss
from daba.core.types import Bools, Floats, Ints, frozen
from daba.problem.priors import Priors, Targets

CAMERA_PARAMETERS = 9
"""Parameters of a camera: rotation, centre and d, three of each."""
KINDS = ("positions", "intrinsics", "points")
"""The priors there are."""


@frozen
class Constraints:
    """Constraints of some cameras and points, in their order; None where there are none."""

    shared: Ints | None = None
    """Group of each camera: those with the same number have the same d."""
    free_cameras: Bools | None = None
    """Which of rotation, centre and d may change, (C, 9)."""
    free_points: Bools | None = None
    """Which points may change, (P,)."""
    priors: Priors | None = None

    def take(self, cameras: Ints, points: Ints, counts: tuple[int, int]) -> Constraints:
        """The constraints of some of the cameras and points, of which there are `counts`."""
        priors = None
        if self.priors is not None:
            camera, point = _numbers(cameras, counts[0]), _numbers(points, counts[1])
            numbers = zip(KINDS, (camera, camera, point), strict=True)
            priors = Priors(*(getattr(self.priors, kind).take(number) for kind, number in numbers))
        return Constraints(
            None if self.shared is None else self.shared[cameras],
            None if self.free_cameras is None else self.free_cameras[cameras],
            None if self.free_points is None else self.free_points[points],
            priors,
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The constraints as named arrays, but for the losses, which `losses` gives."""
        arrays = {
            name: value
            for name in ("shared", "free_cameras", "free_points")
            if (value := getattr(self, name)) is not None
        }
        if self.priors is not None:
            for kind in KINDS:
                targets = getattr(self.priors, kind)
                for what in ("index", "target", "information"):
                    arrays[f"{kind}-{what}"] = getattr(targets, what)
        return arrays

    def losses(self) -> dict[str, Any]:
        """Name and radius of the loss of each kind of prior."""
        if self.priors is None:
            return {}
        losses = {kind: getattr(self.priors, kind).loss for kind in KINDS}
        return {kind: [loss.name, loss.radius] for kind, loss in losses.items()}


def from_arrays(arrays: Mapping[str, np.ndarray], losses: dict[str, Any]) -> Constraints | None:
    """The reverse of `to_arrays` and `losses`; None if there is nothing."""
    plain = {name: arrays.get(name) for name in ("shared", "free_cameras", "free_points")}
    priors = None
    if losses:
        priors = Priors(
            *(
                Targets(
                    arrays[f"{kind}-index"],
                    arrays[f"{kind}-target"],
                    arrays[f"{kind}-information"],
                    make_loss(*losses[kind]),
                )
                for kind in KINDS
            )
        )
    if priors is None and all(value is None for value in plain.values()):
        return None
    return Constraints(**plain, priors=priors)


ARRAYS = (
    "shared",
    "free_cameras",
    "free_points",
    *(f"{kind}-{what}" for kind in KINDS for what in ("index", "target", "information")),
)
"""Names that `to_arrays` may give."""


def concatenate(
    parts: list[Constraints | None], cameras: np.ndarray, points: np.ndarray
) -> Constraints | None:
    """One after the other, given where the cameras and points of each begin."""
    found = [part for part in parts if part is not None]
    if not found:
        return None

    def joined(name: str) -> Any:
        arrays = [getattr(part, name) for part in found]
        return None if arrays[0] is None else np.concatenate(arrays)

    priors = None
    if found[0].priors is not None:
        each = [part.priors for part in found]
        priors = Priors(
            *(
                Targets.concatenate([getattr(p, kind) for p in each], starts)
                for kind, starts in zip(KINDS, (cameras, cameras, points), strict=True)
            )
        )
    return Constraints(joined("shared"), joined("free_cameras"), joined("free_points"), priors)


def validate(constraints: Constraints, cameras: int, points: int) -> None:
    """Raise `DabaError` for constraints that are not of so many cameras and points."""
    C = cameras
    shapes: tuple[tuple[str, Any, tuple[int, ...], type], ...] = (
        ("shared", constraints.shared, (C,), np.integer),
        ("free_cameras", constraints.free_cameras, (C, CAMERA_PARAMETERS), np.bool_),
        ("free_points", constraints.free_points, (points,), np.bool_),
    )
    for what, array, shape, kind in shapes:
        if array is None:
            continue
        if array.shape != shape or not np.issubdtype(array.dtype, kind):
            name = "bool" if kind is np.bool_ else "integers"
            raise DabaError(
                f"{what} must be {name} of shape {shape}, not {array.dtype} {array.shape}"
            )
    if constraints.priors is not None:
        constraints.priors.validated(C, points)


def validate_groups(constraints: Constraints, cameras: Floats, focal: Floats) -> None:
    """Raise `DabaError` if cameras of a group have not the same focal length and d."""
    shared = constraints.shared
    if shared is None:
        return
    _, first, group = np.unique(shared, return_index=True, return_inverse=True)
    like = first[group]
    same = (cameras[:, 12:15] == cameras[like, 12:15]).all(axis=1) & (focal == focal[like])
    bad = np.flatnonzero(~same)
    if len(bad):
        i, j = int(like[bad[0]]), int(bad[0])
        what = "focal lengths" if focal[i] != focal[j] else "intrinsics d"
        raise DabaError(
            f"cameras {i} and {j} share intrinsics (group {shared[i]}) but have different {what}"
        )


def normalized(constraints: Constraints) -> Constraints | None:
    """The same, in the form that solvers take: groups numbered from 0; groups of one camera,
    all-free masks and empty priors left out; what is fixed in one camera's d fixed in all that
    share it."""
    shared, free = constraints.shared, constraints.free_cameras
    points, priors = constraints.free_points, constraints.priors
    if shared is not None:
        _, group, count = np.unique(shared, return_inverse=True, return_counts=True)
        shared = None if (count < 2).all() else group.astype(np.int32)
    if free is not None and shared is not None:
        common = np.ones((int(shared.max()) + 1, 3), bool)
        np.logical_and.at(common, shared, free[:, 6:])
        free = np.hstack([free[:, :6], common[shared]])
    if free is not None and free.all():
        free = None
    if points is not None and points.all():
        points = None
    if priors is not None and len(priors) == 0:
        priors = None
    if shared is None and free is None and points is None and priors is None:
        return None
    return replace(constraints, shared=shared, free_cameras=free, free_points=points, priors=priors)


def describe(constraints: Constraints | None, noun: str = "camera") -> list[str]:
    """The constraints in words, with what cameras are called in the file."""
    if constraints is None:
        return []
    notes = []
    if constraints.shared is not None:
        count = np.unique(constraints.shared, return_counts=True)[1]
        groups, cameras = int((count > 1).sum()), int(count[count > 1].sum())
        word = "group" if groups == 1 else "groups"
        notes.append(f"{cameras:,} {noun}s share intrinsics, in {groups:,} {word}")
    free = constraints.free_cameras
    if free is not None:
        for what, part in (("pose", free[:, :6]), ("intrinsics", free[:, 6:])):
            fixed, some = int((~part).all(axis=1).sum()), int((~part).any(axis=1).sum())
            if fixed:
                notes.append(f"{what} of {fixed:,} {noun}s fixed")
            if some > fixed:
                notes.append(f"some of the {what} of {some - fixed:,} {noun}s fixed")
    if constraints.free_points is not None:
        notes.append(f"{int((~constraints.free_points).sum()):,} points fixed")
    for kind, what in zip(KINDS, (f"{noun} positions", "intrinsics", "points"), strict=True):
        targets = Targets() if constraints.priors is None else getattr(constraints.priors, kind)
        if len(targets):
            loss = targets.loss
            robust = "" if loss.name == "trivial" else f", {loss.name} beyond {loss.radius:g} sigma"
            notes.append(f"{len(targets):,} {what} known beforehand{robust}")
    return notes


def _numbers(chosen: Ints, count: int) -> Ints:
    number = np.full(count, -1, np.int32)
    number[chosen] = np.arange(len(chosen), dtype=np.int32)
    return number
