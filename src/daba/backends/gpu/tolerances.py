"""When conjugate gradients on a GPU stop."""

from __future__ import annotations

from daba.core.options import Options
from daba.core.types import frozen

EXACT = 6000
"""Cameras up to which the CPU would consider a direct solution: there, with `auto`, conjugate
gradients go on until they come near it."""
SMALL = 1000
"""Cameras up to which iterations of conjugate gradients cost hardly anything."""
FEW = 400
"""Cameras up to which close solutions are made for their own sake."""
MOST_OF_LM = 64
"""Iterations for a step of Levenberg–Marquardt. On an H200 notredame-692 arrives at 1e-4 of the way
after 0.15 s with 50, 0.19 s with 100, 0.2 s with 500 and 0.28 s with closer solutions, and 50 leave
the lowest F; a city of 1,723 cameras is slower with 50 than with 100."""
MOST_OF_SWEEP = 24
"""Iterations for a step that sweeps follow: after 320 of these notredame-692 has F/K 2.5285, with
residuals of 1e-5 instead 2.5395 in nearly five times as long; a city of 1,723 cameras 0.18525 and
0.18545, in 0.77 and 2.68 s; with 12 notredame-692 has 2.5294, the city 0.18626."""
MOST_OF_STEP = 8
"""Iterations for a step of the paper's method beyond SMALL cameras: a city of 1,723 has F/K 0.265
after 160 iterations in 0.26 s with 12, and the same in 0.39 s with no bound."""
MOST_OF_LARGE = 4
"""The same beyond EXACT cameras. On a landscape of 13,682 most devices take two, and in every third
iteration one takes 10 to 40, for which all others wait: an iteration takes 5.7 ms with 4, 6.1 with
8, 6.7 with 24, 6.6 with no bound, and F/K after 160 is 0.204628, 0.204621, 0.204635 and
0.204635."""


@frozen
class Tolerances:
    """When conjugate gradients stop: `pcg_forcing`, `pcg_residual` and `pcg_iterations`."""

    forcing: float
    residual: float
    most: int


def tolerances_of(options: Options, cameras: int) -> Tolerances:
    """A long tail of iterations on one device keeps the others waiting, mostly for nothing; but on
    a long chain of cameras (kitti-vo-250) sweeps after loose steps end 0.5 % higher, and so does
    ADMM. Who asks for double precision gets all of it, and so do the methods that DABA is compared
    with."""
    given = Tolerances(options.pcg_forcing, options.pcg_residual, options.pcg_iterations)
    if options.linear_solver != "auto":
        return given
    if (options.precision == "float64" or options.copies) and cameras <= EXACT:
        wanted = Tolerances(0.0, 1e-6, given.most)
    elif options.centralized:
        loose = Tolerances(given.forcing, given.residual, MOST_OF_LM)
        wanted = loose if cameras > FEW else Tolerances(0.01, 1e-3, given.most)
    elif cameras > EXACT:
        most = given.most if options.rounds else MOST_OF_LARGE
        wanted = Tolerances(given.forcing, given.residual, most)
    elif options.rounds:
        loose = Tolerances(0.0, 1e-3, MOST_OF_SWEEP)
        wanted = loose if cameras > FEW else Tolerances(0.0, 1e-5, given.most)
    elif cameras <= SMALL:
        wanted = Tolerances(0.0, 1e-4, 24)
    else:
        wanted = Tolerances(0.0, 1e-3, MOST_OF_STEP)
    return Tolerances(
        min(given.forcing, wanted.forcing),
        min(given.residual, wanted.residual),
        min(given.most, wanted.most),
    )
