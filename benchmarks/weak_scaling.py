"""A scene that grows with its devices: `make bench-weak`.

Devices are simulated one after another: each is set up alone, with the ghosts it would be sent, and
makes some iterations on one thread. What it takes must not depend on how many others there are.
From the partitions of the growing cities it is then told what a million cameras would need.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from daba.runtime.environment import environment
from daba.tools.report.tables import seconds
from report import HERE, machine_words, save_json, say, table, warn_if_busy

DEVICES = (4, 8, 16, 32, 64)
PER_DEVICE = 20_000
PER_POINT, PER_CAMERA = 5, 500
"""Observations of one point and of one camera: a larger city is not a denser one."""
SAMPLE = 6
"""Devices timed of each scene."""
PICTURE = HERE / "weak_scaling.png"
DREAM_CAMERAS, DREAM_OBSERVATIONS = 10**6, 10**9
BYTES_PER_OBSERVATION = 400.0
"""At most, while solving; measured by `make bench-scaling`."""


@dataclass
class Row:
    """One scene, shared by S devices."""

    devices: int
    observations: int
    seconds: list[float]
    """Per iteration, of each device timed."""
    work: float
    """Observations a device works on, in the mean."""
    inter_share: float
    bytes_sent: float
    """By one device per iteration without a sweep, in the mean."""
    neighbours: float

    @property
    def mean(self) -> float:
        return sum(self.seconds) / len(self.seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    warn_if_busy()
    rows = [measure(S, options) for S in DEVICES if options.most >= S]
    sizes = [boundary(n, options.dream_devices) for n in options.sizes]
    text = f"{machine_words(1)}.\n\n{words(rows)}\n\n{projection(sizes)}\n"
    data = {
        "machine": environment() | {"threads": 1},
        "rows": [asdict(r) for r in rows],
        "sizes": sizes,
    }
    say(f"results: {save_json('weak_scaling', data).relative_to(HERE.parent)}")
    if options.plot:
        draw(rows, options.plot)
    print(text)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=DEVICES[-1], help="most devices")
    parser.add_argument("--per-device", type=int, default=PER_DEVICE, help="observations")
    parser.add_argument("--refine", default="none", choices=("none", "points", "sweep"))
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 40_000, 160_000],
                        help="observations per device from which to project")  # fmt: skip
    parser.add_argument("--dream-devices", type=int, default=16, help=argparse.SUPPRESS)
    parser.add_argument("--plot", type=Path, help=f"draw the plot, such as {PICTURE.name}")
    return parser.parse_args(arguments)


def city(observations: int) -> Any:
    import daba

    options = daba.SceneOptions(
        cameras=max(observations // PER_CAMERA, 12),
        points=observations // PER_POINT,
        observations=observations,
    )
    return daba.generate(options).start


def measure(S: int, options: argparse.Namespace) -> Row:
    """Time some devices of a city of S, each alone."""
    import numpy as np

    from daba.partition.ordering import lay_out
    from daba.partition.partition import make_partition
    from daba.partition.statistics import statistics

    problem = city(S * options.per_device)
    partition = make_partition(problem, S)
    facts = statistics(problem, partition)
    layout = lay_out(problem, partition)
    chosen = np.unique(np.linspace(0, S - 1, min(S, SAMPLE)).round().astype(int))
    took = [alone(layout, int(device), options) for device in chosen]
    row = Row(
        S, problem.num_observations, took, float(np.mean(facts.observations)), facts.inter_share,
        float(np.mean(facts.bytes_sent)), float(np.mean(facts.neighbours)),
    )  # fmt: skip
    say(f"  {S} devices, {row.observations:,} observations: {seconds(row.mean)}")
    return row


def alone(layout: Any, device: int, options: argparse.Namespace) -> float:
    """CPU seconds per iteration of one device."""
    import numpy as np

    import daba.runtime.compile
    from daba.backends.cpu.threads import one_blas_thread, set_threads
    from daba.core.options import Options
    from daba.distributed.shard import join
    from daba.solver.make import cpu_solver

    set_threads(1)
    daba.runtime.compile.compile_kernels()
    shard = join([layout.device_block(device)], device, layout.ranges)
    problem = layout.problem
    shard.start.cameras[shard.num_cameras :] = problem.cameras[
        layout.camera_order[shard.ghost_cameras]
    ]
    shard.start.points[shard.num_points :] = problem.points[layout.point_order[shard.ghost_points]]
    settings = Options(devices=layout.ranges.devices, refine=options.refine)
    with one_blas_thread():
        solver = cpu_solver(shard, settings)
        took = []
        for _ in range(options.iterations):
            began = time.process_time()
            solver.iterate()
            took.append(time.process_time() - began)
    return float(np.median(took[2:]))


def boundary(per_device: int, devices: int) -> dict[str, float]:
    """Statistics of a city whose devices have that many observations."""
    import numpy as np

    from daba.partition.partition import make_partition
    from daba.partition.statistics import statistics

    problem = city(per_device * devices)
    facts = statistics(problem, make_partition(problem, devices))
    say(f"  {per_device:,} observations a device: {100 * facts.inter_share:.1f} % inter")
    return {
        "per_device": per_device,
        "inter_share": facts.inter_share,
        "bytes_sent": float(np.mean(facts.bytes_sent)),
        "neighbours": float(np.mean(facts.neighbours)),
    }


def words(rows: list[Row]) -> str:
    lines = [
        [
            str(r.devices),
            f"{r.observations:,}",
            seconds(r.mean),
            f"{seconds(min(r.seconds))} … {seconds(max(r.seconds))}",
            f"{100 * r.inter_share:.1f} %",
            f"{r.neighbours:.1f}",
            f"{r.bytes_sent / 1e3:.1f} kB",
        ]
        for r in rows
    ]
    head = ("devices", "observations", "one device's iteration", "least … most", "inter",
            "neighbours", "sent by a device")  # fmt: skip
    means = [r.mean for r in rows]
    middle = (max(means) + min(means)) / 2
    spread = (max(means) - middle) / middle
    return f"{table(head, lines)}\n\nFlat to ±{100 * spread:.0f} %."


def projection(sizes: list[dict[str, float]]) -> str:
    """A boundary of a plane scene grows as the square root of what it bounds: fit and go on."""
    import math

    logs = [(math.log(s["per_device"]), math.log(s["bytes_sent"])) for s in sizes]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in logs) / max(
        sum((x - mean_x) ** 2 for x, _ in logs), 1e-300
    )
    lines = []
    for devices in (250, 1000, 4000):
        per_device = DREAM_OBSERVATIONS / devices
        sent = math.exp(mean_y + slope * (math.log(per_device) - mean_x))
        memory = BYTES_PER_OBSERVATION * per_device
        lines.append(
            [f"{devices:,}", f"{per_device:,.0f}", f"{memory / 1e9:.2g} GB", f"{sent / 1e6:.2g} MB"]
        )
    measured = ", ".join(
        f"{s['per_device']:,}: {s['bytes_sent'] / 1e3:.0f} kB, {100 * s['inter_share']:.1f} %"
        for s in sizes
    )
    head = ("devices", "observations each", "memory of a device", "sent by a device and iteration")
    return (
        f"Measured, by observations per device: bytes sent by a device and share of inter "
        f"observations: {measured}. Bytes grow as observations^{slope:.2f}. Continued to "
        f"{DREAM_CAMERAS:,} cameras and {DREAM_OBSERVATIONS:,} observations:\n\n"
        f"{table(head, lines)}"
    )


def draw(rows: list[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    S = [r.devices for r in rows]
    mean = [1e3 * r.mean for r in rows]
    low = [m - 1e3 * min(r.seconds) for m, r in zip(mean, rows, strict=True)]
    high = [1e3 * max(r.seconds) - m for m, r in zip(mean, rows, strict=True)]
    axes.errorbar(S, mean, yerr=[low, high], marker="o", capsize=3, color="#1f77b4")
    middle = (max(mean) + min(mean)) / 2
    axes.axhspan(0.8 * middle, 1.2 * middle, color="#1f77b4", alpha=0.12, label="±20 %", lw=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(S, [f"{s}\n{r.observations / 1e3:.0f} k" for s, r in zip(S, rows, strict=True)])
    axes.set_ylim(0, 1.5 * max(mean))
    axes.set_xlabel("devices, and observations of the scene")
    axes.set_ylabel("ms per iteration of one device")
    axes.set_title("The scene grows with its devices; a device's work does not")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    raise SystemExit(main())
