"""The whole command `daba solve MODEL -o OUT` beside a Python process that loads, adjusts and
writes the same COLMAP model with pycolmap, from start to end: what a small model costs.

The two take turns, and of each the best time counts: wall, and CPU of all its threads.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import machine_words, say, table, warn_if_busy

PYCOLMAP = """
import os, sys, pycolmap
model = pycolmap.Reconstruction(sys.argv[1])
options = pycolmap.BundleAdjustmentOptions()
options.print_summary = False
pycolmap.bundle_adjustment(model, options)
os.makedirs(sys.argv[2])
model.write(sys.argv[2])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("model", nargs="?", type=Path, help="6 images and 50 points if absent")
    parser.add_argument("--repeat", type=int, default=15, help="runs of each; the best counts")
    args = parser.parse_args()
    warn_if_busy()
    print(machine_words(os.cpu_count() or 1) + "\n")
    with tempfile.TemporaryDirectory() as scratch:
        model = args.model or synthesized(Path(scratch) / "model")
        out = Path(scratch) / "out"
        commands = {
            "pycolmap": [sys.executable, "-c", PYCOLMAP, str(model), str(out)],
            "daba": [sys.executable, "-m", "daba", "solve", str(model), "-o", str(out)],
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(args.repeat + 1):  # the first one compiles and warms the disk's cache
            for name, command in commands.items():
                times[name].append(seconds(command, out))
    best = {
        name: tuple(min(column) for column in zip(*runs[1:], strict=True))
        for name, runs in times.items()
    }
    rows = [[name, f"{wall:.3f}", f"{cpu:.3f}"] for name, (wall, cpu) in best.items()]
    ratios = [ours / theirs for ours, theirs in zip(best["daba"], best["pycolmap"], strict=True)]
    rows.append(["ratio", *(f"{ratio:.2f}" for ratio in ratios)])
    say(table(["whole process", "wall, s", "CPU, s"], rows))


def seconds(command: list[str], out: Path) -> tuple[float, float]:
    """Wall and CPU time of a process."""
    shutil.rmtree(out, ignore_errors=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def synthesized(folder: Path) -> Path:
    """A model of 6 images, each of which sees all of 50 points, with noise."""
    import pycolmap

    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_frames_per_rig, options.num_points3D = 1, 6, 50
    noise = pycolmap.SyntheticNoiseOptions()
    noise.point2D_stddev, noise.point3D_stddev = 1.0, 0.02
    pycolmap.set_random_seed(1)
    model = pycolmap.synthesize_dataset(options)
    pycolmap.synthesize_noise(noise, model)
    folder.mkdir()
    model.write(folder)
    return folder


if __name__ == "__main__":
    main()
