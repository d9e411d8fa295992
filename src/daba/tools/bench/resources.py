"""Memory of a device and bytes of an iteration (Fig. 4), as a table."""

from __future__ import annotations

from daba.core.text import size
from daba.tools.bench.cases import ALL_DEVICES
from daba.tools.bench.footprint import LM_ITERATIONS
from daba.tools.bench.results import Results
from daba.tools.report.tables import Cell, Entry, Table

SHOWN = ("daba", "daba-sweep", "admm", "dr", "lm-devices")
MOST = 1.5
"""Memory of the methods should be within this factor of each other."""


def resources_table(results: Results) -> Table:
    rows: list[list[Entry]] = []
    for problem in results.problems:
        for devices in ALL_DEVICES:
            footprints = results.footprint(problem, devices)
            if footprints is None:
                continue
            plain = footprints["daba"]
            row: list[Entry] = [results.label(problem), str(devices)]
            row += [size(footprints[name]["memory"]) for name in SHOWN if name != "daba-sweep"]
            row += [size(footprints[name]["bytes"]) for name in SHOWN]
            ratio = footprints["admm"]["memory"] / plain["memory"]
            row.append(f"{ratio:.2f}")
            less = footprints["admm"]["bytes"] < plain["bytes"]
            share = footprints["admm"]["bytes"] / plain["bytes"] if plain["bytes"] else None
            row.append(Cell("–" if share is None else f"{share:.2f}", better=less))
            rows.append(row)
    return Table(
        title="Memory per device and communication per iteration (Fig. 4)",
        about="Most memory of any device, without the interpreter and its libraries, and bytes "
        "sent by all devices in an iteration, one process each. Both are predicted from the "
        "partition; the tests compare it with what MPI runs report. Refinement needs no more "
        f"memory. An iteration of LM is one with {LM_ITERATIONS} of conjugate gradients, its sums "
        "over all devices included.",
        head=["problem", "devices", "memory DABA", "ADMM", "DR", "LM", "bytes DABA", "DABA sweep",
              "ADMM", "DR", "LM", "memory ADMM / DABA", "bytes ADMM / DABA"],
        rows=rows,
        notes=[words] if (words := resource_words(results)) else [],
    )  # fmt: skip


def resource_words(results: Results) -> str:
    """How ADMM compares with DABA, over all problems and devices."""
    footprints = [
        found
        for problem in results.problems
        for devices in results.devices
        if (found := results.footprint(problem, devices)) is not None
    ]
    if not footprints:
        return ""
    less = sum(t["admm"]["bytes"] < t["daba"]["bytes"] for t in footprints)
    ratios = [t["admm"]["memory"] / t["daba"]["memory"] for t in footprints]
    within = sum(1 / MOST <= r <= MOST for r in ratios)
    return (
        f"ADMM sends fewer bytes per iteration than DABA on {less} of {len(footprints)} problem × "
        f"devices; its memory is {min(ratios):.2f} to {max(ratios):.2f} times DABA's, within "
        f"{MOST}× on {within} of {len(footprints)}."
    )
