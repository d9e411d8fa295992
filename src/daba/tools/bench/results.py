"""What runs did, and finding them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from daba.core.types import frozen
from daba.tools.bench.cases import FOOTPRINT

COLUMNS = (
    "iteration", "seconds", "mean_objective", "restarts", "lm_steps", "rounds", "all_reduces",
    "boundary_bytes", "summed_bytes",
)  # fmt: skip
"""What is kept of each iteration."""


@frozen
class BenchRun:
    """The result of one case."""

    case: dict[str, Any]
    data: dict[str, Any]

    @property
    def problem(self) -> str:
        return str(self.case["problem"])

    @property
    def method(self) -> str:
        return str(self.case["method"])

    @property
    def devices(self) -> int:
        return int(self.case["devices"])

    @property
    def loss(self) -> str:
        return str(self.case["loss"])

    @property
    def backend(self) -> str:
        return str(self.case.get("options", {}).get("backend", "cpu"))

    @property
    def done(self) -> bool:
        return "error" not in self.data

    @property
    def error(self) -> str:
        return str(self.data.get("error", ""))

    @cached_property
    def curves(self) -> list[Curve]:
        """F / K over iterations and seconds: one, or one of each configuration tried."""
        return [Curve.of(history) for history in self.data.get("histories", [])]

    @property
    def start(self) -> float:
        return float(self.curves[0].values[0])

    @property
    def final(self) -> float:
        """F / K reached: at the end, and of several configurations the lowest."""
        return min(float(curve.values[-1]) for curve in self.curves)

    @property
    def made(self) -> int:
        return int(max(curve.iterations[-1] for curve in self.curves))

    @property
    def seconds(self) -> float:
        return min(float(curve.seconds[-1]) for curve in self.curves)


@frozen
class Curve:
    """How one solve went."""

    name: str
    iterations: np.ndarray
    seconds: np.ndarray
    values: np.ndarray
    """F / K."""
    restarts: np.ndarray
    lm_steps: np.ndarray
    """Accepted since the entry before, of all devices together; of our own methods, as all that
    follows."""
    rounds_each: np.ndarray
    sums_each: np.ndarray
    boundary_bytes: np.ndarray
    summed_bytes: np.ndarray

    @property
    def rounds(self) -> np.ndarray:
        """Of exchange with neighbours, since the start."""
        return np.cumsum(self.rounds_each)

    @property
    def bytes(self) -> np.ndarray:
        """That all devices have told, in rounds and in sums, since the start."""
        return np.cumsum(self.boundary_bytes + self.summed_bytes)

    @staticmethod
    def of(history: dict[str, Any]) -> Curve:
        none = [0] * len(history["iteration"])
        arrays = [np.asarray(history.get(name, none), float) for name in COLUMNS]
        return Curve(str(history.get("name", "")), *arrays)


class Results:
    """The runs of a list of cases that have a result, found by what they are."""

    def __init__(self, runs: Iterable[BenchRun]) -> None:
        self.all = list(runs)
        self.runs = [run for run in self.all if run.method != FOOTPRINT]
        self._by = {(r.problem, r.method, r.devices, r.loss): r for r in self.all}

    def get(self, problem: str, method: str, devices: int, loss: str) -> BenchRun | None:
        """The run, if it has ended well."""
        run = self._by.get((problem, method, devices, loss))
        return run if run is not None and run.done else None

    def footprint(self, problem: str, devices: int) -> dict[str, Any] | None:
        run = self.get(problem, FOOTPRINT, devices, "")
        return None if run is None else dict(run.data["footprint"])

    def names(self, what: str) -> list[Any]:
        """The problems, methods, devices or losses that occur, in the order of the cases."""
        return list(dict.fromkeys(getattr(run, what) for run in self.runs))

    @property
    def problems(self) -> list[str]:
        return self.names("problem")

    def label(self, problem: str) -> str:
        """Its collection and cameras, as in ladybug-49, where that is enough to know it by."""
        same = [p for p in self.problems if _short(p) == _short(problem)]
        return _short(problem) if len(same) == 1 else problem

    @property
    def losses(self) -> list[str]:
        return self.names("loss")

    @property
    def devices(self) -> list[int]:
        return sorted(d for d in self.names("devices") if d > 1)

    @property
    def failed(self) -> list[BenchRun]:
        return [run for run in self.all if not run.done]

    def sizes(self, problem: str) -> dict[str, Any]:
        """Cameras, points and observations."""
        for run in self.all:
            if run.problem == problem and "sizes" in run.data:
                return dict(run.data["sizes"])
        return {}


def _short(problem: str) -> str:
    words = problem.split("-")
    return "-".join(words[:2]) if len(words) > 2 and words[1].isdigit() else problem
