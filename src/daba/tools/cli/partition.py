"""`daba partition`: how a problem would be shared, and what each iteration would send."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

from daba.core.errors import DabaError
from daba.core.options import Options
from daba.core.text import size
from daba.core.types import frozen
from daba.io.constraint_options import ConstraintOptions, constrain
from daba.io.store.store import Store
from daba.io.store.writing import write_store
from daba.partition.ordering import Layout, lay_out
from daba.partition.partition import make_partition
from daba.partition.statistics import PartitionStatistics, statistics
from daba.runtime.prediction import predict_lm
from daba.solver.linear.factor_memory import with_factors
from daba.solver.lm.footprint import LmFootprint
from daba.tools.cli.arguments import Arg, Intrinsics, Json, flags_of, parse
from daba.tools.cli.console import Console, make_console, to_json


@frozen
class PartitionCommand:
    """Show how a problem would be shared between devices, or share it out into a store.

    For each device its cameras, points, observations (its own and those shared with a
    neighbour), the devices it exchanges with, the bytes it sends per iteration of daba (twice
    that with --refine sweep), and the memory that a process of its own would need for daba and,
    unless a store is read or written, for lm.
    A store is a folder from which each process of a solve reads only what is its own. Writing
    one takes memory for cameras and points, but not for observations (with --intrinsics
    standard or with constraints, for all of them).

    examples:
      daba partition problem.txt.bz2 --devices 8
      daba partition problem.txt.bz2 --devices 32 --json
      daba partition problem.txt.bz2 --devices 8 --output problem.daba
      daba partition problem.daba
    """

    input: Annotated[Path, Arg("IN", positional=True)]
    """Problem: BAL (.txt, .bal), Bundler (.out), .npz, or the folder of a COLMAP model or a
    store."""
    devices: Annotated[int | None, Arg("S")] = None
    """Number of devices S; a store has its own, and is partitioned anew for any other."""
    output: Annotated[Path | None, Arg("DIR", "-o")] = None
    """Folder to write the store to; by custom its name ends in .daba."""
    seed: int = 0
    """Seed of the partition."""
    intrinsics: Intrinsics = "auto"
    json: Json = False


def run(argv: list[str]) -> int:
    flags = flags_of(ConstraintOptions)
    command, values = parse(PartitionCommand, argv, flags, {"constraints": tuple(flags)})
    shared = _share(command, ConstraintOptions(**values))
    s = shared.statistics
    if command.json:
        lm = {} if shared.lm is None else {
            "lm": {"memory": shared.lm.memory, "bytes": shared.lm.sent._asdict()}
        }  # fmt: skip
        print(to_json({"problem": shared.name} | s.to_dict() | lm))
        return 0
    console = make_console()
    _print_devices(console, s, shared.lm)
    rows = [
        ("imbalance", f"{s.imbalance:.3f} (largest device over the mean, by observations)"),
        ("between devices", f"{100 * s.inter_share:.2f} % of {shared.observations:,} observations"),
        ("boundary cameras", f"{s.boundary_cameras:,} of {sum(s.cameras):,}"),
        ("boundary points", f"{s.boundary_points:,} of {sum(s.points):,}"),
        ("sent per iteration", f"{size(sum(s.bytes_sent))} by all devices together, with daba"),
    ]
    if shared.lm is not None and s.devices > 1:
        sent = shared.lm.sent
        words = f"{size(sent.step)} a step, and {size(sent.iteration)} for each of its iterations"
        rows.append(("sent by lm", f"{words} of conjugate gradients, with sums over all devices"))
    console.pairs(rows)
    return 0


class _Shared(NamedTuple):
    """What is shown."""

    name: str
    observations: int
    statistics: PartitionStatistics
    lm: LmFootprint | None = None
    """What lm would need, where the problem is at hand as a whole."""


def _share(command: PartitionCommand, constraints: ConstraintOptions) -> _Shared:
    """Write a store, look at one, or only see how the problem would be shared."""
    from daba.io.folders import is_store
    from daba.io.formats import load

    store = Store(command.input) if is_store(command.input) else None
    devices = store.devices if store and command.devices is None else command.devices
    if devices is None:
        raise DabaError(f"{command.input}: say for how many devices with --devices S")
    if command.output is not None and not constraints.nothing:
        problem = constrain(load(command.input, command.intrinsics), constraints)
        partition = make_partition(problem, devices, command.seed)
        write_store(lay_out(problem, partition), command.output)
        return _whole(Store(command.output), statistics(problem, partition))
    if command.output is not None:
        from daba.io.store.streaming import partition_to_store

        s = partition_to_store(
            command.input, devices, command.seed, command.output, command.intrinsics
        )
        return _whole(Store(command.output), s)
    if store and store.devices == devices:
        return _whole(store, store.statistics())
    problem = load(command.input, command.intrinsics)
    partition = make_partition(problem, devices, command.seed)
    layout = lay_out(problem, partition)
    s = statistics(problem, partition)
    lm = predict_lm(problem, partition, Options())
    return _Shared(problem.name, problem.num_observations, _predicted(s, layout), lm)


def _whole(store: Store, s: PartitionStatistics) -> _Shared:
    return _Shared(store.name, store.ranges.observations, _predicted(s, store))


def _predicted(s: PartitionStatistics, shared: Layout | Store) -> PartitionStatistics:
    """The statistics with the memory of the linear solver that would be chosen."""
    blocks = (shared.device_block(device) for device in range(s.devices))
    return replace(s, memory=with_factors(s.memory, blocks, shared.ranges))


def _print_devices(console: Console, s: PartitionStatistics, lm: LmFootprint | None) -> None:
    head = ["device", "cameras", "points", "observations", "neighbours", "bytes / iteration",
            "memory, MB"]  # fmt: skip
    megabytes = [round(count / 1e6) for count in s.memory]
    columns = [s.cameras, s.points, s.observations, s.neighbours, s.bytes_sent, megabytes]
    if lm is not None:
        head.append("with lm, MB")
        columns.append([round(count / 1e6) for count in lm.memory])
    rows = [
        [str(device), *(f"{value:,}" for value in row)]
        for device, row in enumerate(zip(*columns, strict=True))
    ]
    total = [f"{sum(column):,}" for column in columns]
    total[3] = f"{sum(s.neighbours) / s.devices:.1f} mean"
    console.numbers(head, rows, ["all", *total])
