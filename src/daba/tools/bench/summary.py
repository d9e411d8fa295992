"""The findings in a few numbers, each computed from the runs."""

from __future__ import annotations

from collections import Counter
from statistics import median

from daba.tools.bench.accuracy import best_distributed
from daba.tools.bench.communication import winner_words
from daba.tools.bench.measures import PROFILE_DELTA, Kind, iterations_to
from daba.tools.bench.methods import DISTRIBUTED, METHODS
from daba.tools.bench.order import comparisons
from daba.tools.bench.refinement import gains
from daba.tools.bench.results import Results
from daba.tools.report.tables import small

RIVALS = ("duba", "admm", "dr")


def wins(results: Results, kind: Kind, method: str = "daba") -> tuple[int, int]:
    """On how many problem × devices × loss the method needs the fewest iterations to Δ = 1e-4 among
    DUBA, ADMM and DR, and of how many where all were run and any of them gets there."""
    won = counted = 0
    rivals = [name for name in RIVALS if name in results.names("method")]
    for loss in results.losses:
        for problem in results.problems:
            for devices in results.devices:
                names = (method, *rivals)
                if any(results.get(problem, name, devices, loss) is None for name in names):
                    continue
                ours, *others = (
                    iterations_to(results, problem, name, devices, loss, PROFILE_DELTA, kind)
                    for name in names
                )
                known = [at for at in others if at is not None]
                if ours is None and not known:
                    continue
                counted += 1
                won += ours is not None and all(ours < at for at in known)
    return won, counted


def big_numbers(results: Results, kind: Kind) -> list[tuple[str, str]]:
    """(number, what it means), for the top of the page."""
    cards = []
    every = comparisons(results)
    if every:
        kept = sum(not c.broken for c in every)
        text = "comparisons of the three methods end in the paper's order, DABA < ADMM < DR"
        cards.append((f"{kept} of {len(every)}", text))
    for method, label in (("daba", "DABA as in the paper"), ("daba-sweep", "DABA with sweeps")):
        won, counted = wins(results, kind, method)
        if counted:
            text = f"times {label} is at Δ = {small(PROFILE_DELTA)} before DUBA, ADMM and DR"
            cards.append((f"{won} of {counted}", text))
    found = gains(results, "daba-sweep", 1e-3, kind)
    if found:
        text = "fewer iterations to Δ = 1e-3 with sweeps than with DABA as in the paper (median)"
        cards.append((f"{median(found):.2g}×", text))
    return cards


def lows(results: Results) -> Counter[str]:
    """How often each method on several devices ends lowest, over problem × devices × loss."""
    found: Counter[str] = Counter()
    for problem in results.problems:
        for devices in results.devices:
            for loss in results.losses:
                runs = [results.get(problem, name, devices, loss) for name in DISTRIBUTED]
                known = {run.method: run.final for run in runs if run is not None}
                if len(known) > 1 and (best := best_distributed(known)) is not None:
                    found[best] += 1
    return found


def verdict(results: Results, kind: Kind = "paper") -> str:
    """Who is best, by which measure, and where the paper's order fails."""
    ranked = lows(results).most_common()
    every = comparisons(results)
    words = []
    if ranked:
        total = sum(count for _, count in ranked)
        names = ", ".join(f"{METHODS[name].label} {count}" for name, count in ranked)
        words.append(f"On several devices the lowest F is reached by: {names} (of {total}).")
    if told := winner_words(results, kind):
        words.append(told)
    pairs = Counter((a.method, b.method) for c in every for a, b in c.broken)
    broken = [
        f"{METHODS[b].label} ended below {METHODS[a].label} in {count}"
        for (a, b), count in pairs.most_common()
    ]
    if broken:
        words.append(
            f"Against the paper's order, **{' and '.join(broken)} of {len(every)} comparisons**; "
            "the section on the order says what those runs show."
        )
    return " ".join(words)
