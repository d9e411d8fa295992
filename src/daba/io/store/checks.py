"""What the arrays of a device may hold: a checksum tells of damage, not of sense.

Whoever reads a file trusts its indices, so they are looked through when it is opened; numbers and
the order of observations before they are handed out as a `DeviceBlock`, since a process that solves
a part of a store never sees the whole problem. Where all of a file is read once, indices and
numbers are looked through piece by piece, while they are in the cache.
"""

from __future__ import annotations

import numpy as np

from daba.core.errors import DabaError
from daba.partition.ordering import DeviceRanges
from daba.problem.checks import PIECE, check_finite, check_positive, check_rotations
from daba.problem.problem import Ints


def check_indices(
    name: str, array: np.ndarray, device: int, ranges: DeviceRanges, start: int = 0
) -> None:
    """Raise `DabaError` for the first entry of a device's file, or of a piece of it that begins at
    `start`, that leads nowhere."""
    match name:
        case "camera_id":
            check_range(array, 0, ranges.cameras)
        case "point_id":
            check_range(array, 0, ranges.points)
        case "intra-id" | "inter-id":
            check_range(array, 0, ranges.observations, start)
        case "intra-camera" | "inter-camera" | "outer-camera":
            _check_ends(array, ranges.camera_ptr, device, start, elsewhere=name == "inter-camera")
        case "intra-point" | "inter-point" | "outer-point":
            _check_ends(array, ranges.point_ptr, device, start, elsewhere=name == "outer-point")


def check_numbers(name: str, array: np.ndarray, ranges: DeviceRanges, start: int = 0) -> None:
    """Raise `DabaError` for the first entry of a device's file, or of a piece of it that begins at
    `start`, that makes no sense."""
    match name:
        case "camera_id":
            check_distinct(array, ranges.cameras)
        case "point_id":
            check_distinct(array, ranges.points)
        case "cameras":
            check_finite("camera", array)
            check_rotations(array)
        case "points":
            check_finite("point", array)
        case "focal":
            check_positive("camera", "focal length", array)
        case "intra-u" | "inter-u" | "outer-u" | "intra-pixels" | "inter-pixels" | "outer-pixels":
            check_finite("observation", array, start)
        case "intra-weight" | "inter-weight" | "outer-weight":
            check_positive("observation", "weight", array, start)


def check_order(kind: str, camera: Ints, point: Ints, start: int = 0) -> None:
    """Raise `DabaError` unless observations, numbered from `start`, are sorted as `DeviceBlock`
    says."""
    major, minor = (camera, point) if kind == "outer" else (point, camera)
    for first in range(0, len(major) - 1, PIECE):
        a, b = major[first : first + PIECE + 1], minor[first : first + PIECE + 1]
        sorted_ = (a[1:] > a[:-1]) | ((a[1:] == a[:-1]) & (b[1:] >= b[:-1]))
        if not sorted_.all():
            row = start + first + 1 + int(np.argmin(sorted_))
            raise DabaError(f"{kind} observation {row} is not in its place, they must be sorted")


def check_range(array: np.ndarray, first: int, end: int, start: int = 0) -> None:
    """Raise `DabaError` for the first index, numbered from `start`, that is not from `first` to
    `end` − 1."""
    if first == 0 and array.dtype == np.int32:  # without its sign what is below 0 is far above
        outside = len(array) > 0 and array.view(np.uint32).max() >= end
    else:
        outside = len(array) > 0 and (array.min() < first or array.max() >= end)
    if outside:
        row = int(np.argmax((array < first) | (array >= end)))
        raise DabaError(
            f"entry {start + row} is {array[row]}, and must lie from {first} to {end - 1}"
        )


def check_distinct(array: Ints, count: int) -> None:
    """Raise `DabaError` if one of `count` numbers is there twice."""
    found = np.zeros(count, bool)  # marking costs a tenth of sorting
    found[array] = True
    if np.count_nonzero(found) < len(array):
        order = np.sort(array)
        raise DabaError(f"{order[1:][order[1:] == order[:-1]][0]} stands in it twice")


def _check_ends(array: Ints, ptr: np.ndarray, device: int, start: int, elsewhere: bool) -> None:
    """Indices in device order, of what the device owns or, `elsewhere`, of what others do."""
    first, end = ptr[device : device + 2]
    if not elsewhere:
        return check_range(array, first, end, start)
    check_range(array, 0, ptr[-1], start)
    from_first = array.view(np.uint32) - np.uint32(first)  # without its sign, as in `check_range`
    if len(array) and from_first.min() < end - first:
        row = int(np.argmax(from_first < end - first))
        raise DabaError(f"entry {start + row} is {array[row]}, which is of the device itself")
