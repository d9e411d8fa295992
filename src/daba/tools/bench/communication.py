"""Which method wins where: rounds of exchange, bytes and time to Δ, on several devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from daba.core.text import size
from daba.tools.bench.measures import Kind, Spent, reached, reference, target
from daba.tools.bench.methods import DISTRIBUTED, METHODS
from daba.tools.bench.results import BenchRun, Results
from daba.tools.report.tables import Cell, Entry, Table, number, seconds, small

DELTAS = (1e-2, 1e-3, 1e-4)
WON_AT = 1e-3
"""Δ at which it is said who wins."""
WORDS: dict[Spent, str] = {
    "rounds": "fewest rounds of exchange",
    "bytes": "fewest bytes",
    "seconds": "least time, in one process",
}


class Race(NamedTuple):
    """The methods on one problem."""

    problem: str
    devices: int
    loss: str
    delta: float
    runs: dict[str, BenchRun]
    goal: float

    def spent(self, what: Spent) -> dict[str, float]:
        """By each method that gets to Δ."""
        found = {name: reached(run, self.goal, what) for name, run in self.runs.items()}
        return {name: value for name, value in found.items() if value is not None}

    def winner(self, what: Spent) -> str | None:
        spent = self.spent(what)
        return min(spent, key=lambda name: spent[name], default=None)


def races(results: Results, deltas: tuple[float, ...], kind: Kind) -> Iterator[Race]:
    """Everything that several methods were run on."""
    for loss in results.losses:
        for problem in results.problems:
            F_ref = reference(results, problem, loss, kind)
            for devices in results.devices:
                found = {name: results.get(problem, name, devices, loss) for name in DISTRIBUTED}
                runs = {name: run for name, run in found.items() if run is not None}
                if F_ref is None or len(runs) < 2:
                    continue
                start = next(iter(runs.values())).start
                for delta in deltas:
                    goal = target(F_ref, start, delta)
                    yield Race(problem, devices, loss, delta, runs, goal)


def communication_table(results: Results, loss: str, kind: Kind) -> Table:
    """Rounds and bytes of every method to Δ."""
    shown = [name for name in DISTRIBUTED if name in results.names("method")]
    rows: list[list[Entry]] = []
    for race in races(results, DELTAS, kind):
        if race.loss == loss:
            row: list[Entry] = [results.label(race.problem), str(race.devices), small(race.delta)]
            rows.append([*row, *(_cell(race, name) for name in shown)])
    return Table(
        title=f"Rounds of exchange and bytes to Δ, {loss} loss",
        about="To F_Δ = F_ref + Δ (F_init − F_ref): rounds / bytes / time. A round is an exchange "
        "of every device with its neighbours; bytes are what all devices tell, each as a process "
        "of its own, in rounds and in sums over all, which only LM has: about one for each round. "
        "**Bold** has the fewest rounds, a dagger (†) the fewest bytes; – was not reached.",
        head=["problem", "devices", "Δ", *(METHODS[name].label for name in shown)],
        rows=rows,
    )


def _cell(race: Race, name: str) -> Cell:
    rounds, told, took = (race.spent(what).get(name) for what in WORDS)
    if took is None:
        return Cell("–")
    text = f"{number(rounds, 6)} / {size(told)} / {seconds(took)}"
    return Cell(text, race.winner("rounds") == name, race.winner("bytes") == name)


def winners_table(results: Results, kind: Kind) -> Table:
    """Who gets to Δ first, by each measure, and where."""
    found: dict[tuple[str, str], list[str]] = {}
    for race in races(results, (WON_AT,), kind):
        for what, words in WORDS.items():
            if (name := race.winner(what)) is not None:
                where = f"{results.label(race.problem)} on {race.devices}"
                where += f", {race.loss}" * (len(results.losses) > 1)
                found.setdefault((words, METHODS[name].label), []).append(where)
    rows: list[list[Entry]] = [
        [words, label, str(len(places)), Cell("; ".join(places), prose=True)]
        for words in WORDS.values()
        for (of, label), places in sorted(found.items(), key=lambda item: -len(item[1]))
        if of == words
    ]
    return Table(
        title="Which method wins where",
        about=f"To Δ = {small(WON_AT)}, by what it takes. Time is that of all devices in one "
        "process; a network adds its latency for each round, and more for each sum.",
        head=["what is counted", "method", "times", "on"],
        rows=rows,
    )


def winner_words(results: Results, kind: Kind) -> str:
    """The same in a sentence."""
    every = list(races(results, (WON_AT,), kind))
    parts = []
    for what, words in WORDS.items():
        names = [name for race in every if (name := race.winner(what)) is not None]
        if names:
            counts = {n: names.count(n) for n in sorted(set(names), key=names.count, reverse=True)}
            told = ", ".join(f"{METHODS[name].label} {count}" for name, count in counts.items())
            parts.append(f"{words}: {told} (of {len(names)})")
    return f"To Δ = {small(WON_AT)}, {'; '.join(parts)}." if parts else ""
