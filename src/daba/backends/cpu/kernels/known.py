"""Priors of single variables, as refinement meets them: one variable at a time."""

from daba.backends.cpu.kernels import formulas
from daba.backends.cpu.kernels.binding import inline

rho = formulas.rho


@inline
def square(known, n, x, at):
    """rᵀΛr of row n, for a record x in which the value begins at `at`."""
    total = 0.0
    for a in range(3):
        for b in range(3):
            total += (
                (x[at + a] - known.target[n, a])
                * known.information[n, a, b]
                * (x[at + b] - known.target[n, b])
            )
    return total


@inline
def known_term(known, i, x, at):
    """½ρ(rᵀΛr) of variable i, if its record were x."""
    n = known.row[i]
    return 0.5 * rho(known.kind, known.radius, square(known, n, x, at))[0] if n >= 0 else 0.0


@inline
def add_to_camera(known, i, x, at, U, g):
    """Add ρ'Λ (lower triangle) and ρ'Λr to the matrix and gradient of camera i."""
    n = known.row[i]
    if n >= 0:
        slope = rho(known.kind, known.radius, square(known, n, x, at))[1]
        p = at - 6  # R has nine numbers and three parameters
        for a in range(3):
            for b in range(3):
                H = slope * known.information[n, a, b]
                g[p + a] += H * (x[at + b] - known.target[n, b])
                if b <= a:
                    U[p + a, p + b] += H


@inline
def add_to_point(known, j, l, V, g):
    """The same for a point, whose matrix is an upper triangle."""
    n = known.row[j]
    if n >= 0:
        slope = rho(known.kind, known.radius, square(known, n, l, 0))[1]
        m = 0
        for a in range(3):
            for b in range(3):
                H = slope * known.information[n, a, b]
                g[a] += H * (l[b] - known.target[n, b])
                if b >= a:
                    V[m] += H
                    m += 1
