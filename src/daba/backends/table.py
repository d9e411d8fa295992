"""The device table: one row for everything that is kept for each device, float64 (rows, S).

It is all of a backend's numbers that the driver of Algorithm 1 reads, and the only thing that the
host of a GPU ever reads in an iteration. Flags are 0 or 1. A row that is the same for all devices
is read in column 0.
"""

from enum import IntEnum, auto


class Row(IntEnum):
    """Rows of the table."""

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
