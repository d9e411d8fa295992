"""What is decided on the GPU: sums over devices, accepted steps, restarts, metrics.

One program looks at all devices at once; it reads like `levenberg.py` and `acceleration.py`.
"""

import triton.language as tl

from daba.backends.gpu.kernels import decisions
from daba.backends.gpu.kernels.book import Row, Status
from daba.backends.gpu.kernels.exact import double
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.pcg import total

STATUS = tl.constexpr(int(Row.STATUS))
ATTEMPT = tl.constexpr(int(Row.ATTEMPT))
S_POINTS = tl.constexpr(int(Row.S_POINTS))
GAMMA = tl.constexpr(int(Row.GAMMA))
ETA = tl.constexpr(int(Row.ETA))
RADIUS = tl.constexpr(int(Row.RADIUS))
SHRINK = tl.constexpr(int(Row.SHRINK))
LIMIT = tl.constexpr(int(Row.LIMIT))
F = tl.constexpr(int(Row.F))
F_BAR = tl.constexpr(int(Row.F_BAR))
E = tl.constexpr(int(Row.E))
INTRA = tl.constexpr(int(Row.INTRA))
INTRA_SQUARE = tl.constexpr(int(Row.INTRA_SQUARE))
INTER = tl.constexpr(int(Row.INTER))
INTER_SQUARE = tl.constexpr(int(Row.INTER_SQUARE))
AT_X = tl.constexpr(int(Row.AT_X))
AT_BAR = tl.constexpr(int(Row.AT_BAR))
START = tl.constexpr(int(Row.START))
ACTIVE = tl.constexpr(int(Row.ACTIVE))
TRYING = tl.constexpr(int(Row.TRYING))
MOVED = tl.constexpr(int(Row.MOVED))
NEW = tl.constexpr(int(Row.NEW))
NEW_SQUARE = tl.constexpr(int(Row.NEW_SQUARE))
NEW_X = tl.constexpr(int(Row.NEW_X))
NEW_MOVE = tl.constexpr(int(Row.NEW_MOVE))
PCG = tl.constexpr(int(Row.PCG))
RETRIES = tl.constexpr(int(Row.RETRIES))
RESTARTS = tl.constexpr(int(Row.RESTARTS))
COUNT = tl.constexpr(int(Row.COUNT))
RUN = tl.constexpr(int(Row.RUN))
K = tl.constexpr(int(Row.K))
SUM = tl.constexpr(int(Row.SUM))
DONE = tl.constexpr(int(Status.DONE))
MORE = tl.constexpr(int(Status.MORE))
RETRY = tl.constexpr(int(Status.RETRY))
RESTART = tl.constexpr(int(Status.RESTART))


@jit
def add_up(partial, jobs, ranges, book, S):
    """Sums over the programs of each device: job k adds up a column of `partial`, cut by one of
    the `ranges`, into row SUM + k."""
    device = tl.program_id(0)
    k = tl.program_id(1)
    column = tl.load(jobs + 2 * k)
    cut = tl.load(jobs + 2 * k + 1) + device
    value = total(partial + column, tl.load(ranges + cut), tl.load(ranges + cut + 1))
    tl.store(book + S * (SUM + k) + device, value)


@jit
def begin(book, S, SP: tl.constexpr):
    """A new iteration: γ and s⁺, every device active at x."""
    d = tl.arange(0, SP)
    there = d < S
    s = tl.load(book + S * S_POINTS)
    gamma, after = decisions.nesterov(s)
    tl.debug_barrier()
    tl.store(book + S * GAMMA, gamma)
    tl.store(book + S * S_POINTS, after)
    tl.store(book + S * ATTEMPT, 0.0)
    tl.store(book + S * STATUS, RETRY)
    one = tl.full([SP], 1.0, tl.float64)
    zero = tl.zeros([SP], tl.float64)
    intra = tl.load(book + S * INTRA + d, mask=there)
    at_x = tl.load(book + S * AT_X + d, mask=there)
    tl.store(book + S * ACTIVE + d, one, mask=there)
    tl.store(book + S * TRYING + d, one, mask=there)
    tl.store(book + S * MOVED + d, zero, mask=there)
    tl.store(book + S * NEW + d, intra, mask=there)
    square = tl.load(book + S * INTRA_SQUARE + d, mask=there)
    tl.store(book + S * NEW_SQUARE + d, square, mask=there)
    tl.store(book + S * NEW_X + d, at_x, mask=there)
    tl.store(book + S * NEW_MOVE + d, zero, mask=there)
    tl.store(book + S * PCG + d, zero, mask=there)
    tl.store(book + S * RETRIES + d, zero, mask=there)
    tl.store(book + S * RESTARTS + d, zero, mask=there)
    tl.store(book + S * START + d, intra + at_x, mask=there)


@jit
def start(book, S, THETA: tl.constexpr, SP: tl.constexpr):
    """E^α(x | x̄), once the surrogate at x̄ is built and evaluated at x."""
    d = tl.arange(0, SP)
    there = d < S
    by_camera = tl.load(book + S * SUM + d, mask=there)
    by_point = tl.load(book + S * (SUM + 1) + d, mask=there)
    theta = double(THETA)
    at_bar = theta * by_camera + (1.0 - theta) * by_point
    here = at_bar + tl.load(book + S * (SUM + 2) + d, mask=there)
    here += tl.load(book + S * (SUM + 3) + d, mask=there)
    tl.store(book + S * AT_BAR + d, at_bar, mask=there)
    tl.store(book + S * START + d, tl.load(book + S * INTRA + d, mask=there) + here, mask=there)


@jit
def judge_step(
    book, S, ACCELERATED: tl.constexpr, HERE: tl.constexpr, GAIN: tl.constexpr,
    TRIES: tl.constexpr, EPSILON: tl.constexpr, SP: tl.constexpr,
):  # fmt: skip
    """After an attempt: accept where E^α has fallen enough, adapt the radius, try again or not;
    when no device tries any more, E^α⁺ and restarts. HERE: the surrogate stands at x, not at x̄."""
    d = tl.arange(0, SP)
    there = d < S
    running = tl.load(book + S * RUN + d, mask=there, other=0.0)
    if tl.sum(running, axis=0) > 0.0:
        tl.store(book + S * STATUS, MORE)
        return
    attempt = tl.load(book + S * ATTEMPT)
    trying = tl.load(book + S * TRYING + d, mask=there, other=0.0) > 0.0
    predicted = tl.load(book + S * SUM + d, mask=there, other=0.0)
    predicted += tl.load(book + S * (SUM + 1) + d, mask=there, other=0.0)
    value = tl.load(book + S * (SUM + 2) + d, mask=there, other=0.0)
    square = tl.load(book + S * (SUM + 3) + d, mask=there, other=0.0)
    first = tl.load(book + S * (SUM + 4) + d, mask=there, other=0.0)
    first += tl.load(book + S * (SUM + 5) + d, mask=there, other=0.0)
    second = tl.load(book + S * (SUM + 6) + d, mask=there, other=0.0)
    second += tl.load(book + S * (SUM + 7) + d, mask=there, other=0.0)
    move = tl.load(book + S * (SUM + 8) + d, mask=there, other=0.0)
    move += tl.load(book + S * (SUM + 9) + d, mask=there, other=0.0)
    at_x = tl.load(book + S * AT_X + d, mask=there, other=0.0)
    if HERE:
        surrogate = at_x + second
    else:
        surrogate = tl.load(book + S * AT_BAR + d, mask=there, other=0.0) + first
    begin_value = tl.load(book + S * START + d, mask=there, other=0.0)
    actual = begin_value - value - surrogate
    good, gain = decisions.accept(trying, actual, predicted, double(GAIN))
    stalled = decisions.stalled(trying, good, predicted, begin_value, double(EPSILON))
    # the radius
    radius = tl.load(book + S * RADIUS + d, mask=there, other=1.0)
    shrink = tl.load(book + S * SHRINK + d, mask=there, other=2.0)
    limit = tl.load(book + S * LIMIT + d, mask=there, other=1.0)
    failed = trying & (stalled == 0) & (good == 0)
    radius, shrink = decisions.next_radius(good, failed, gain, radius, shrink, limit)
    # what was found
    moved = (tl.load(book + S * MOVED + d, mask=there, other=0.0) > 0.0) | good
    intra = tl.load(book + S * INTRA + d, mask=there, other=0.0)
    intra_square = tl.load(book + S * INTRA_SQUARE + d, mask=there, other=0.0)
    new = tl.where(good, value, tl.load(book + S * NEW + d, mask=there, other=0.0))
    new_square = tl.where(good, square, tl.load(book + S * NEW_SQUARE + d, mask=there, other=0.0))
    new_x = tl.where(good, at_x + second, tl.load(book + S * NEW_X + d, mask=there, other=0.0))
    new_move = tl.where(good, move, tl.load(book + S * NEW_MOVE + d, mask=there, other=0.0))
    # counts
    count = tl.where(trying, tl.load(book + S * K + d, mask=there, other=0.0), 0.0)
    pcg = tl.load(book + S * PCG + d, mask=there, other=0.0) + count
    retries = tl.load(book + S * RETRIES + d, mask=there, other=0.0)
    retries += tl.where(trying, tl.where(attempt > 0.0, 1.0, 0.0), 0.0)
    restarts = tl.load(book + S * RESTARTS + d, mask=there, other=0.0)
    active = tl.load(book + S * ACTIVE + d, mask=there, other=0.0) > 0.0
    attempt += 1.0
    left = tl.where(attempt < TRIES, 1, 0)
    trying = failed & (radius > decisions.SMALLEST_RADIUS)
    trying = tl.where(trying, left, 0) > 0
    again = tl.sum(trying.to(tl.int32), axis=0)
    stayed = active & (moved == 0)
    shrink = tl.where(
        again > 0, shrink, tl.where(stayed, decisions.FIRST_SHRINK, shrink)
    )  # another base: gently
    status = tl.where(again > 0, RETRY, DONE)
    e = new
    if ACCELERATED:
        f = tl.load(book + S * F + d, mask=there, other=0.0)
        e = decisions.bound(new + new_x, f, intra + at_x)
        if not HERE:
            restart = there & (e > tl.load(book + S * F_BAR + d, mask=there, other=0.0))
            restart = tl.where(again > 0, 0, restart.to(tl.int32)) > 0
            some = tl.sum(restart.to(tl.int32), axis=0) > 0
            status = tl.where(some, RESTART, status)
            restarts = tl.where(restart, 1.0, restarts)
            active = tl.where(some, restart, active)
            trying = tl.where(some, restart, trying)
            attempt = tl.where(some, 0.0, attempt)
            moved = moved & (restart == 0)
            new = tl.where(restart, intra, new)
            new_square = tl.where(restart, intra_square, new_square)
            new_x = tl.where(restart, at_x, new_x)
            new_move = tl.where(restart, 0.0, new_move)
            begin_value = tl.where(some, intra + at_x, begin_value)
            tl.store(book + S * START + d, begin_value, mask=there)
    tl.debug_barrier()
    tl.store(book + S * STATUS, status.to(tl.float64))
    tl.store(book + S * ATTEMPT, attempt)
    tl.store(book + S * RADIUS + d, radius, mask=there)
    tl.store(book + S * SHRINK + d, shrink, mask=there)
    tl.store(book + S * E + d, e, mask=there)
    tl.store(book + S * ACTIVE + d, active.to(tl.float64), mask=there)
    tl.store(book + S * TRYING + d, trying.to(tl.float64), mask=there)
    tl.store(book + S * MOVED + d, moved.to(tl.float64), mask=there)
    tl.store(book + S * NEW + d, new, mask=there)
    tl.store(book + S * NEW_SQUARE + d, new_square, mask=there)
    tl.store(book + S * NEW_X + d, new_x, mask=there)
    tl.store(book + S * NEW_MOVE + d, new_move, mask=there)
    tl.store(book + S * PCG + d, pcg, mask=there)
    tl.store(book + S * COUNT + d, count, mask=there)
    tl.store(book + S * RETRIES + d, retries, mask=there)
    tl.store(book + S * RESTARTS + d, restarts, mask=there)


@jit
def finish(
    book, S, ACCELERATED: tl.constexpr, REFINED: tl.constexpr, THETA: tl.constexpr,
    XI: tl.constexpr, GROWTH: tl.constexpr, JUDGED: tl.constexpr, SP: tl.constexpr,
):  # fmt: skip
    """Book the iteration: F^α = E^α + ΔE^α, the limit of the radius, F̄^α ← (1 − η) F̄^α + η F^α.

    SUM holds, of the inter observations: F, squared pixel error, F by point, and slack by camera
    and by point; with refinement also F and squared pixel error of the intra observations, the
    slack, and what the rounds have changed."""
    if tl.load(book + S * STATUS) != DONE:
        return
    d = tl.arange(0, SP)
    there = d < S
    inter = tl.load(book + S * SUM + d, mask=there, other=0.0)
    inter_square = tl.load(book + S * (SUM + 1) + d, mask=there, other=0.0)
    by_point = tl.load(book + S * (SUM + 2) + d, mask=there, other=0.0)
    intra = tl.load(book + S * NEW + d, mask=there, other=0.0)
    intra_square = tl.load(book + S * NEW_SQUARE + d, mask=there, other=0.0)
    change = -0.5 * XI * tl.load(book + S * NEW_MOVE + d, mask=there, other=0.0)
    change += 0.5 * tl.load(book + S * (SUM + 3) + d, mask=there, other=0.0)
    change += 0.5 * tl.load(book + S * (SUM + 4) + d, mask=there, other=0.0)
    if REFINED:
        intra = tl.load(book + S * (SUM + 5) + d, mask=there, other=0.0)
        intra_square = tl.load(book + S * (SUM + 6) + d, mask=there, other=0.0)
        change += tl.load(book + S * (SUM + 7) + d, mask=there, other=0.0)
        change += tl.load(book + S * (SUM + 8) + d, mask=there, other=0.0)
        change += tl.load(book + S * (SUM + 9) + d, mask=there, other=0.0)
    if ACCELERATED:
        before = tl.load(book + S * F + d, mask=there, other=0.0)
        f = tl.load(book + S * E + d, mask=there, other=0.0) + change
        if JUDGED:
            limit = tl.load(book + S * LIMIT + d, mask=there, other=1.0)
            radius = tl.load(book + S * RADIUS + d, mask=there, other=1.0)
            radius, limit = decisions.limit_by_objective(before, f, radius, limit)
            tl.store(book + S * LIMIT + d, limit, mask=there)
            tl.store(book + S * RADIUS + d, radius, mask=there)
        eta = tl.load(book + S * ETA)
        level = tl.load(book + S * F_BAR + d, mask=there, other=0.0)
        tl.debug_barrier()
        tl.store(book + S * F_BAR + d, decisions.restart_level(level, f, eta), mask=there)
        tl.store(book + S * ETA, decisions.next_eta(eta, double(GROWTH)))
        tl.store(book + S * F + d, f, mask=there)
    tl.store(book + S * INTRA + d, intra, mask=there)
    tl.store(book + S * INTRA_SQUARE + d, intra_square, mask=there)
    tl.store(book + S * INTER + d, inter, mask=there)
    tl.store(book + S * INTER_SQUARE + d, inter_square, mask=there)
    theta = double(THETA)
    at_x = theta * inter + (1.0 - theta) * by_point
    tl.store(book + S * AT_X + d, at_x, mask=there)
