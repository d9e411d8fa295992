"""Time of a round of exchange and of a sum over all processes, on the machine at hand and through
daba's own communicator:

    mpiexec -n 4 python benchmarks/latency.py

A round is an exchange of every process with all that it has a boundary with, as lm makes two of in
each iteration of conjugate gradients; a sum gathers a row of every process. From messages of
several sizes a latency and a bandwidth are fitted, which `daba solve --simulate-latency` takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import daba
from daba.core.options import Options
from daba.core.text import size
from daba.distributed.comm.base import Communicator
from daba.distributed.network_model import NetworkModel
from daba.distributed.scatter import make_setup
from report import say, table

WIDTHS = (1, 12, 120, 1200)
"""Numbers of each boundary point, or of each row of a sum."""
REPEATED = 200


def median_time(comm: Communicator, act: Callable[[], object]) -> float:
    """Seconds, of the process that waits longest, in the median over repetitions."""
    times = []
    for _ in range(REPEATED):
        comm.barrier()
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return float(comm.gather(np.array([[np.median(times)]])).max())


def fitted(sizes: list[float], times: list[float]) -> tuple[float, float]:
    """Latency in seconds and bandwidth in bytes a second, by relative least squares."""
    weight = 1.0 / np.array(times)
    columns = np.stack([np.ones(len(sizes)), np.array(sizes)], axis=1)
    latency, each = np.linalg.lstsq(columns * weight[:, None], np.ones(len(sizes)), rcond=None)[0]
    return float(latency), float(1.0 / max(each, 1e-15))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cameras", type=int, default=200)
    args = parser.parse_args()
    comm = daba.communicator()
    S, problem = comm.size, None
    if S == 1:
        raise SystemExit("start several processes: mpiexec -n 4 python benchmarks/latency.py")
    if comm.rank == 0:
        scene = daba.SceneOptions(scene="city", cameras=args.cameras, points=50 * args.cameras)
        problem = daba.generate(scene).start
    shard = make_setup(problem, Options(devices=S, method="daba"), None, comm).shard
    exchange = comm.exchange(shard)
    cameras = np.zeros((len(shard.start.cameras), 0))
    rounds, sums = [], []
    for width in WIDTHS:
        points = np.zeros((len(shard.start.points), width))
        exchange.take_traffic()
        exchange.fill(cameras, points)
        sent = float(comm.gather(np.array([[float(exchange.take_traffic().sent)]])).max())
        rounds.append((sent, median_time(comm, partial(exchange.fill, cameras, points))))
        row = np.zeros((1, width))
        gathered = 8.0 * width * S
        sums.append((gathered, median_time(comm, partial(comm.gather, row))))
    if comm.rank > 0:
        return
    rows = [
        [size(round_[0]), f"{1e6 * round_[1]:.0f} µs", size(sum_[0]), f"{1e6 * sum_[1]:.0f} µs"]
        for round_, sum_ in zip(rounds, sums, strict=True)
    ]
    head = ["most bytes of a process", "round", "bytes of a sum", "sum"]
    print(f"{S} processes\n\n{table(head, rows)}\n")
    latency, bandwidth = fitted(*(list(column) for column in zip(*rounds, strict=True)))
    hops = fitted(*(list(column) for column in zip(*sums, strict=True)))[0]
    model = NetworkModel(S, latency, bandwidth)
    print(
        f"A round takes {1e6 * latency:.0f} µs and {8e-9 * bandwidth:.2g} Gbit/s; a sum takes "
        f"{1e6 * hops:.0f} µs, where the model says {1e6 * model.seconds(0, 1, 0, 0):.0f}."
    )
    say(f"daba solve … --simulate-latency {1e3 * latency:.3g} "
        f"--simulate-bandwidth {8e-9 * bandwidth:.2g}")  # fmt: skip


if __name__ == "__main__":
    main()
