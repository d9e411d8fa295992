"""Result: the solution, how it was reached, and why the solver stopped."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from daba.options import Options
from daba.problem import Problem

if TYPE_CHECKING:
    from daba.intrinsics import PixelError


@dataclass(frozen=True)
class Iteration:
    """One line of the history; iteration 0 is the start."""

    iteration: int
    seconds: float
    """Since the solve began, setting up included and compiling excluded."""
    objective: float
    """F."""
    mean_objective: float
    """F / K, the paper's mean reprojection error."""
    rms_pixels: float
    """√(Σ ω²|e|² / K), a pixel error to first order."""
    restarts: int = 0
    """Devices that threw their accelerated step away."""
    pcg_iterations: int = 0
    lm_retries: int = 0


@dataclass(frozen=True)
class Result:
    """What `daba.solve` returns."""

    problem: Problem
    """The problem at the solution."""
    start: Problem
    """The problem as it was given."""
    options: Options
    history: list[Iteration]
    reason: str
    """Why the solver stopped, in words."""
    converged: bool
    """Whether a tolerance was met, rather than a limit."""
    linear_solver: str
    inter_share: float
    """Share of observations whose camera and point live on different devices."""

    @property
    def objective(self) -> float:
        return self.history[-1].objective

    @property
    def mean_objective(self) -> float:
        return self.history[-1].mean_objective

    @property
    def seconds(self) -> float:
        return self.history[-1].seconds

    @cached_property
    def pixel_error(self) -> PixelError:
        """Pixel error of the solution with the forward model that is written to files."""
        from daba.intrinsics import pixel_error

        return pixel_error(self.problem)

    @cached_property
    def start_pixel_error(self) -> PixelError:
        from daba.intrinsics import pixel_error

        return pixel_error(self.start)

    def rows(self) -> list[tuple[str, str]]:
        """The result table, as (what, value) pairs."""
        p, first, last = self.problem, self.history[0], self.history[-1]
        made = last.iteration
        method = "lm" if self.options.centralized else self.options.method
        total = [sum(getattr(i, name) for i in self.history) for name in _COUNTED]
        per = f", {1e3 * (last.seconds - first.seconds) / made:.3g} ms each" if made else ""
        rows = [
            (
                "problem",
                f"{p.name}: {p.num_cameras:,} cameras, {p.num_points:,} points, "
                f"{p.num_observations:,} observations",
            ),
            ("method", self._method_words(method)),
            ("F / K", f"{first.mean_objective:.6g} → {last.mean_objective:.6g}"),
            (
                "pixel error, rms",
                f"{self.start_pixel_error.rms:.4g} → {self.pixel_error.rms:.4g} px "
                f"(median {self.pixel_error.median:.3g})",
            ),
            ("iterations", f"{made} in {last.seconds:.2f} s{per}"),
            (
                "linear solver",
                f"{self.linear_solver}, {total[1]} PCG iterations, {total[2]} retries",
            ),
            ("stopped", self.reason),
        ]
        if method == "daba":
            rows.insert(5, ("restarts", f"{total[0]} of {made * self.options.devices} steps"))
        return rows

    def _method_words(self, method: str) -> str:
        loss = self.options.loss
        words = f"{method}, loss {loss.name}"
        if loss.name != "trivial":
            words += f" ({loss.radius:g} px)"
        if method != "lm":
            words = (
                f"{words}, {self.options.devices} devices ({100 * self.inter_share:.1f} % inter "
                f"observations), refine {self.options.refine}"
            )
        return words

    def summary(self) -> str:
        """The result table as plain text."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def to_dict(self) -> dict[str, Any]:
        """What `history.json` holds."""
        from daba import __version__

        p = self.problem
        return {
            "daba": __version__,
            "problem": {
                "name": p.name,
                "cameras": p.num_cameras,
                "points": p.num_points,
                "observations": p.num_observations,
                "inter_share": self.inter_share,
            },
            "options": self.options.to_dict(),
            "iterations": [asdict(i) for i in self.history],
            "result": {
                "reason": self.reason,
                "converged": self.converged,
                "iterations": self.history[-1].iteration,
                "seconds": self.seconds,
                "objective": self.objective,
                "mean_objective": self.mean_objective,
                "linear_solver": self.linear_solver,
                "start_pixel_error": asdict(self.start_pixel_error),
                "pixel_error": asdict(self.pixel_error),
            },
        }


_COUNTED = ("restarts", "pcg_iterations", "lm_retries")
