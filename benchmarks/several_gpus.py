"""How solves scale with GPUs of one machine: strong (one problem on more of them) and weak (as much
for each).

    python benchmarks/several_gpus.py                   # 1, 2, 4, … of the GPUs that are here
    python benchmarks/several_gpus.py --gpus 1 2 --share --size 1723,156502,678718

Each number of processes, one for each GPU, is started by torchrun. `--share` lets processes share
GPUs, which shows that it works and not how fast it is. Scenes are synthetic (`scene.py`); needs
NumPy, torch and Triton only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import daba
from daba.io.store.writing import write_store
from daba.partition.ordering import lay_out
from scene import in_strips, landscape

SIZE = (13_682, 4_456_117, 28_987_644)
"""Cameras, points and observations of strong scaling, and of each GPU in weak scaling an eighth."""
DEVICES = 8
"""Devices of a GPU in weak scaling, and of all GPUs in strong scaling, at least as many as GPUs."""
METHODS: dict[str, dict[str, Any]] = {
    "none": {"method": "daba", "refine": "none"},
    "sweep": {"method": "daba", "refine": "sweep"},
    "lm": {"method": "lm"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, nargs="*", help="how many, one number after the other")
    parser.add_argument("--share", action="store_true", help="let processes share GPUs")
    parser.add_argument("--size", default=",".join(map(str, SIZE)))
    parser.add_argument("--methods", nargs="*", default=["none", "sweep"], choices=list(METHODS))
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--only", choices=("strong", "weak"))
    parser.add_argument("--process", nargs=3, metavar=("STORE", "METHOD", "OUT"))
    args = parser.parse_args()
    if args.process:
        store, method, out = args.process
        one_process(store, method, Path(out), args.iterations)
        return
    here = torch.cuda.device_count()
    gpus = args.gpus or [n for n in (1, 2, 4, 8, 16) if n <= here]
    if max(gpus) > here and not args.share:
        parser.error(f"{max(gpus)} GPUs, but {here} are here; --share lets processes share them")
    size = tuple(int(number) for number in args.size.split(","))
    print(f"{here} × {torch.cuda.get_device_name()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("strong", "weak"):
            if args.only in (None, kind):
                scale(kind, gpus, size, args.methods, args.iterations, Path(folder))


def scale(
    kind: str,
    gpus: list[int],
    size: tuple[int, ...],
    methods: list[str],
    iterations: int,
    folder: Path,
) -> None:
    """Print a line for each number of GPUs and method."""
    first: dict[str, float] = {}
    store = None
    for count in gpus:
        if store is None or kind == "weak":
            share = count / max(DEVICES, *gpus) if kind == "weak" else 1.0
            devices = DEVICES * count if kind == "weak" else max(DEVICES, *gpus)
            store = scene(tuple(round(number * share) for number in size), devices, folder)
        for method in methods:
            found = measure(store, method, count, iterations, folder / "found.json")
            each = found["milliseconds"]
            first.setdefault(method, each)
            ratio = first[method] / each
            gain = f"{ratio / count:.0%} efficient" if kind == "strong" else f"{ratio:.0%} of one"
            print(
                f"{kind:<7}{count:>3} GPUs  {method:<6}{found['observations']:>12,} observations, "
                f"{each:8.3f} ms an iteration, {gain}, waiting {found['waiting']:.0%}, exchanging "
                f"{found['exchanging']:.0%}, {found['megabytes']:.2f} MB sent, F {found['F']!r}",
                flush=True,
            )


def scene(size: tuple[int, ...], devices: int, folder: Path) -> Path:
    """A store of a landscape."""
    cameras, points, observations = size
    problem = landscape(cameras, points, observations)
    path = folder / f"{cameras}-{devices}.daba"
    write_store(lay_out(problem, in_strips(problem, devices)), path)
    return path


def measure(store: Path, method: str, count: int, iterations: int, out: Path) -> dict[str, Any]:
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}",
        __file__, "--iterations", str(iterations), "--process", str(store), method, str(out),
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr[-4000:])
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def one_process(store: str, method: str, out: Path, iterations: int) -> None:
    """One of those that torchrun has started."""
    comm = daba.communicator()
    chosen: dict[str, Any] = METHODS[method] | {"backend": "gpu", "comm": comm}
    daba.solve(daba.Store(store), iterations=3, **chosen)  # compile
    result = daba.solve(
        daba.Store(store), iterations=iterations, function_tolerance=0.0, patience=10**6, **chosen
    )
    if comm.rank > 0:
        return
    history = result.history[1:]
    seconds = np.diff([entry.seconds for entry in result.history])
    total = float(seconds.sum())
    found = {
        "observations": result.sizes.observations,
        "milliseconds": 1e3 * float(np.median(seconds)),
        "waiting": sum(entry.waiting_seconds for entry in history) / total,
        "exchanging": sum(entry.exchange_seconds for entry in history) / total,
        "megabytes": sum(entry.bytes_sent for entry in history) / len(history) / 1e6,
        "F": result.history[-1].objective,
    }
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
