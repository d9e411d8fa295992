"""Result: the solution, how it was reached, and why the solver stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.core.types import frozen
from daba.distributed.comm.base import Traffic, peak_memory
from daba.problem.problem import Problem

if TYPE_CHECKING:
    from daba.distributed.scatter import Sizes
    from daba.distributed.shard import State
    from daba.io.store.store import Store
    from daba.partition.partition import Partition
    from daba.problem.images import ImageNames
    from daba.problem.outliers import Dropped
    from daba.problem.pixel_errors import PixelError


@frozen
class Iteration:
    """One line of the history; iteration 0 is the start."""

    iteration: int
    """Its number."""
    seconds: float
    """Since the solve began, setting up included and compiling excluded."""
    objective: float
    """F: what is minimised, of observations and priors."""
    mean_objective: float
    """F of the observations / K, the paper's mean reprojection error."""
    rms_pixels: float
    """√(Σ ω²|e|² / K), a pixel error to first order."""
    restarts: int = 0
    """Devices that threw their accelerated step away."""
    pcg_iterations: int = 0
    """Iterations of conjugate gradients, of all devices together."""
    lm_retries: int = 0
    """Steps that were rejected and tried again with a smaller radius, of all devices together."""
    lm_steps: int = 0
    """Accepted, of all devices together."""
    rounds: int = 0
    """Of exchange with neighbours, in which each tells what changes at its boundary; without those
    about intrinsics that devices of daba and duba share."""
    all_reduces: int = 0
    """Sums over all devices, beside that of F for this entry."""
    boundary_bytes: int = 0
    """Told in rounds, by all devices, as if each were a process of its own."""
    summed_bytes: int = 0
    """Given to sums by all devices; each is told the whole of it."""
    bytes_sent: int = 0
    """Between processes, by all of them, since the entry before; as all that follows."""
    compute_seconds: float = 0.0
    """Mean over processes, as the next two."""
    waiting_seconds: float = 0.0
    """Seconds in which processes waited for neighbours' variables."""
    exchange_seconds: float = 0.0
    """Packing, sending and unpacking."""
    prior_objective: float = 0.0
    """The priors' part of F."""
    network_seconds: float = 0.0
    """What a simulated network would add, that of telling F included."""


@dataclass
class RankReport:
    """What one process of a solve did."""

    rank: int
    devices: Sequence[int]
    bytes_sent: dict[int, int] = field(default_factory=dict)
    """Bytes sent to each neighbouring rank."""
    compute_seconds: float = 0.0
    waiting_seconds: float = 0.0
    exchange_seconds: float = 0.0
    peak_memory: int = 0
    """Bytes, with the interpreter and its libraries."""

    def add(self, traffic: Traffic, computing: float) -> None:
        for neighbour, sent in traffic.bytes.items():
            self.bytes_sent[neighbour] = self.bytes_sent.get(neighbour, 0) + sent
        self.compute_seconds += computing
        self.waiting_seconds += traffic.waiting
        self.exchange_seconds += traffic.exchanging

    def conclude(self, earlier: RankReport | None) -> None:
        """Add what an earlier run of the same solve did, and see how much memory was needed."""
        self.peak_memory = peak_memory()
        if earlier is not None:
            done = Traffic(earlier.bytes_sent, earlier.exchange_seconds, earlier.waiting_seconds)
            self.add(done, earlier.compute_seconds)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"devices": list(self.devices)}


@frozen
class Result:
    """What `daba.solve` returns."""

    solution: Problem | None
    """The problem at the solution, where one process holds all of it."""
    source: Problem | Store | None
    """What was given to be solved."""
    options: Options
    """What it was solved with."""
    history: list[Iteration]
    """What was reported on the way, the start and the end included."""
    reason: str
    """Why the solver stopped, in words."""
    converged: bool
    """Whether a tolerance was met, rather than a limit."""
    linear_solver: str
    """What solved the reduced camera systems."""
    sizes: Sizes
    """How large the problem is."""
    ranks: list[RankReport] = field(default_factory=list)
    """What each process did; on rank 0."""
    local: dict[int, State] = field(default_factory=dict)
    """What each device of this process has reached."""
    corrected: int = 0
    """Points that `Options.points_in_front` has brought in front of their cameras."""
    hidden: int = 0
    """Observations that had no weight at last, because their cameras did not see their points when
    the solve began; they are not in the solution."""
    dropped: Dropped | None = None
    """What `Options.filter` has taken out; `history` goes on after it."""
    notes: list[str] = field(default_factory=list)
    """What a user should know of how it ended, beside the reason."""
    chosen: str = ""
    """Why the method is what it is, where nobody has asked for it."""
    partition: Partition | None = None
    """Which device owned what, where one process holds the whole problem."""

    @property
    def turned(self) -> int:
        """`corrected`, by its name in version 0.1."""
        return self.corrected

    @property
    def problem(self) -> Problem:
        """The problem at the solution."""
        if self.solution is None:
            raise DabaError(
                "no process holds the whole solution: write it to a store with `daba.save`, or "
                "gather it with `daba.gather`"
            )
        return self.solution

    @property
    def start(self) -> Problem:
        """The problem as it was given."""
        if not isinstance(self.source, Problem):
            raise DabaError("no process holds the whole problem")
        return self.source

    @property
    def objective(self) -> float:
        """F at the end."""
        return self.history[-1].objective

    @property
    def mean_objective(self) -> float:
        """F of the observations / K at the end."""
        return self.history[-1].mean_objective

    @property
    def seconds(self) -> float:
        """How long the solve took, compiling excluded."""
        return self.history[-1].seconds

    @property
    def inter_share(self) -> float:
        """Share of observations whose camera and point live on different devices."""
        return self.sizes.inter_share

    @cached_property
    def pixel_error(self) -> PixelError:
        """Pixel error of the solution with the forward model that is written to files."""
        from daba.problem.pixel_errors import pixel_error

        return pixel_error(self.problem)

    @cached_property
    def start_pixel_error(self) -> PixelError:
        """Where the solve began."""
        from daba.problem.pixel_errors import pixel_error

        return pixel_error(self.start)

    @cached_property
    def worse(self) -> str:
        """How the result is clearly worse than the start in pixels, in words; empty if not."""
        from daba.runtime.solve import verdict

        return verdict(self)

    @cached_property
    def remarks(self) -> list[str]:
        """`notes`, and what a look at the solution adds."""
        if self.solution is None or self.options.error != "pixel":
            return self.notes
        from daba.problem.optics_summary import strayed

        words = strayed(self.start, self.solution)
        return [*self.notes, words] if words else self.notes

    @property
    def constraints(self) -> list[str]:
        """The constraints in words, where a process knows the problem."""
        from daba.problem.constraints import describe

        if self.solution is None:
            return []
        solution = self.solution
        pixels = self.options.error == "pixel"
        given = solution.requested_constraints if pixels else solution.constraints
        return describe(given, self.images.noun)

    @property
    def images(self) -> ImageNames:
        """What the images, or cameras, are called."""
        from daba.problem.images import ImageNames

        info = {} if self.source is None else self.source.info
        return ImageNames.of(info, self.sizes.cameras)

    def rows(self) -> list[tuple[str, str]]:
        """The result table, as (what, value) pairs."""
        from daba.runtime.summary import rows

        return rows(self)

    @cached_property
    def colmap_errors(self) -> dict[str, float] | None:
        """The mean reprojection error of a COLMAP model, as COLMAP computes it, at the start and
        now; of a solution in rays also how far its cameras are from these."""
        if self.solution is None or "colmap" not in self.solution.info:
            return None
        from daba.problem.pixel_errors import mean_reprojection_error

        errors = {
            "start_px": mean_reprojection_error(self.start),
            "mean_px": mean_reprojection_error(self.solution),
        }
        if self.options.error == "pixel":
            return errors
        from daba.problem.rays import rays_fit

        fit = rays_fit(self.solution)
        return errors | {"fit_rms_px": fit["rms_px"], "fit_max_px": fit["max_px"]}

    def __repr__(self) -> str:
        return f"<Result of {self.sizes.name}: {self.reason}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        from daba.core.text import html_table
        from daba.runtime.summary import curve

        return html_table(self.rows()) + curve([row.mean_objective for row in self.history])

    def summary(self) -> str:
        """The result table as plain text."""
        from daba.core.text import printable

        rows = [(name, printable(value)) for name, value in self.rows()]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def to_dict(self) -> dict[str, Any]:
        """What `history.json` holds."""
        from daba.core.version import __version__

        pixels: dict[str, Any] = {}
        if self.solution is not None:
            pixels = {
                "start_pixel_error": asdict(self.start_pixel_error),
                "pixel_error": asdict(self.pixel_error),
            }
            if self.colmap_errors is not None:
                pixels["colmap"] = self.colmap_errors
        return {
            "daba": __version__,
            "problem": asdict(self.sizes),
            "options": self.options.to_dict(),
            "constraints": self.constraints,
            "iterations": [asdict(i) for i in self.history],
            "result": {
                "reason": self.reason,
                "converged": self.converged,
                "notes": self.remarks,
                "iterations": self.history[-1].iteration,
                "seconds": self.seconds,
                "objective": self.objective,
                "mean_objective": self.mean_objective,
                "method": self.options.algorithm,
                "chosen": self.chosen,
                "linear_solver": self.linear_solver,
                "worse": self.worse,
                "points_brought_in_front": self.corrected,
                "observations_hidden": self.hidden,
                "dropped": None if self.dropped is None else self.dropped.to_dict(),
                **pixels,
            },
            "ranks": [rank.to_dict() for rank in self.ranks],
        }
