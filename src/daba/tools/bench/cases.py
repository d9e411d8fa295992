"""What is to be run: every case is one run, and has one result file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from daba.core.errors import DabaError
from daba.core.types import frozen
from daba.core.version import __version__
from daba.tools.bench.methods import METHODS
from daba.tools.bench.problems import BenchProblem

DEVICES = (4, 8, 16, 32)
LOSSES = ("trivial", "huber")
RADIUS = 32.0
"""Radius of the Huber loss, in pixels."""
FULL = 1000
"""Iterations of a decentralized method in the paper …"""
CENTRAL = 40
"""… and of a centralized one, and of those that take steps like it."""
PATIENCE = 5.0
"""A limit of time is so much wider for these."""
FOOTPRINT = "footprint"
"""A case that runs nothing: memory and bytes, predicted from the partition."""
ALL_DEVICES = (1, 2, 4, 8, 16, 32)
"""Numbers of devices for which they are predicted."""
Backend = Literal["cpu", "gpu"]


@frozen
class Case:
    """One run."""

    source: BenchProblem
    method: str
    devices: int = 1
    loss: str = ""
    iterations: int = 0
    threads: int | None = None
    max_seconds: float | None = None
    backend: Backend = "cpu"

    @property
    def options(self) -> dict[str, Any]:
        """Options for `daba.solve`."""
        own = METHODS[self.method].options if self.method in METHODS else {}
        return own if self.backend == "cpu" else {**own, "backend": self.backend}

    @property
    def elsewhere(self) -> Case:
        """The same on the other backend, where there is a choice; else itself."""
        if self.method not in METHODS or not METHODS[self.method].gpu:
            return self
        return replace(self, backend="gpu" if self.backend == "cpu" else "cpu")

    def settings(self) -> dict[str, Any]:
        """Everything that its result depends on."""
        return {
            "problem": self.source.name,
            "content": self.source.checksum,
            "method": self.method,
            "options": self.options,
            "devices": self.devices,
            "loss": self.loss,
            "iterations": self.iterations,
            "threads": self.threads,
            "max_seconds": self.max_seconds,
            "version": __version__,
        }

    @property
    def file(self) -> str:
        """Where its result is kept, below the folder of results."""
        text = json.dumps(self.settings(), sort_keys=True)
        words = [
            self.method,
            str(self.devices),
            self.loss,
            hashlib.sha256(text.encode()).hexdigest(),
        ]
        return f"{self.source.name}/{'-'.join(w[:12] for w in words if w)}.json"

    @property
    def label(self) -> str:
        if self.method == FOOTPRINT:
            return f"{self.source.name}, memory and bytes on {self.devices}"
        method = METHODS[self.method]
        where = "" if method.centralized else f" on {self.devices}"
        backend = ", GPU" if self.backend == "gpu" else ""
        return f"{self.source.name}, {method.label}{where}, {self.loss}{backend}"

    @property
    def cost(self) -> float:
        """Roughly, in units of its own: only the time left is estimated by it."""
        if self.method == FOOTPRINT:
            return 2.0 * self.source.size
        return self.iterations * METHODS[self.method].cost * self.source.size


def make_cases(
    sources: Sequence[BenchProblem],
    methods: Sequence[str],
    devices: Sequence[int] = DEVICES,
    losses: Sequence[str] = LOSSES,
    iterations: int = FULL,
    threads: int | None = None,
    max_seconds: float | None = None,
    backend: Backend = "cpu",
) -> list[Case]:
    """All combinations; centralized methods run on one device. They and LM on several make as many
    iterations as in the paper. F_ref hangs on them, so that a limit of time is wider for them.
    Methods that no GPU can run stay on the CPU."""
    for kind, given, known in (("method", methods, METHODS), ("loss", losses, LOSSES)):
        for name in given:
            if name not in known:
                raise DabaError(f"there is no {kind} '{name}'; choose from {', '.join(known)}")
    if not all(count > 1 for count in devices):
        raise DabaError("--devices needs counts above 1: on one device every method is lm")
    cases = []
    for source in sources:
        for loss in losses:
            for name in methods:
                method = METHODS[name]
                where = backend if method.gpu else "cpu"
                for count in (1,) if method.centralized else devices:
                    made = CENTRAL if method.newton else iterations
                    limit = max_seconds and max_seconds * (PATIENCE if method.newton else 1)
                    cases.append(Case(source, name, count, loss, made, threads, limit, where))
        cases += [Case(source, FOOTPRINT, count) for count in ALL_DEVICES]
    return cases
