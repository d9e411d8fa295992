"""What the method decides by, written once: accepting a step, the radius, momentum, the restart
level, and where iterations stop.

As `formulas.py`, this is plain arithmetic on the numbers of one device, camera or point. Imported,
it works on NumPy arrays; the backends load this file again with `jit`, `where`, … bound to Numba's
and to Triton's. Flags are combined by `&` and denied by `== 0`, which mean the same to all three. A
constant that is handed to another function must be exact in single precision, to which Triton
rounds it.
"""

if "jit" not in globals():
    from daba.core.formulas import cube, jit, maximum, minimum, sqrt, where

# The trust region of a device: damping is 1 / radius

SMALLEST_RADIUS = 1e-32
"""Below this a device stops trying."""
LARGEST_RADIUS = 1e10
"""Where damping is lost in rounding anyhow."""
CAUTIOUS_RADIUS = 7e3
"""Limit of the radius of a cautious device. In the paper's method, and where only points are
refined, a step is judged twice: by E^α at once, and by F^α when the neighbours have moved, too. The
first sets the radius, the second its limit: E^α follows its model well even where momentum carries
a camera away, and the radius would grow without end, and F with it (notredame-150). Sweeps do
without: they move cameras by F itself."""
RISE = 0.02
"""Share of its F^α by which a device rises that becomes cautious."""
RELAXATION = 1.003
"""Factor on the limit of the radius, in every iteration in which F^α has not risen so."""
FEW_OBSERVATIONS = 300
"""A device with a camera of fewer is cautious from the start."""
FIRST_SHRINK = 2.0
"""What a radius is divided by after a step that fails; after the next, by twice as much."""

# Damping, and how far a variable moves in one step

DIAGONAL_FLOOR = 1e-6
"""Damping acts on max(diagonal, this): where there is no curvature there must be some damping."""
LEAST_DIAGONAL = 1e-14
"""The same for `lm`, which goes to the optimum: the unit of a parameter says nothing of its worth.
k4 of a fisheye lens on a telephoto has a curvature of 1e-13; with 1e-6 in its place F was still
0.6 % above the optimum after 100 steps."""
STEP_BOUND = 0.5
"""Most that a variable moves in one step, as a share of its distance to what it sees; a camera's
rotation in radians, its focal length as a share of itself. A point seen under almost no parallax
has almost no curvature along its depth, and an unbounded step throws it to infinity or behind its
cameras, where no gradient brings it back; a camera of few observations can lower F by letting its
focal length collapse or by leaving the scene, and would not come back either."""

# Refinement of single variables on the true F

REFINE_DAMPING = 1e-4
"""Relative damping of the first attempt."""
REFINE_GROWTH = 30.0
"""Factor on it after an attempt that fails."""
REFINE_TRIES = 4
"""Attempts in all."""
REFINE_FLOOR = 1e-9
"""Damping of a point acts on max(diagonal, this × its largest entry)."""


@jit
def accept(trying, actual, predicted, least_gain):
    """Whether a step is good, and its gain: E^α must have fallen by at least `least_gain` of what
    the model promised."""
    falls = trying & (actual > 0.0) & (predicted > 0.0)
    gain = where(falls, actual, 0.0) / where(falls, predicted, 1.0)
    return falls & (gain > least_gain), gain


@jit
def stalled(trying, good, predicted, start, epsilon):
    """A device whose model promises less than rounding, `epsilon` of E^α, has nothing left to gain.
    A promise below zero comes of steps that were cut, and shorter steps may still help."""
    return trying & (good == 0) & (predicted >= 0.0) & (predicted <= epsilon * start)


@jit
def next_radius(good, failed, gain, radius, shrink, limit):
    """Radius and shrink after an attempt: radius / max(⅓, 1 − (2g − 1)³) where it was good with
    gain g, else radius / shrink and twice the shrink where it has failed."""
    bend = 2.0 * where(good, gain, 0.5) - 1.0
    wider = radius / maximum(1.0 / 3.0 + 0.0 * radius, 1.0 - cube(bend))
    radius = where(good, minimum(wider, limit), where(failed, radius / shrink, radius))
    shrink = where(good, FIRST_SHRINK, where(failed, 2.0 * shrink, shrink))
    return radius, shrink


@jit
def limit_by_objective(before, after, radius, limit):
    """Radius and its limit once F^α is known: a device is cautious if F^α has just risen by more
    than RISE, or is negative (only the sum of all F^α is F) and has not fallen by as much."""
    risen = after > (1.0 + RISE) * before
    limit = where(risen, CAUTIOUS_RADIUS, minimum(limit * RELAXATION, LARGEST_RADIUS))
    return minimum(radius, limit), limit


@jit
def nesterov(s):
    """γ = (s − 1)/s⁺ and s⁺ = (1 + √(4s² + 1))/2."""
    after = (1.0 + sqrt(4.0 * s * s + 1.0)) / 2.0
    return (s - 1.0) / after, after


@jit
def goes_back(turn, move, zoom, distance):
    """Whether a camera went back on its momentum, ⟨x̄ − x⁺, x⁺ − x⟩ > 0, given as sums over R, t and
    d1: in radians (|R − R'|² is twice the square of an angle), in the distance to what it sees, and
    in focal lengths."""
    return 0.5 * turn + move / (distance * distance) + zoom > 0.0


@jit
def bound(surrogate_new, F, surrogate_now):
    """E^α⁺ = E^α(x⁺ | x) + F^α − E^α(x | x)."""
    return surrogate_new + F - surrogate_now


@jit
def restart_level(F_bar, F, eta):
    """F̄^α ← (1 − η) F̄^α + η F^α."""
    return (1.0 - eta) * F_bar + eta * F


@jit
def next_eta(eta, growth):
    """η grows up to 1."""
    return minimum(1.0, eta * growth)


@jit
def model_stalls(k, Q, Q_before, forcing):
    """Whether iteration k of conjugate gradients lowers Q = ½xᵀSx − xᵀrhs, which it minimises, by
    less than `forcing` / k of it."""
    change = k * (Q - Q_before)
    return (change <= 0.0) & (change / Q < forcing)


@jit
def residual_remains(rz, rz_start, residual):
    """Whether the preconditioned residual, squared, has not yet fallen by `residual`."""
    return rz > residual * residual * rz_start
