"""What the kernels are handed: arrays, and small bundles of them; and what classes are made of.

Kernels only read bundles: what they write they are handed as plain arrays, because Numba takes
a parallel loop that writes into a tuple's member for dead code and drops it. Nor can such a loop
use a bundle of bundles.

Here and in kernels' annotations an array has one dimension unless told otherwise: from this the
CPU's compiler knows its type before there is any array.
"""

from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import Annotated, Any, NamedTuple, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Int32 = NDArray[np.int32]
Ints = Int32
"""Indices, where no kernel takes them."""
Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]
Matrix = Annotated[Floats, 2]
"""Rows: of cameras, points, observations, tasks or devices."""
Blocks = Annotated[Floats, 3]
"""Matrices, one after the other."""
Mask = Annotated[Bools, 2]


def distinct(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """Each value, or row, once, sorted. `np.unique` of values alone and `np.median` would load
    `numpy.ma`, 15 ms of every command; so there are these."""
    if axis is not None:
        return np.unique(values, return_index=True, axis=axis)[0]
    ordered = np.sort(values, axis=None)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def starts(counts: np.ndarray) -> Int64:
    """Where runs of so many begin that follow each other, and where the last ends, (n + 1,)."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def median(values: np.ndarray, axis: int | None = None) -> Any:
    """As `np.median` of numbers without NaN; NaN if there are none."""
    if values.size == 0:
        return np.nan
    count = values.size if axis is None else values.shape[axis]
    middle = [(count - 1) // 2, count // 2]
    ordered = np.partition(values, middle, axis=axis)
    return ordered.take(middle, axis=axis).mean(axis=axis)


Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: Class) -> Class:
    """As `dataclass(frozen=True)`, which writes and compiles six functions for each class: 10 ms of
    every command. Here one is compiled, `__init__`, and all classes share the others."""
    dataclass(eq=False, repr=False)(cls)
    for name in ("__setattr__", "__delattr__", "__eq__", "__hash__", "__repr__"):
        if name not in vars(cls):
            setattr(cls, name, vars(_Frozen)[name])
    return cls


class _Frozen:
    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self: Any) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, f.name) for f in fields(self) if f.compare)


class State(NamedTuple):
    """An estimate x: camera records and points in the shard's order, its own before its ghosts."""

    cameras: Matrix
    points: Matrix

    def copy(self) -> "State":
        return State(self.cameras.copy(), self.points.copy())


class LossParameters(NamedTuple):
    """A robust loss as kernels know it: which one, and its radius in pixels."""

    kind: int
    radius: float


class Observations(NamedTuple):
    """Observations sorted by point, with an index that reads them by camera."""

    camera: Int32
    point: Int32
    u: Matrix
    weight: Floats
    point_ptr: Int64
    """Observations of point j are point_ptr[j] : point_ptr[j+1]."""
    camera_ptr: Int64
    camera_obs: Int32
    """Observations of camera i are camera_obs[camera_ptr[i] : camera_ptr[i+1]]."""


class Tasks(NamedTuple):
    """Pieces of work of about equal size, none across two devices; the same for any number of
    threads, so that sums come out in the same order and with the same bits."""

    ptr: Int64
    """Task τ covers the points (or cameras) ptr[τ] : ptr[τ+1]."""
    device: Int32
    device_ptr: Int64
    """Tasks of device α are device_ptr[α] : device_ptr[α+1]."""


class Devices(NamedTuple):
    """Where each device's cameras and points lie; both are contiguous."""

    camera_ptr: Int64
    point_ptr: Int64
    camera_tasks: Tasks
    point_tasks: Tasks


class System(NamedTuple):
    """Gauss–Newton system of E^α, of all devices at once."""

    J: Matrix
    """Per intra observation: ∂r/∂(ω, t, d) as 2×9, then r (2). ∂r/∂l is −J[:, t]."""
    U: Blocks
    """Camera blocks (C, 9, 9)."""
    V: Matrix
    """Point blocks (P, 6), upper triangle."""
    g_c: Matrix
    """Gradient along cameras (C, 9)."""
    g_l: Matrix
    """Gradient along points (P, 3)."""
    step_bound: Floats
    """Longest step of each point, (P,)."""


class Reduced(NamedTuple):
    """What the reduced camera system S = D − W V'⁻¹ Wᵀ is made of, W = J_cᵀ J_l."""

    J: Matrix
    D: Blocks
    """Damped camera blocks U', (C, 9, 9)."""
    V_inv: Matrix
    """Inverted damped point blocks V'⁻¹, (P, 6)."""


class Moments(NamedTuple):
    """The surrogate at one base: P_i and Q_j in closed form (method §2)."""

    cameras: Matrix
    """Base camera records Ẑ, (C, 15)."""
    points: Matrix
    """Base points, (P, 3)."""
    M: Blocks
    """Σ w/(2θ) m mᵀ per camera, (C, 6, 6)."""
    G: Blocks
    """Σ ½ w e mᵀ per camera, (C, 3, 6)."""
    c: Floats
    """θ Σ F_ij per camera, (C,)."""
    A: Floats
    """Σ w λ²/(2(1−θ)) per point, (P,)."""
    b: Matrix
    """Σ ½ w λ e per point, (P, 3)."""
    c_l: Floats
    """(1−θ) Σ F_ij per point, (P,)."""


class SharedGroups(NamedTuple):
    """What of cameras takes no part in a device's step, and what moves as one."""

    fixed: Mask
    """Parameters that stay, (C, 9)."""
    representative: Int32
    """First of the cameras of a device that share their d, for each of them; a camera with a d of
    its own represents itself, (C,)."""


class Known(NamedTuple):
    """Priors ½ρ(rᵀΛr) of one kind, to be looked up by variable."""

    row: Int32
    """Row of each variable, −1 where nothing is known of it."""
    target: Matrix
    information: Blocks
    kind: int
    radius: float


class Plan(NamedTuple):
    """Where every block of S goes, and in which order tiles are factored."""

    size: int
    place: Int32
    """Row of each camera, counted in cameras."""
    camera_at: Int32
    """Camera at each row, −1 for padding."""
    device: Int32
    piece_ptr: Int64
    piece_obs: Int32
    """Observations in blocks of about equal cost, each of some cameras, in the order of points."""
    tile: Annotated[Int32, 2]
    """Index of tile (i, j), −1 where S and its factor are zero, (N, N)."""
    tile_device: Int32
    level_ptr: Int64
    level_row: Int32
    level_col: Int32
    row_ptr: Int64
    row_col: Int32
    """Columns k < j of the nonzero tiles of row j."""
