"""Solves that are killed at random moments and resumed end with the bits of one that never was.

    python tests/fuzz/kills.py [--count 50] [--seed 0]

Each solve saves a checkpoint at every iteration and is ended, once, at a random moment from its
start to the writing of its outputs, by SIGKILL, SIGTERM or SIGINT; then it is resumed, or begun
anew where there is no checkpoint yet.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import daba

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
METHODS = (["daba"], ["daba", "--refine", "none"], ["admm"], ["lm"])
ITERATIONS = 40
PATIENCE = 120.0
"""Seconds after which a solve hangs."""


def make_problem(folder: Path) -> Path:
    """Something to solve."""
    options = daba.SceneOptions(scene="city", cameras=20, points=200, seed=5)
    daba.save(daba.generate(options).start, folder / "scene.npz")
    return folder / "scene.npz"


def command(problem: Path, method: list[str], out: Path, saved: Path) -> list[str]:
    argv: list[object] = [
        "solve",
        problem,
        "--method",
        *method,
        "--devices",
        4,
        "--threads",
        1,
        "--quiet",
    ]
    argv += ["--iterations", ITERATIONS, "--function-tolerance", 0, "--output", out]
    argv += ["--checkpoint", saved, "--checkpoint-every", 1]
    if any(saved.glob("iteration-*")):
        argv += ["--resume", saved]
    return [sys.executable, "-m", "daba", *map(str, argv)]


def attempt(problem: Path, folder: Path, whole: dict[str, float], draw: random.Random) -> str:
    """One solve, killed and resumed; what is wrong with what it left.

    whole   seconds that each method takes when nobody interrupts it; it is filled
    """
    method = draw.choice(METHODS)
    name = "-".join(method).replace("--", "")
    aim = folder / f"{name}.npz"
    if name not in whole:
        began = time.monotonic()
        subprocess.run(command(problem, method, aim, folder / name), check=True, timeout=PATIENCE)
        whole[name] = time.monotonic() - began
    out, saved = folder / "out.npz", folder / "saved"
    with subprocess.Popen(
        command(problem, method, out, saved), stderr=subprocess.PIPE, text=True
    ) as process:
        after, number = draw.uniform(0.2, 1.0) * whole[name], draw.choice(SIGNALS)
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    what = f"{name}, {signal.Signals(number).name} after {after:.2f} s"
    if "Traceback" in err or process.returncode not in (0, -number, 128 + number):
        return f"{what}: exit code {process.returncode}: {err}"
    if process.returncode != 0:
        resumed = command(problem, method, out, saved)
        done = subprocess.run(resumed, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            return f"{what}: resumed, exit code {done.returncode}: {done.stderr}"
    one, two = daba.load(aim), daba.load(out)
    if one.cameras.tobytes() + one.points.tobytes() != two.cameras.tobytes() + two.points.tobytes():
        return f"{what}: other bits"
    left = [path.name for path in saved.iterdir() if not path.name.startswith("iteration-")]
    return f"{what}: left behind {left}" if left else ""


def campaign(count: int, seed: int) -> list[str]:
    """What went wrong."""
    draw, wrong = random.Random(seed), list[str]()
    whole: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as root:
        problem = make_problem(Path(root))
        for number in range(count):
            folder = Path(root) / "solves"
            folder.mkdir(exist_ok=True)
            shutil.rmtree(folder / "saved", ignore_errors=True)
            (folder / "out.npz").unlink(missing_ok=True)
            if why := attempt(problem, folder, whole, draw):
                wrong.append(f"{number}: {why}")
                print(wrong[-1], flush=True)
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    wrong = campaign(given.count, given.seed)
    print(f"{given.count} solves killed and resumed, {len(wrong)} violations")
    sys.exit(1 if wrong else 0)
