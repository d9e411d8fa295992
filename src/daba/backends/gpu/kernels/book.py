"""The book: one row for everything that is kept for each device, float64 (ROWS, S).

It is the only thing the host ever reads in an iteration. Flags are 0 or 1. Rows in `SHARED` are the
same for all devices and are kept in column 0.
"""

from enum import IntEnum, auto


class Row(IntEnum):
    """Rows of the book."""

    def _generate_next_value_(name, start, count, last):  # type: ignore[override]  # noqa: N805
        return count

    STATUS = auto()
    """What the host should do next: see `Status`."""
    ALWAYS = auto()
    """One on every device."""
    ATTEMPT = auto()
    S_POINTS = auto()
    """Nesterov's s of points."""
    GAMMA = auto()
    ETA = auto()
    RADIUS = auto()
    SHRINK = auto()
    LIMIT = auto()
    F = auto()
    F_BAR = auto()
    E = auto()
    INTRA = auto()
    """F of the intra observations at x; the next row is their squared pixel error."""
    INTRA_SQUARE = auto()
    INTER = auto()
    INTER_SQUARE = auto()
    AT_X = auto()
    """Σ P + Σ Q at x of the surrogate built there."""
    AT_BAR = auto()
    """The same at x̄."""
    START = auto()
    """E^α at the start of the step."""
    ACTIVE = auto()
    """Devices the present step is for."""
    TRYING = auto()
    """Those of them that have not found it yet."""
    MOVED = auto()
    NEW = auto()
    """As INTRA, at x⁺."""
    NEW_SQUARE = auto()
    NEW_X = auto()
    """As AT_X, at x⁺."""
    NEW_MOVE = auto()
    """|x⁺ − x|²."""
    PCG = auto()
    """Iterations of conjugate gradients in this iteration."""
    RETRIES = auto()
    RESTARTS = auto()
    COUNT = auto()
    """Iterations of the last conjugate gradients."""
    RUN = auto()
    """Conjugate gradients, for even iterations and in the next row for odd ones: still running."""
    RUN_ODD = auto()
    RZ = auto()
    RZ_ODD = auto()
    Q = auto()
    Q_ODD = auto()
    K = auto()
    K_ODD = auto()
    RZ_START = auto()
    ALPHA = auto()
    SUM = auto()
    """Here begin the sums of the last `add_up`."""


class Status(IntEnum):
    """What an iteration needs next."""

    DONE = 0
    MORE = 1
    """More conjugate gradients."""
    RETRY = 2
    """Another attempt at a step."""
    RESTART = 3
    """A step without momentum on some devices."""


SUMS = 12
"""Sums that one `add_up` leaves at most."""
ROWS = Row.SUM + SUMS
