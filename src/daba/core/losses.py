"""Robust losses ρ(s) of the squared pixel error s = ω² |e|².

The method needs of each (the paper's assumption on ρ): differentiable, concave,
nondecreasing, ρ(0) = 0, ρ'(0) = 1, 0 ≤ ρ' ≤ 1. The formulas themselves are in
`core/formulas.py`; here each loss has its name and radius.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from daba.core import formulas
from daba.core.errors import DabaError
from daba.core.types import LossParameters, frozen


@frozen
class Loss:
    """A robust loss with a radius in pixels, beyond which errors count for less."""

    radius: float = 32.0
    """Where the loss turns from quadratic to robust, in pixels."""

    name: ClassVar[str] = ""
    """What it is called on the command line."""
    kind: ClassVar[int] = -1
    """Number by which the kernels know the loss."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise DabaError(f"the radius of loss '{self.name}' must be positive, not {self.radius}")

    @property
    def parameters(self) -> LossParameters:
        """What kernels are told of it."""
        return LossParameters(self.kind, float(self.radius))

    def __call__(self, s: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """ρ(s) and ρ'(s)."""
        return formulas.rho(self.kind, self.radius, np.asarray(s, dtype=np.float64))


class Trivial(Loss):
    """ρ(s) = s: plain least squares. The radius is not used."""

    name, kind = "trivial", formulas.TRIVIAL


class Huber(Loss):
    """ρ(s) = s up to a², then 2a√s − a²."""

    name, kind = "huber", formulas.HUBER


class Welsch(Loss):
    """ρ(s) = a² (1 − exp(−s/a²))."""

    name, kind = "welsch", formulas.WELSCH


class Cauchy(Loss):
    """ρ(s) = a² log(1 + s/a²)."""

    name, kind = "cauchy", formulas.CAUCHY


class GemanMcClure(Loss):
    """ρ(s) = s / (1 + s/a²)."""

    name, kind = "geman-mcclure", formulas.GEMAN_MCCLURE


class SoftL1(Loss):
    """ρ(s) = 2a² (√(1 + s/a²) − 1)."""

    name, kind = "soft-l1", formulas.SOFT_L1


LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Trivial, Huber, Welsch, Cauchy, GemanMcClure, SoftL1)
}


def make_loss(name: str, radius: float = 32.0) -> Loss:
    """The loss of that name, for example `make_loss("huber", 32.0)`."""
    if name not in LOSSES:
        raise DabaError(f"unknown loss '{name}'; choose one of {', '.join(LOSSES)}")
    return LOSSES[name](radius)
