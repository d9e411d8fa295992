"""The findings in a few numbers, each computed from the runs."""

from __future__ import annotations

from statistics import median

from daba.bench.measures import PROFILE_DELTA, Kind, iterations_to
from daba.bench.order import comparisons
from daba.bench.refinement import gains
from daba.bench.results import Results
from daba.bench.tables import small

RIVALS = ("duba", "admm", "dr")


def wins(results: Results, kind: Kind, method: str = "daba") -> tuple[int, int]:
    """On how many problem × devices × loss the method needs the fewest iterations to Δ = 1e-4 among
    DUBA, ADMM and DR, and of how many where any of them gets there."""
    won = counted = 0
    for loss in results.losses:
        for problem in results.problems:
            for devices in results.devices:
                ours, *others = (
                    iterations_to(results, problem, name, devices, loss, PROFILE_DELTA, kind)
                    for name in (method, *RIVALS)
                )
                known = [at for at in others if at is not None]
                if ours is None and not known:
                    continue
                counted += 1
                won += ours is not None and all(ours < at for at in known)
    return won, counted


def big_numbers(results: Results, kind: Kind) -> list[tuple[str, str]]:
    """(number, what it means), for the top of the page."""
    told = []
    every = comparisons(results)
    if every:
        held = sum(not c.broken for c in every)
        first = sum(c.runs[0].final < min(r.final for r in c.runs[1:]) for c in every)
        told.append((f"{held} of {len(every)}",
                     "runs on the same problem, devices and loss end in the paper's order, DABA "
                     f"before ADMM before DR; DABA is the lowest of them on {first}"))  # fmt: skip
    for method, label in (("daba", "DABA as in the paper"), ("daba-sweep", "DABA with sweeps")):
        won, counted = wins(results, kind, method)
        if counted:
            told.append((f"{won} of {counted}",
                         f"times {label} needs fewer iterations than DUBA, ADMM and DR to "
                         f"Δ = {small(PROFILE_DELTA)}, where any of them gets there"))  # fmt: skip
    found = gains(results, "daba-sweep", 1e-3, kind)
    if found:
        told.append((f"{median(found):.2g}×", "fewer iterations to Δ = 1e-3 with sweep refinement "
                     "than with DABA as in the paper, in the median"))  # fmt: skip
    return told
