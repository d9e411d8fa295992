"""What the kernels are handed: small bundles of arrays.

Kernels only read bundles: what they write they are handed as plain arrays, because Numba takes
a parallel loop that writes into a tuple's member for dead code and drops it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Observations(NamedTuple):
    """Observations sorted by point, with an index that reads them by camera."""

    camera: Int32
    point: Int32
    u: Floats
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

    J: Floats
    """Per intra observation: ∂r/∂(ω, t, d) as 2×9, then r (2). ∂r/∂l is −J[:, t]."""
    U: Floats
    """Camera blocks (C, 9, 9)."""
    V: Floats
    """Point blocks (P, 6), upper triangle."""
    g_c: Floats
    """Gradient along cameras (C, 9)."""
    g_l: Floats
    """Gradient along points (P, 3)."""
    reach: Floats
    """Longest step of each point, (P,)."""


class Moments(NamedTuple):
    """The surrogate at one base: P_i and Q_j in closed form (method §2)."""

    cameras: Floats
    """Base camera records Ẑ, (C, 15)."""
    points: Floats
    """Base points, (P, 3)."""
    M: Floats
    """Σ w/(2θ) m mᵀ per camera, (C, 6, 6)."""
    G: Floats
    """Σ ½ w e mᵀ per camera, (C, 3, 6)."""
    c: Floats
    """θ Σ F_ij per camera, (C,)."""
    A: Floats
    """Σ w λ²/(2(1−θ)) per point, (P,)."""
    b: Floats
    """Σ ½ w λ e per point, (P, 3)."""
    c_l: Floats
    """(1−θ) Σ F_ij per point, (P,)."""


class Ties(NamedTuple):
    """What of cameras takes no part in a step, and what moves as one."""

    held: Bools
    """Parameters that stay, (C, 9)."""
    leader: Int32
    """First of the cameras of a device that share their d, for each of them; a camera with a d of
    its own leads itself, (C,)."""


class Known(NamedTuple):
    """Priors ½ρ(rᵀΛr) of one kind, to be looked up by variable."""

    row: Int32
    """Row of each variable, −1 where nothing is known of it."""
    target: Floats
    information: Floats
    kind: int
    radius: float
