"""A problem whose observations are read a chunk at a time, and never all held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from daba.core.errors import DabaError
from daba.core.types import frozen
from daba.partition.ordering import Records
from daba.problem.checks import beside_centers, check_observations
from daba.problem.problem import Floats, Problem

CHUNK = 1 << 16
"""Observations read at once."""


@frozen
class Source:
    """Everything of a `Problem`, with observations by the numbers of their ends."""

    cameras: Floats
    points: Floats
    focal: Floats
    observations: int
    read: Callable[[], Iterator[Records]]
    """Read the observations, in their order, from the first on."""
    name: str
    info: dict[str, Any]
    file: str = ""
    """Named in errors."""
    whole: Problem | None = None
    """The problem itself, where it is in memory."""

    @staticmethod
    def of(problem: Problem) -> Source:
        """A problem that is in memory after all."""
        p = problem

        def read() -> Iterator[Records]:
            for start in range(0, p.num_observations, CHUNK):
                k = slice(start, start + CHUNK)
                yield Records(p.camera_index[k], p.point_index[k], p.u[k], p.weights[k])

        return Source(
            p.cameras, p.points, p.focal, p.num_observations, read, p.name, p.info, whole=p
        )

    def checked(self) -> Iterator[Records]:
        """The observations, or the `DabaError` that `Problem.validated` would raise."""
        start = 0
        try:
            self._check_variables()
            beside = beside_centers(self.points, self.cameras[:, 9:12])
            for records in self.read():
                check_observations(self.cameras, self.points, *records, beside, start)
                start += len(records.camera)
                yield records
        except DabaError as error:
            here = str(error).startswith(self.file)  # what the reader says names the file already
            raise (error if here else DabaError(f"{self.file}: {error}")) from None

    def _check_variables(self) -> None:
        """Validate all cameras and points, in a problem with the first observations alone."""
        if not self.observations:
            C, P = len(self.cameras), len(self.points)
            raise DabaError(f"empty problem: {C} cameras, {P} points, 0 observations")
        camera, point, u, weights = next(self.read())
        Problem(self.cameras, self.points, camera, point, u, weights, self.focal).validated()
