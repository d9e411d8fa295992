"""When conjugate gradients on a GPU stop."""

from __future__ import annotations

from dataclasses import dataclass

from daba.core.options import Options

EXACT, SMALL = 6000, 1000
"""Cameras up to which the CPU would consider a direct solution: there, with `auto`, conjugate
gradients go on until they come near it; and up to which their iterations cost hardly anything."""


@dataclass(frozen=True)
class Tolerances:
    """When conjugate gradients stop: `pcg_forcing`, `pcg_residual` and `pcg_iterations`."""

    forcing: float
    residual: float
    most: int


def tolerances_of(options: Options, cameras: int) -> Tolerances:
    """Refinement is sensitive to loose steps: on a long chain of cameras (kitti-vo-250) F would
    end 0.5 % higher. The paper's method is less so; there a long tail of iterations on one device
    would keep the others waiting for nothing. Who asks for double precision gets all of it."""
    given = Tolerances(options.pcg_forcing, options.pcg_residual, options.pcg_iterations)
    if options.linear_solver != "auto" or cameras > EXACT:
        return given
    if options.precision == "float64":
        wanted = Tolerances(0.0, 1e-6, given.most)
    elif options.refine != "none" and not options.centralized:
        wanted = Tolerances(0.0, 1e-5, given.most)
    elif cameras <= SMALL and not options.centralized:
        wanted = Tolerances(0.0, 1e-4, 24)
    else:
        wanted = Tolerances(0.01, 1e-3, given.most)
    return Tolerances(
        min(given.forcing, wanted.forcing),
        min(given.residual, wanted.residual),
        min(given.most, wanted.most),
    )
