"""All options of a solve and their documentation; the command line is made from the same class."""

from __future__ import annotations

import math
from dataclasses import field, fields
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from daba.core.errors import DabaError
from daba.core.losses import Loss, Trivial
from daba.core.types import frozen

ROUNDS: dict[str, tuple[Literal["cameras", "points"], ...]] = {
    "none": (),
    "points": ("points",),
    "sweep": ("points", "cameras", "points"),
}
"""Which variables of the boundary each kind of refinement moves, in turn."""


NUMBERS = {"int": (Integral, "a whole number"), "float": (Real, "a number")}
"""What an option of either type takes, also of NumPy's."""
MOST_THREADS = 1024
"""Systems refuse to start many thousands."""


@frozen
class Options:
    """Options of `daba.solve`. The defaults are those the published numbers were made with."""

    method: Literal["auto", "lm", "daba", "duba", "admm", "dr"] = "auto"
    """lm: Levenberg–Marquardt, on one device or many, to the solution of one machine; daba:
    decentralized and accelerated, with neighbours only and no sums over all; duba: the same without
    acceleration and restart; admm and dr: the consensus methods of Zhang et al. (on cameras) and
    Eriksson et al. (on points). With one device all of them are lm. auto is lm; the solve says
    why."""
    error: Literal["auto", "pixel", "ray"] = "auto"
    """What is minimised: pixel, the reprojection error of the file's own camera models; ray, the
    paper's error between observed rays and points. auto is pixel for COLMAP models, and ray for
    others. daba, duba, admm and dr know rays only: asked for pixels, they hold intrinsics, and lm
    finishes in pixels."""
    refine_focal_length: bool = True
    """In pixels: whether focal lengths change, as COLMAP's option of that name."""
    refine_extra_params: bool = True
    """In pixels: whether distortion changes."""
    refine_principal_point: bool = False
    """In pixels: whether principal points change."""
    refine_sensor_from_rig: bool = True
    """In pixels: whether sensors move in their rigs."""
    devices: int = 1
    """Number of devices S that share the problem."""
    iterations: int | None = None
    """Most iterations to make; by default 1000, or 100 for lm."""
    loss: Loss = field(default_factory=Trivial)
    """Robust loss, for example `daba.Huber(32.0)`."""
    finish: Literal["none", "lm"] = "none"
    """What follows daba and duba once they lower F by little: lm goes on from there, on the same
    devices."""
    refine: Literal["none", "points", "sweep"] = "sweep"
    """How the boundary between devices is treated after each step: none is the paper's method;
    points moves each shared point to lower the true objective; sweep moves points, cameras and
    points again, for twice the bytes."""
    points_in_front: bool | None = None
    """Whether points that a solve has left behind a camera that sees them are brought in front of
    it, to solve on from there; by default for COLMAP models, whose error would be infinite."""
    filter: float | None = None
    """Pixels: after the solve drop observations with a larger error, and those of points behind
    their cameras, and solve on without them, with as many iterations again."""
    backend: Literal["cpu", "gpu", "auto"] = "cpu"
    """Where to compute: auto takes a GPU if there is one."""
    precision: Literal["auto", "float64", "mixed", "float32"] = "auto"
    """On a GPU: float64 computes as the CPU does; mixed stores observations and solves the linear
    system in single precision, and computes the objective, its gradient and the surrogate in
    double; float32 computes all terms in single precision. The estimate and all sums are double.
    auto is float64 up to 3 million observations, where it costs little, and mixed beyond."""
    threads: int | None = None
    """CPU threads; all by default. The result does not depend on it."""
    seed: int = 0
    """Seed of the partition."""

    xi: float = 1e-9
    """ξ, weight of ½|x − base|² in the surrogate; far below any useful curvature."""
    split: float = 0.5
    """θ in (0, 1), how an inter observation is shared between its camera and its point."""
    eta: float = 1e-3
    """η in (0, 1], how fast the restart level F̄ follows F."""
    eta_growth: float = 1.0005
    """Factor on η per iteration, up to η = 1; 1 keeps it constant, as in the paper's text."""
    restart_ratio: float = 250.0
    """F̄ / F at the start; 1 is the paper's text, more lets early accelerated steps climb."""
    momentum_clip: float | None = None
    """Most that a point is extrapolated, as a share of its distance to its cameras; by default
    0.01 with refinement and no limit without."""
    momentum_reset: bool | None = None
    """Start a camera's momentum anew when its step goes back on it; by default with sweeps only."""

    linear_solver: Literal["auto", "pcg", "direct"] = "auto"
    """How the reduced camera system is solved: conjugate gradients, a direct factorization, or
    whichever is estimated to be faster. On a GPU always conjugate gradients; with auto they stop no
    sooner than is needed to come near what a direct solution finds."""
    pcg_forcing: float = 0.1
    """Conjugate gradients stop when iteration k lowers the model by less than this over k."""
    pcg_residual: float = 1e-2
    """… or when the preconditioned residual has fallen by this factor."""
    pcg_iterations: int = 500
    """… or after this many iterations."""

    lm_radius: float | None = None
    """First trust-region radius; damping is its inverse. By default 1.5e5 for lm, and 100 for
    others, where a careful start costs little and keeps points where they belong. With 1e5 and 3e5,
    ladybug-49 and kitti-vo-250 take up to one step more; with 1e6 the first steps fail."""
    lm_tries: int = 10
    """Most attempts at one step before a device stays where it is."""
    lm_gain: float = 1e-3
    """Least ratio of actual to predicted decrease for a step to be accepted."""

    penalty: float | None = None
    """admm and dr: κ, how hard copies are held together, relative to how hard observations hold
    them; by default 0.01 for admm, and 0.5 for dr, or 0.1 with the scalar metric."""
    metric: Literal["matrix", "scalar"] = "matrix"
    """dr: what the distance between copies of a point is measured in: its uncertainty as a matrix,
    or one number per point as in the paper. For admm it is one number for each of R, t, d1, d2 and
    d3 of a camera."""
    relaxation: float = 1.5
    """admm and dr: over-relaxation of the average, in (0, 2); 1 is none."""
    inner_steps: int = 20
    """admm and dr: most accepted Levenberg–Marquardt steps in one round."""

    function_tolerance: float = 1e-9
    """Stop when F changed by less than this, relatively, over `patience` iterations."""
    gradient_tolerance: float = 0.0
    """Stop when no entry of the gradient of F exceeds this (0: not tested)."""
    patience: int | None = None
    """Iterations over which function_tolerance is judged; by default 20, or 3 for lm."""
    max_seconds: float | None = None
    """Stop after this time, with the result reached by then."""
    report_every: int = 1
    """Iterations between two entries of the history. Telling F takes the only sum over all
    processes that an iteration has."""
    simulate_latency: float | None = None
    """Milliseconds: say what a network of this latency, each device a process, would add to the
    solve, computed from the rounds, sums and bytes that it takes."""
    simulate_bandwidth: float = 10.0
    """Gbit/s of each process's link in that network."""
    check: bool = False
    """Verify the method's guarantees at every iteration, and stop with an error if one fails."""

    def __post_init__(self) -> None:
        def need(condition: bool, text: str) -> None:
            if not condition:
                raise DabaError(text)

        for name, kind, what, optional in _numbers():
            value = getattr(self, name)
            known = isinstance(value, kind) and not isinstance(value, bool)
            need(known or (value is None and optional), f"{name} must be {what}, not {value!r}")
        for name, values in (
            ("method", ("auto", "lm", "daba", "duba", "admm", "dr")),
            ("error", ("auto", "pixel", "ray")),
            ("finish", ("none", "lm")),
            ("refine", ("none", "points", "sweep")),
            ("linear_solver", ("auto", "pcg", "direct")),
            ("backend", ("cpu", "gpu", "auto")),
            ("precision", ("auto", "float64", "mixed", "float32")),
            ("metric", ("matrix", "scalar")),
        ):
            value = getattr(self, name)
            need(value in values, f"{name} must be one of {', '.join(values)}, not '{value}'")
        need(isinstance(self.loss, Loss), "loss must be a daba.Loss, such as daba.Huber(32.0)")
        need(self.devices >= 1, f"devices must be at least 1, not {self.devices}")
        need(self.iterations is None or self.iterations >= 0, "iterations must not be negative")
        need(self.filter is None or self.filter > 0, f"filter must be positive, not {self.filter}")
        need(self.report_every >= 1, "report_every must be at least 1")
        need(
            self.simulate_latency is None or self.simulate_latency >= 0,
            "simulate_latency must not be negative",
        )
        need(self.simulate_bandwidth > 0, "simulate_bandwidth must be positive")
        need(
            self.threads is None or 1 <= self.threads <= MOST_THREADS,
            f"threads must be at least 1 and at most {MOST_THREADS}, not {self.threads}",
        )
        need(
            self.max_seconds is None or self.max_seconds >= 0,
            f"max_seconds must be a number of at least 0, not {self.max_seconds}",
        )
        need(self.patience is None or self.patience >= 1, "patience must be at least 1")
        need(self.xi > 0, f"xi must be positive, not {self.xi}")
        need(0 < self.split < 1, f"split must lie between 0 and 1, not {self.split}")
        need(0 < self.eta <= 1, f"eta must lie in (0, 1], not {self.eta}")
        need(self.eta_growth >= 1, f"eta_growth must be at least 1, not {self.eta_growth}")
        need(self.restart_ratio >= 1, f"restart_ratio must be at least 1, not {self.restart_ratio}")
        need(
            self.momentum_clip is None or self.momentum_clip >= 0,
            "momentum_clip must not be negative",
        )
        need(
            self.lm_radius is None or 0 < self.lm_radius < math.inf,
            f"lm_radius must be positive and finite, not {self.lm_radius}",
        )
        need(self.lm_tries >= 1, "lm_tries must be at least 1")
        need(
            self.penalty is None or self.penalty > 0,
            f"penalty must be positive, not {self.penalty}",
        )
        need(0 < self.relaxation < 2, f"relaxation must lie in (0, 2), not {self.relaxation}")
        need(self.inner_steps >= 1, "inner_steps must be at least 1")
        need(0 <= self.lm_gain < 1, "lm_gain must lie in [0, 1)")
        need(self.pcg_iterations >= 1, "pcg_iterations must be at least 1")
        need(self.pcg_forcing >= 0 and self.pcg_residual >= 0, "pcg tolerances must be >= 0")
        need(
            self.function_tolerance >= 0 and self.gradient_tolerance >= 0, "tolerances must be >= 0"
        )

    @property
    def centralized(self) -> bool:
        """Whether all devices make one step of Levenberg–Marquardt together."""
        return self.method in ("auto", "lm") or self.devices == 1

    @property
    def minimised(self) -> Literal["ray", "pixel"]:
        """The error, once a problem has said it."""
        return "pixel" if self.error == "pixel" else "ray"

    @property
    def algorithm(self) -> str:
        """The method, where none was asked for or one device leaves no choice."""
        return "lm" if self.centralized else self.method

    @property
    def accelerated(self) -> bool:
        """Whether steps begin with Nesterov's extrapolation, and devices restart."""
        return self.method == "daba" and not self.centralized

    @property
    def rounds(self) -> tuple[Literal["cameras", "points"], ...]:
        """Which variables of the boundary are refined in an iteration, in turn."""
        return () if self.centralized or self.copies else ROUNDS[self.refine]

    @property
    def copies(self) -> bool:
        """Whether devices have copies of each other's variables."""
        return self.method in ("admm", "dr") and not self.centralized

    @property
    def most_iterations(self) -> int:
        return (100 if self.centralized else 1000) if self.iterations is None else self.iterations

    @property
    def window(self) -> int:
        return (3 if self.centralized else 20) if self.patience is None else self.patience

    @property
    def first_radius(self) -> float:
        return (1.5e5 if self.centralized else 100.0) if self.lm_radius is None else self.lm_radius

    @property
    def clip(self) -> float:
        if self.momentum_clip is not None:
            return self.momentum_clip
        return np.inf if self.refine == "none" else 0.01

    @property
    def resets(self) -> bool:
        return self.refine == "sweep" if self.momentum_reset is None else self.momentum_reset

    @property
    def limited_by_objective(self) -> bool:
        """Whether a device's radius is limited where its F^α has risen (`core/decisions.py`)."""
        return self.accelerated and self.refine != "sweep"

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["loss"] = self.loss.name
        values["loss_radius"] = self.loss.radius
        return values


@cache
def _numbers() -> list[tuple[str, type, str, bool]]:
    """The options that are numbers: names, what they take, and whether None as well."""
    words = [(f.name, str(f.type).removesuffix(" | None"), f.type) for f in fields(Options)]
    return [(name, *NUMBERS[word], word != kind) for name, word, kind in words if word in NUMBERS]
