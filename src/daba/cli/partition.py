"""`daba partition`: how a problem would be shared, and what each iteration would send."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from daba.cli.arguments import Intrinsics, Json, parse
from daba.cli.console import make_console, numbers_table, pairs_table, to_json
from daba.partition import PartitionStatistics, make_partition, statistics


@dataclass(frozen=True)
class Partition:
    """Show how a problem would be shared between devices.

    For each device its cameras, points, observations (its own and those shared with a
    neighbour), the devices it exchanges with, and the bytes it sends per iteration.

    examples:
      daba partition problem.txt.bz2 --devices 8
      daba partition problem.txt.bz2 --devices 32 --json
    """

    input: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="IN", metavar="IN")]
    """Problem: BAL (.txt, .bal, also with .bz2 or .gz) or .npz."""
    devices: int
    """Number of devices S."""
    seed: int = 0
    """Seed of the partition."""
    intrinsics: Intrinsics = "paper"
    json: Json = False


def run(argv: list[str]) -> int:
    command, _ = parse(Partition, argv)
    from daba.io import load

    problem = load(command.input, command.intrinsics)
    s = statistics(problem, make_partition(problem, command.devices, command.seed))
    if command.json:
        print(to_json({"problem": problem.name} | s.to_dict()))
        return 0
    console = make_console()
    console.print(_table(s))
    P, C = problem.num_points, problem.num_cameras
    rows = [
        ("imbalance", f"{s.imbalance:.3f} (largest device over the mean, by observations)"),
        ("inter observations", f"{100 * s.inter_share:.2f} % of {problem.num_observations:,}"),
        ("boundary cameras", f"{s.boundary_cameras:,} of {C:,}"),
        ("boundary points", f"{s.boundary_points:,} of {P:,}"),
        ("sent per iteration", f"{_bytes(sum(s.bytes_sent))} by all devices together"),
    ]
    console.print(pairs_table(rows))
    return 0


def _table(s: PartitionStatistics) -> object:
    table = numbers_table(
        ["device", "cameras", "points", "observations", "neighbours", "bytes / iteration"]
    )
    columns = (s.cameras, s.points, s.observations, s.neighbours, s.bytes_sent)
    for device, row in enumerate(zip(*columns, strict=True)):
        table.add_row(str(device), *(f"{value:,}" for value in row))
    table.add_section()
    total = [f"{sum(column):,}" for column in columns]
    total[3] = f"{sum(s.neighbours) / s.devices:.1f} mean"
    table.add_row("all", *total, style="bold")
    return table


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
