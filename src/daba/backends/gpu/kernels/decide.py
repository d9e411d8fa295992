"""What is decided on the GPU: sums over devices, accepted steps, restarts, metrics.

One program looks at all devices at once; it does to the device table what `CpuOperations` does, by
the same rules (`core/decisions.py`).
"""

import triton.language as tl

from daba.backends.gpu.kernels import decisions, row
from daba.backends.gpu.kernels.exact import double
from daba.backends.gpu.kernels.jit import jit
from daba.backends.gpu.kernels.pcg import total


@jit
def take(table, S, ROW: tl.constexpr, d, OTHER: tl.constexpr = 0.0):
    """A row of the table; OTHER beyond the devices."""
    return tl.load(table + S * ROW + d, mask=d < S, other=OTHER)


@jit
def put(table, S, ROW: tl.constexpr, d, value):
    tl.store(table + S * ROW + d, value.to(tl.float64), mask=d < S)


@jit
def add_up(partial, jobs, ranges, table, S):
    """Sums over the programs of each device: a job adds up a column of `partial`, cut by one of the
    `ranges`, into a row of the table."""
    device = tl.program_id(0)
    job = jobs + 3 * tl.program_id(1)
    cut = ranges + tl.load(job + 1) + device
    value = total(partial + tl.load(job), tl.load(cut), tl.load(cut + 1))
    tl.store(table + S * tl.load(job + 2) + device, value)


@jit
def begin(table, S, SP: tl.constexpr):
    """A new iteration: γ and s⁺, every device active at x."""
    d = tl.arange(0, SP)
    gamma, after = decisions.nesterov(tl.load(table + S * row.S_POINTS))
    tl.debug_barrier()
    tl.store(table + S * row.GAMMA, gamma)
    tl.store(table + S * row.S_POINTS, after)
    tl.store(table + S * row.ATTEMPT, 0.0)
    tl.store(table + S * row.STATUS, row.RETRY)
    one = tl.full([SP], 1.0, tl.float64)
    zero = tl.zeros([SP], tl.float64)
    intra = take(table, S, row.INTRA, d)
    at_x = take(table, S, row.AT_X, d)
    put(table, S, row.ACTIVE, d, one)
    put(table, S, row.TRYING, d, one)
    put(table, S, row.MOVED, d, zero)
    put(table, S, row.NEW, d, intra)
    put(table, S, row.NEW_SQUARE, d, take(table, S, row.INTRA_SQUARE, d))
    put(table, S, row.NEW_X, d, at_x)
    put(table, S, row.NEW_MOVE, d, zero)
    put(table, S, row.PCG, d, zero)
    put(table, S, row.RETRIES, d, zero)
    put(table, S, row.RESTARTS, d, zero)
    put(table, S, row.STEPS, d, zero)
    put(table, S, row.START, d, intra + at_x)


@jit
def start(table, S, THETA: tl.constexpr, SP: tl.constexpr):
    """E^α(x | x̄), once the surrogate at x̄ is built and evaluated at x."""
    d = tl.arange(0, SP)
    theta = double(THETA)
    at_bar = theta * take(table, S, row.SUM_INTER_C, d)
    at_bar += (1.0 - theta) * take(table, S, row.SUM_INTER_L, d)
    here = at_bar + take(table, S, row.SUM_VALUE_C, d) + take(table, S, row.SUM_VALUE_L, d)
    put(table, S, row.AT_BAR, d, at_bar)
    put(table, S, row.START, d, take(table, S, row.INTRA, d) + here)


@jit
def judge(
    table, S, CONCLUDES: tl.constexpr, ACCELERATED: tl.constexpr, HERE: tl.constexpr,
    GAIN: tl.constexpr, TRIES: tl.constexpr, EPSILON: tl.constexpr, SP: tl.constexpr,
):  # fmt: skip
    """After an attempt: accept where E^α has fallen enough, adapt the radius, try again or not;
    when no device tries any more, E^α⁺ and restarts, unless CONCLUDES is false. HERE: the surrogate
    stands at x, not at x̄."""
    d = tl.arange(0, SP)
    there = d < S
    if tl.sum(take(table, S, row.RUN, d), axis=0) > 0.0:
        tl.store(table + S * row.STATUS, row.MORE)
        return
    attempt = tl.load(table + S * row.ATTEMPT)
    trying = take(table, S, row.TRYING, d) > 0.0
    predicted = take(table, S, row.SUM_DECREASE_C, d) + take(table, S, row.SUM_DECREASE_L, d)
    value = take(table, S, row.SUM_INTRA_C, d)
    at_x = take(table, S, row.AT_X, d)
    value_x = at_x + take(table, S, row.SUM_VALUE_X_C, d) + take(table, S, row.SUM_VALUE_X_L, d)
    if HERE:
        surrogate = value_x
    else:
        surrogate = take(table, S, row.AT_BAR, d) + take(table, S, row.SUM_VALUE_C, d)
        surrogate += take(table, S, row.SUM_VALUE_L, d)
    begin_value = take(table, S, row.START, d)
    actual = begin_value - value - surrogate
    good, gain = decisions.accept(trying, actual, predicted, double(GAIN))
    stalled = decisions.stalled(trying, good, predicted, begin_value, double(EPSILON))
    failed = trying & (stalled == 0) & (good == 0)
    radius, shrink = decisions.next_radius(
        good, failed, gain, take(table, S, row.RADIUS, d, 1.0), take(table, S, row.SHRINK, d, 2.0),
        take(table, S, row.LIMIT, d, 1.0),
    )  # fmt: skip
    # what was found
    moved = (take(table, S, row.MOVED, d) > 0.0) | good
    move = take(table, S, row.SUM_MOVE_C, d) + take(table, S, row.SUM_MOVE_L, d)
    square = take(table, S, row.SUM_INTRA_SQUARE_C, d)
    new = tl.where(good, value, take(table, S, row.NEW, d))
    new_square = tl.where(good, square, take(table, S, row.NEW_SQUARE, d))
    new_x = tl.where(good, value_x, take(table, S, row.NEW_X, d))
    new_move = tl.where(good, move, take(table, S, row.NEW_MOVE, d))
    # counts
    count = tl.where(trying, take(table, S, row.K, d), 0.0)
    retried = tl.where(trying, tl.where(attempt > 0.0, 1.0, 0.0), 0.0)
    put(table, S, row.COUNT, d, count)
    put(table, S, row.PCG, d, take(table, S, row.PCG, d) + count)
    put(table, S, row.RETRIES, d, take(table, S, row.RETRIES, d) + retried)
    put(table, S, row.STEPS, d, take(table, S, row.STEPS, d) + tl.where(good, 1.0, 0.0))
    # and whether to try again
    active = take(table, S, row.ACTIVE, d) > 0.0
    attempt += 1.0
    left = tl.where(attempt < TRIES, 1, 0)
    trying = failed & (radius > decisions.SMALLEST_RADIUS)
    trying = tl.where(trying, left, 0) > 0
    again = tl.sum(trying.to(tl.int32), axis=0)
    stayed = active & (moved == 0)
    gently = tl.where(again > 0, 0, stayed.to(tl.int32)) > 0  # the next base is another
    shrink = tl.where(gently, decisions.FIRST_SHRINK, shrink)
    status = tl.where(again > 0, row.RETRY, row.DONE)
    e = new
    if ACCELERATED and CONCLUDES:
        intra = take(table, S, row.INTRA, d)
        e = decisions.bound(new + new_x, take(table, S, row.F, d), intra + at_x)
        if not HERE:
            restart = there & (e > take(table, S, row.F_BAR, d))
            restart = tl.where(again > 0, 0, restart.to(tl.int32)) > 0
            some = tl.sum(restart.to(tl.int32), axis=0) > 0
            status = tl.where(some, row.RESTART, status)
            active = tl.where(some, restart, active)
            trying = tl.where(some, restart, trying)
            attempt = tl.where(some, 0.0, attempt)
            moved = moved & (restart == 0)
            new = tl.where(restart, intra, new)
            new_square = tl.where(restart, take(table, S, row.INTRA_SQUARE, d), new_square)
            new_x = tl.where(restart, at_x, new_x)
            new_move = tl.where(restart, 0.0, new_move)
            put(table, S, row.RESTARTS, d, restart)
            put(table, S, row.START, d, tl.where(some, intra + at_x, begin_value))
    tl.debug_barrier()
    tl.store(table + S * row.STATUS, status.to(tl.float64))
    tl.store(table + S * row.ATTEMPT, attempt)
    put(table, S, row.RADIUS, d, radius)
    put(table, S, row.SHRINK, d, shrink)
    put(table, S, row.E, d, e)
    put(table, S, row.ACTIVE, d, active)
    put(table, S, row.TRYING, d, trying)
    put(table, S, row.MOVED, d, moved)
    put(table, S, row.NEW, d, new)
    put(table, S, row.NEW_SQUARE, d, new_square)
    put(table, S, row.NEW_X, d, new_x)
    put(table, S, row.NEW_MOVE, d, new_move)


@jit
def finish(
    table, S, ACCELERATED: tl.constexpr, REFINED: tl.constexpr, SHARED: tl.constexpr,
    THETA: tl.constexpr, XI: tl.constexpr, GROWTH: tl.constexpr, LIMITED: tl.constexpr,
    SP: tl.constexpr,
):  # fmt: skip
    """Close the iteration: F^α = E^α + ΔE^α, the limit of the radius, and F̄^α. SHARED: intrinsics
    that devices share have moved at the end, which has changed F."""
    if tl.load(table + S * row.STATUS) != row.DONE:
        return
    d = tl.arange(0, SP)
    inter = take(table, S, row.SUM_INTER_C, d)
    intra = take(table, S, row.NEW, d)
    intra_square = take(table, S, row.NEW_SQUARE, d)
    change = -0.5 * XI * take(table, S, row.NEW_MOVE, d)
    if REFINED or SHARED:
        intra = take(table, S, row.SUM_INTRA_C, d)
        intra_square = take(table, S, row.SUM_INTRA_SQUARE_C, d)
    if SHARED:
        change += take(table, S, row.CHANGE, d)
    if REFINED:
        change += take(table, S, row.SUM_SLACK_L, d)
        change += take(table, S, row.SUM_REFINED_L, d) + take(table, S, row.SUM_REFINED_C, d)
    else:
        change += 0.5 * take(table, S, row.SUM_GAP_C, d) + 0.5 * take(table, S, row.SUM_GAP_L, d)
    if ACCELERATED:
        before = take(table, S, row.F, d)
        f = take(table, S, row.E, d) + change
        if LIMITED:
            radius, limit = decisions.limit_by_objective(
                before, f, take(table, S, row.RADIUS, d, 1.0), take(table, S, row.LIMIT, d, 1.0)
            )
            put(table, S, row.LIMIT, d, limit)
            put(table, S, row.RADIUS, d, radius)
        eta = tl.load(table + S * row.ETA)
        level = take(table, S, row.F_BAR, d)
        tl.debug_barrier()
        put(table, S, row.F_BAR, d, decisions.restart_level(level, f, eta))
        tl.store(table + S * row.ETA, decisions.next_eta(eta, double(GROWTH)))
        put(table, S, row.F, d, f)
    put(table, S, row.INTRA, d, intra)
    put(table, S, row.INTRA_SQUARE, d, intra_square)
    put(table, S, row.INTER, d, inter)
    put(table, S, row.INTER_SQUARE, d, take(table, S, row.SUM_INTER_SQUARE_C, d))
    theta = double(THETA)
    put(table, S, row.AT_X, d, theta * inter + (1.0 - theta) * take(table, S, row.SUM_INTER_L, d))
