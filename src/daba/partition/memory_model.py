"""What a process will need, predicted from a partition before anything is solved."""

from __future__ import annotations

from daba.core.types import frozen

PROGRAM = 215_000_000
"""Bytes of a process that solves next to nothing: the interpreter, its libraries, the kernels."""

RECORD = 4 + 4 + 16 + 8 + 4
"""Bytes of an observation: camera, point, u, ω, and its entry in the index by camera."""
JACOBIAN = 20 * 8
"""Derivatives and residual, of intra observations only."""
MEASURED = 8 * 8
"""What the surrogate measures, of inter observations only; twice that without refinement."""
STATES = 5
"""Estimates held at once: the start, x, x before it, x̄ and x⁺."""
TASKS = 8
"""Partial sums that a product with the reduced system keeps of each camera."""

CAMERA_SURROGATES = 8 * 2 * (15 + 36 + 18 + 1)
POINT_SURROGATES = 8 * 2 * (3 + 1 + 3 + 1)
"""Bytes of a camera and of a point in two surrogates, which only DABA has."""
CAMERA = CAMERA_SURROGATES + 8 * (
    STATES * 15
    + 2 * 81  # U and its damped copy
    + 81  # preconditioner
    + 9 * (4 + 4 + TASKS)  # gradient, right-hand side, steps; conjugate gradients; their sums
    + 6  # step bound, distance, s, γ, where its observations begin
)
"""Bytes of a camera in all."""
POINT = POINT_SURROGATES + 8 * (
    STATES * 3
    + 2 * 6  # V and its damped inverse
    + 3 * 3  # gradient, z, step
    + 3 + 1 + 2  # centroid of its cameras, step bound, where its observations begin
)  # fmt: skip
"""Bytes of a point in all."""


@frozen
class Holding:
    """What a process would hold, in numbers."""

    cameras: int
    points: int
    intra: int
    inter: int
    """Observations with one end here and the other elsewhere."""
    ghost_cameras: int
    ghost_points: int

    @property
    def memory(self) -> int:
        """Bytes at most, with the program itself."""
        return (
            PROGRAM
            + (RECORD + JACOBIAN) * self.intra
            + (RECORD + MEASURED) * self.inter
            + CAMERA * self.cameras
            + POINT * self.points
            + 8 * STATES * (15 * self.ghost_cameras + 3 * self.ghost_points)
        )
