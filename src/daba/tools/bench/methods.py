"""The methods that are compared."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from daba.core.types import frozen


@frozen
class Method:
    """One column of the tables."""

    label: str
    about: str
    options: dict[str, Any] = field(default_factory=dict)
    """Options for `daba.solve`; other methods have programs of their own."""
    centralized: bool = False
    """Whether it runs on one device."""
    newton: bool = False
    """Whether its iterations are steps of all variables together, of which few are enough."""
    cost: float = 1.0
    """Cost of a run, roughly, relative to DABA: only the time left is estimated by it."""
    rounds: str = "1"
    """Exchanges with neighbours in an iteration, and sums over all."""

    @property
    def gpu(self) -> bool:
        """Whether it can run on a GPU."""
        return bool(self.options)


METHODS = {
    "daba": Method("DABA", "as in the paper, no refinement", {"method": "daba", "refine": "none"}),
    "daba-points": Method(
        "DABA points",
        "DABA, and the boundary's points refined",
        {"method": "daba", "refine": "points"},
        cost=1.3,
        rounds="2",
    ),
    "daba-sweep": Method(
        "DABA sweep",
        "DABA, and the boundary refined by sweeps",
        {"method": "daba", "refine": "sweep"},
        cost=1.6,
        rounds="4",
    ),
    "duba": Method(
        "DUBA", "DABA without acceleration and restart", {"method": "duba", "refine": "none"}
    ),
    "admm": Method("ADMM", "consensus on cameras", {"method": "admm"}, cost=6.0, rounds="2"),
    "dr": Method(
        "DR", "Douglas–Rachford, consensus on points", {"method": "dr"}, cost=6.0, rounds="2"
    ),
    "lm-devices": Method(
        "LM on devices",
        "our Levenberg–Marquardt on all devices together, with sums over all of them",
        {"method": "lm"},
        newton=True,
        cost=6.0,
        rounds="3 and 2 for each CG iteration; as many sums",
    ),
    "lm": Method(
        "LM",
        "our Levenberg–Marquardt on one device",
        {"method": "lm"},
        centralized=True,
        newton=True,
        cost=4.0,
    ),
    "ceres": Method(
        "Ceres", "the best of its linear solvers, on one device", centralized=True, newton=True,
        cost=60.0,
    ),
    "pycolmap": Method(
        "pycolmap", "COLMAP's bundle adjustment of standard pixel errors", centralized=True,
        newton=True, cost=20.0,
    ),
}  # fmt: skip

DISTRIBUTED = tuple(name for name, method in METHODS.items() if not method.centralized)
"""On several devices."""
CENTRALIZED = tuple(name for name, method in METHODS.items() if method.centralized)
PAPER = ("dr", "admm", "daba")
"""The methods of the paper's tables, in their order."""
REFERENCES = ("ceres", "lm")
"""Which run F_ref is taken from: the first that is there."""
