"""A store put together again: the whole problem in its own order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.errors import DabaError
from daba.io.info import check_colmap
from daba.partition.ordering import inverse
from daba.problem.checks import CAMERA_RECORD, PIECE, beside_centers
from daba.problem.constraints import Constraints, concatenate
from daba.problem.optics import Optics
from daba.problem.problem import Ints, Problem
from daba.problem.rays import free_coefficients

if TYPE_CHECKING:
    from daba.io.store.store import Store


def load_whole(store: Store) -> Problem:
    """The problem, bit for bit the one the store was made from."""
    m = store.manifest
    solved = m.optics is not None and m.optics.solved
    camera_order, point_order = store.order("camera_id"), store.order("point_id")
    whole = _Arrays(m.cameras, m.points, m.observations, pixels=solved or m.has_pixels)
    try:
        for device in _opened_ahead(store):
            whole.add(store, device, camera_order, point_order)
        parts = whole.constraints
        joined = concatenate(parts, store.ranges.camera_ptr, store.ranges.point_ptr)
        taken = joined and joined.take(
            inverse(camera_order), inverse(point_order), (m.cameras, m.points)
        )
        problem = _problem(store, whole, taken or Constraints()).validated(observations=False)
        return problem if whole.is_looked_through() else problem.validated()
    except DabaError as error:
        if str(error).startswith(str(store.path)):
            raise
        for device in range(store.devices):
            store.check(device)  # which file it was
        raise DabaError(f"{store.path}: {error}") from error


def _opened_ahead(store: Store) -> Iterator[int]:
    """The devices in turn, each when all of its files were opened and its observations looked
    through: by another thread, which is at the next ones while this one is used."""
    done: SimpleQueue[Exception | None] = SimpleQueue()

    def open_all() -> None:
        for device in range(store.devices):
            try:
                for kind in ("intra", "inter"):
                    store.look_through(device, kind)
                for name in store.manifest.parts[device].arrays:
                    store.array(device, name)
                done.put(None)
            except Exception as error:
                done.put(error)
                return

    Thread(target=open_all, daemon=True).start()
    for device in range(store.devices):
        if (error := done.get()) is not None:
            raise error
        yield device


def _problem(store: Store, whole: _Arrays, constraints: Constraints) -> Problem:
    info, entry, optics = _copied(store.info), store.manifest.optics, None
    if entry is not None:
        optics = replace(store.optics, **_copied(store.optics.tables()), pixels=whole.pixels)
        constraints = _as_given(constraints, optics)
    check_colmap(info, optics)
    ends = {"camera_index": whole.camera_index, "point_index": whole.point_index}
    others: dict[str, Any] = ends | {"name": store.name, "info": info} | vars(constraints)
    if optics is not None and entry is not None and entry.solved:
        poses = np.ascontiguousarray(whole.cameras[:, :12])
        return Problem.from_optics(optics, poses, whole.points, **others)
    return Problem(
        whole.cameras, whole.points, u=whole.u, weights=whole.weights, focal=whole.focal,
        given_optics=optics, **others,
    )  # fmt: skip


def _copied(values: dict[str, Any]) -> dict[str, Any]:
    """Arrays in memory that can be written."""
    return {
        key: value.copy() if isinstance(value, np.ndarray) else value
        for key, value in values.items()
    }


class _Arrays:
    """The arrays of a problem, while they are put together. The camera of an observation that no
    file has would be -1, and `validated` would refuse it."""

    def __init__(self, C: int, P: int, K: int, pixels: bool) -> None:
        self.cameras, self.points = np.empty((C, CAMERA_RECORD)), np.empty((P, 3))
        self.focal = np.empty(C)
        self.camera_index, self.point_index = np.full(K, -1, np.int32), np.empty(K, np.int32)
        self.u, self.weights = np.empty((K, 2)), np.empty(K)
        self.pixels = np.full((K, 2), np.nan) if pixels else None
        self.constraints: list[Constraints | None] = []

    def add(self, store: Store, device: int, camera_order: Ints, point_order: Ints) -> None:
        """What a device holds."""
        camera_id, point_id = store.array(device, "camera_id"), store.array(device, "point_id")
        self.cameras[camera_id] = store.array(device, "cameras")
        self.focal[camera_id] = store.focal(device)
        self.points[point_id] = store.array(device, "points")
        self.constraints.append(store.constraints(device))
        for kind in ("intra", "inter"):
            pixels = None if self.pixels is None else store.pixels(device, kind)
            numbers = store.array(device, f"{kind}-id")
            observations = store.unsorted_records(device, kind)
            for start in range(0, len(numbers), PIECE):
                rows = slice(start, start + PIECE)
                id, records = numbers[rows], observations.take(rows)
                self.camera_index[id] = camera_order[records.camera]
                self.point_index[id] = point_order[records.point]
                self.u[id], self.weights[id] = records.u, records.weight
                if pixels is not None and self.pixels is not None:
                    self.pixels[id] = pixels[rows]

    def is_looked_through(self) -> bool:
        """Whether nothing is left to find in observations that were looked through one by one: that
        each has a value, and none has its point on its camera's centre."""
        if self.camera_index.min(initial=0) < 0:
            return False
        return beside_centers(self.points, self.cameras[:, 9:12]) is None


def _as_given(constraints: Constraints, optics: Optics) -> Constraints:
    """The constraints of devices, without what follows from the models of cameras."""
    free = constraints.free_cameras
    if free is None:
        return constraints
    free = free.copy()
    free[:, 6:] |= ~free_coefficients(optics)[optics.camera]
    if optics.held is not None:
        free[optics.held[optics.camera], 6:] = False
    return replace(constraints, free_cameras=free)
