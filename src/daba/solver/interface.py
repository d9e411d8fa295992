"""What the run loop drives: the interface of every solver, whatever its method and backend.

A solver holds the devices of one process. All processes call its methods in the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from daba.core.options import Options
from daba.core.types import Floats
from daba.distributed.comm.base import Communicator, Exchange
from daba.distributed.shard import Shard, State

Arrays = dict[str, np.ndarray]
"""Arrays of one device, by name, as a checkpoint keeps them."""


@dataclass
class Counts:
    """What a solver has done on the devices of this process; counts add up over iterations and
    over processes. What all processes do together (a round of exchange, an all-reduce) is counted
    by rank 0 alone. Each field has a namesake in the history's entries (`runtime.result`)."""

    restarts: int = 0
    """Devices that threw their accelerated step away."""
    pcg_iterations: int = 0
    lm_retries: int = 0
    """Steps that were rejected and tried again with a smaller radius."""
    lm_steps: int = 0
    """Accepted steps."""
    rounds: int = 0
    """Of exchange with neighbours; counted by rank 0."""
    all_reduces: int = 0
    """Sums over all devices; counted by rank 0."""
    boundary_bytes: int = 0
    """That devices here have told others in rounds, whether or not they share a process."""
    summed_bytes: int = 0
    """That they have given to sums."""

    def add(self, other: Counts) -> None:
        for field in fields(other):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class DeviceObjective(NamedTuple):
    """The objective at the estimate, of each device here, (S,); every observation is counted by
    exactly one device."""

    F: Floats
    """Of observations and priors."""
    square: Floats
    """Σ ω²|e|² of observations."""
    priors: Floats
    """The priors' part of F."""


class Solver(ABC):
    """The devices of one process, and the state of a method on them."""

    shard: Shard
    options: Options
    comm: Communicator
    exchange: Exchange
    """Brings ghosts; its traffic is all that the solver sends to neighbours."""
    counts: Counts
    """Of the last iteration."""
    moved: bool
    """Whether the last iteration has changed the estimate anywhere on this process."""
    settled: bool = False
    """Whether the last step promised so little that no other is worth making; the same on all
    processes."""
    hidden: int = 0
    """Observations without weight, because their cameras did not see their points at the start."""

    @abstractmethod
    def iterate(self) -> None:
        """One iteration of the method, for every device."""

    @property
    @abstractmethod
    def estimate(self) -> State:
        """What has been reached, in the order of the shard; rows of ghosts may follow its own."""

    @abstractmethod
    def device_objective(self) -> DeviceObjective:
        """The objective at the estimate, device by device; needs no communication."""

    @property
    def objective(self) -> float:
        """F of all devices; every process must ask at the same time."""
        here = self.device_objective()
        return float(self.comm.gather(np.column_stack([here.F, here.square]))[:, 0].sum())

    @property
    @abstractmethod
    def linear_solver(self) -> str:
        """What solves the reduced camera system, in a word."""

    @abstractmethod
    def gradient_norm(self) -> float:
        """Largest entry of the gradient of F, over all processes."""

    @abstractmethod
    def check(self) -> None:
        """Raise `DabaError` if a guarantee of the method does not hold at this iteration."""

    @abstractmethod
    def device_states(self) -> dict[int, Arrays]:
        """Everything that the next iteration depends on, by device; for checkpoints."""

    @abstractmethod
    def common_state(self) -> dict[str, Any]:
        """What of it is the same on every device, as JSON can hold it."""

    @abstractmethod
    def put_back(self, states: dict[int, Arrays], common: dict[str, Any]) -> None:
        """Go on from what `device_states` and `common_state` gave, on any number of processes."""

    def view(self, cameras: np.ndarray, points: np.ndarray) -> tuple[Floats, Floats]:
        """Of some of the shard's cameras R row by row and the centre, (n,12), and of some of its
        points their positions, (m,3): for recordings."""
        x = self.estimate
        return x.cameras[cameras, :12], x.points[points]
