"""What Algorithm 1 asks of a backend: the operations of one iteration on the devices of a process,
and the device table, all of a backend's numbers that its driver reads.

The driver (`solver/algorithm.py`) puts them together to phases and says when each runs. On the CPU
a phase is a plain call. On a GPU it is recorded as a graph and replayed, and nothing waits for it
but `status` and `read`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum, IntEnum, auto
from typing import Any, Literal, Protocol

from daba.core.types import Bools, Floats, State
from daba.distributed.comm.base import Blocks

Phase = Callable[[], None]
Block = Literal["cameras", "points"]


class Row(IntEnum):
    """Rows of the device table: one for everything that is kept for each device, float64 (rows, S).

    The table is the only thing that the host of a GPU ever reads in an iteration. Flags are 0 or 1.
    A row that is the same for all devices is read in column 0.
    """

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last: list[int]) -> int:
        return count

    # The same for all devices
    STATUS = auto()
    """What an iteration needs next: see `Status`."""
    ATTEMPT = auto()
    """Attempts at the present step."""
    S_POINTS = auto()
    """Nesterov's s of points."""
    GAMMA = auto()
    """γ of points."""
    ETA = auto()
    TURN = auto()
    """Whose turn it is among intrinsics that devices share."""

    # The method's state
    RADIUS = auto()
    SHRINK = auto()
    """What the radius is divided by after a step that fails."""
    LIMIT = auto()
    """Of the radius."""
    F = auto()
    F_BAR = auto()
    E = auto()

    # At x
    INTRA = auto()
    """F of the intra observations, and of priors."""
    INTRA_SQUARE = auto()
    """Squared pixel error of the intra observations."""
    INTER = auto()
    """F of the inter observations, by the device of their camera."""
    INTER_SQUARE = auto()
    AT_X = auto()
    """Σ P + Σ Q at x of the surrogate built there."""
    AT_BAR = auto()
    """The same at x̄."""

    # The present step
    START = auto()
    """E^α at x, of the surrogate in use."""
    ACTIVE = auto()
    """Devices that the step is for."""
    TRYING = auto()
    """Those of them that have not found it yet."""
    MOVED = auto()
    """Those that have."""
    NEW = auto()
    """As INTRA, at x⁺."""
    NEW_SQUARE = auto()
    NEW_X = auto()
    """E^α(x⁺ | x) less NEW."""
    NEW_MOVE = auto()
    """|x⁺ − x|²."""
    CHANGE = auto()
    """F^α − E^α as far as it is known."""

    # Counts of the present iteration
    PCG = auto()
    """Iterations of conjugate gradients."""
    RETRIES = auto()
    RESTARTS = auto()
    STEPS = auto()
    """Accepted steps."""

    # Conjugate gradients on a GPU: of even iterations, and in the next row of odd ones
    RUN = auto()
    """Still running."""
    RUN_ODD = auto()
    RZ = auto()
    RZ_ODD = auto()
    Q = auto()
    Q_ODD = auto()
    K = auto()
    K_ODD = auto()
    RZ_START = auto()
    ALPHA = auto()
    COUNT = auto()
    """Iterations of the last conjugate gradients."""
    ALWAYS = auto()
    """One on every device."""

    # Sums over the programs of a GPU, by cameras (C) and by points (L)
    SUM_INTER_C = auto()
    """F of the inter observations."""
    SUM_INTER_SQUARE_C = auto()
    SUM_GAP_C = auto()
    """F_ij − P_ij − Q_ij for the base before."""
    SUM_INTER_L = auto()
    SUM_GAP_L = auto()
    SUM_SLACK_F_L = auto()
    SUM_SLACK_L = auto()
    """As SUM_GAP_L, before the boundary is refined."""
    SUM_VALUE_C = auto()
    """Of the surrogate in use, less that at its base."""
    SUM_VALUE_L = auto()
    SUM_VALUE_X_C = auto()
    """Of the surrogate at x."""
    SUM_VALUE_X_L = auto()
    SUM_MOVE_C = auto()
    """|x⁺ − x|²."""
    SUM_MOVE_L = auto()
    SUM_DECREASE_C = auto()
    """What the model promises."""
    SUM_DECREASE_L = auto()
    SUM_INTRA_C = auto()
    SUM_INTRA_SQUARE_C = auto()
    SUM_KNOWN = auto()
    """Priors at x."""
    SUM_REFINED_C = auto()
    """Change of F by refinement."""
    SUM_REFINED_L = auto()


class Status(IntEnum):
    """What an iteration needs next."""

    DONE = 0
    MORE = 1
    """More conjugate gradients."""
    RETRY = 2
    """Another attempt at a step."""
    RESTART = 3
    """A step without momentum on some devices."""


class Base(Enum):
    """Where a surrogate stands."""

    X = "x"
    BAR = "x̄"


class Operations(Protocol):
    """One process's devices on one backend: estimates x, x̄, x⁺ and the one before, surrogates at x
    and x̄, and the device table."""

    linear_solver: str
    """What solves the reduced camera system, in a word."""
    tolerance: float
    """Share of F by which rounding may break a guarantee."""
    table: Floats
    """The device table as last read."""

    # Running

    def run(self, name: Hashable, phase: Phase) -> None:
        """Run a phase; under one name always the same."""

    def when_done(self, phase: Phase) -> None:
        """Inside a phase: run another one if the status is DONE by then, else skip it."""

    def status(self) -> Status:
        """Wait for what is running, and say what the iteration needs next."""

    def read(self) -> Floats:
        """Wait, and read the table."""

    def write(self, table: Floats) -> None:
        """Put the rows of the method's state into the backend's table."""

    # The state

    def set_estimate(self, x: State) -> None:
        """Stand at x, whose ghosts are known: objective, and surrogate there."""

    def set_momentum(self, last: State, camera_s: Floats) -> None:
        """The estimate before x, and Nesterov's s of each camera."""

    def set_scales(self, distance: Floats, centroid: Floats) -> None:
        """Of each camera its distance to what it sees, and of each point the centroid of its
        cameras: what momentum is reset and clipped by."""

    def estimate(self) -> State:
        """x, on the host."""

    def momentum(self) -> tuple[State, Floats]:
        """What `set_momentum` sets, on the host."""

    def prior_objective(self) -> Floats:
        """The priors' part of F at x, (S,)."""

    def gradient_norm(self) -> float:
        """Largest entry of the gradient of F at x on the devices here."""

    # Nesterov's acceleration and majorization

    def begin(self) -> None:
        """A new iteration: γ and s⁺, every device active at x."""

    def extrapolate(self) -> None:
        """x̄ = Proj(x + γ (x − x_last))."""

    def rebase(self) -> None:
        """The surrogate at x̄, and E^α(x | x̄)."""

    def linearize(self) -> None:
        """Gauss–Newton system of the intra observations at x."""

    def assemble(self, base: Base) -> None:
        """… and of E^α(· | base)."""

    # Minimization: one attempt at a step

    def damp(self, base: Base) -> None:
        """The damped system, its points eliminated."""

    def solve(self) -> None:
        """The reduced camera system."""

    def solve_on(self) -> None:
        """Go on with it where the status was MORE."""

    def move(self, base: Base) -> None:
        """x⁺ to be tried on the devices that are trying."""

    def judge(self, base: Base) -> None:
        """Keep x⁺ where E^α has fallen enough and adapt the radius. If no device tries any more:
        E^α⁺ and, of steps from x̄, the devices that must restart."""

    # The end of an iteration

    def settle(self) -> None:
        """x⁺ = x where no step was found."""

    def slack(self) -> None:
        """ΔE^α(x⁺ | x), all of an inter observation's on its point's device: the only one to know
        both ends before the boundary is refined."""

    def refine(self, block: Block, again: bool) -> None:
        """Move the boundary's cameras or points to lower the true F; `again` if they have moved in
        this iteration."""

    def exchange(self, blocks: Blocks, final: bool) -> None:
        """Tell neighbours x⁺ and learn their ghosts; `final` if nothing of it moves any more."""

    def finish(self) -> None:
        """The surrogate at x⁺, F^α = E^α + ΔE^α(x⁺ | x), the limit of the radius, the restart
        level, and x ← x⁺."""


class ConsensusOperations(Operations, Protocol):
    """What ADMM and Douglas–Rachford ask besides: x are the copies of all devices here, to which
    every observation is intra, and the surrogate is a prior that draws copies to targets. A second
    estimate is shown to users: means of what is copied, and of the rest what is best for them."""

    def set_prior(self, kind: Any, K: Floats, penalty: float) -> None:
        """Its formulas (a `Prior`), metric and κ; targets follow."""

    def draw_to(self, target: Floats) -> None:
        """Set the copies' targets."""

    def local_objective(self) -> Floats:
        """E^α at x, (S,)."""

    def only(self, active: Bools) -> None:
        """After `begin`: take the step on these devices alone."""

    def advance(self) -> None:
        """x ← x⁺."""

    def copied(self) -> Floats:
        """The copies in x, on the host."""

    def blocks(self) -> Floats:
        """After `linearize`: of each copied camera the diagonal of U, of each point V."""

    def step_bounds(self) -> Floats:
        """After `linearize`: how far each point may move in a step."""

    def show(self, x: State) -> None:
        """The estimate that is shown."""

    def follow(self, z: Floats, steps: int) -> None:
        """Show other means: what is not copied follows, each variable by a few steps of its own
        that lower F from where it was shown last."""

    def shown(self) -> State:
        """On the host."""

    def shown_objective(self) -> Floats:
        """F and squared pixel error of what is shown, (S, 2)."""

    def shown_gradient(self) -> State:
        """Of F, by each device's observations."""
