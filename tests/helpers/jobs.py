"""Running daba under MPI in the tests: jobs that always end, and what they leave behind."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from small_machine import SMALL_MACHINE

import daba
from daba.partition.partition import make_partition
from daba.problem.priors import Priors, Targets
from daba.problem.problem import Problem
from daba.tools.cli import main

LIMIT = 120.0
"""Seconds after which a job is ended: no test may hang."""
SOON = 30.0
"""Seconds within which a job must have ended after a failure. It takes one or two; starting is
counted, too, where a job fails on its own, and that is slow on a busy machine."""
SEVERAL = Path(__file__).with_name("several.py")
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
TIMES = ("seconds", "bytes_sent", "compute_seconds", "waiting_seconds", "exchange_seconds")
"""What may differ between two histories of the same solve."""

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="no MPI here: pip install 'daba[mpi]'",
)


class Outcome(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float
    """From when it was first waited for."""


class Job:
    """`mpiexec -n RANKS python ARGUMENTS`, or without MPI if there are no ranks."""

    def __init__(self, ranks: int, arguments: Sequence[object]) -> None:
        launch = [str(MPIEXEC), "-n", str(ranks)] if ranks else []
        self.process = subprocess.Popen(
            [*launch, sys.executable, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | SMALL_MACHINE,
        )

    def wait(self, limit: float = LIMIT) -> Outcome:
        began = time.monotonic()
        try:
            out, err = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.end()
            raise
        seconds = time.monotonic() - began
        return Outcome(self.process.returncode, plain(out), plain(err), seconds)

    def wait_until(self, holds: Callable[[], object]) -> None:
        """Until something holds while the job is running."""
        limit = time.monotonic() + LIMIT
        while not holds():
            if self.process.poll() is not None:
                pytest.fail(f"the job ended too early: {self.process.communicate()}")
            if time.monotonic() > limit:
                self.end()
                pytest.fail("what was waited for did not happen")
            time.sleep(0.02)

    def end(self) -> None:
        self.process.terminate()  # mpiexec ends all its processes; killed it could not
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def pid_of(self, rank: int) -> int:
        """The process of a rank, which is a child of mpiexec."""
        parent, name = f"PPid:\t{self.process.pid}\n", f"OMPI_COMM_WORLD_RANK={rank}\0"
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                if parent in status.read_text() and name in (status.parent / "environ").read_text():
                    return int(status.parent.name)
            except OSError:  # it has ended meanwhile
                continue
        raise LookupError(f"there is no rank {rank}")


def plain(text: str) -> str:
    """Without colours, since mpiexec gives each process a terminal of its own, and without the
    zero byte that ends mpiexec's own notices, before what a process says on a busy machine."""
    return re.sub(r"\x1b\[[0-9;]*m|\0", "", text)


def start(ranks: int, *command: object) -> Job:
    """Start `daba COMMAND` on so many ranks."""
    return Job(ranks, ["-m", "daba", *command])


def run(ranks: int, *command: object) -> Outcome:
    return start(ranks, *command).wait()


def run_all(ranks: int, commands: Sequence[Sequence[object]]) -> None:
    """Run commands one after the other in one job, or in this process if there are no ranks;
    each must succeed."""
    texts = [[str(argument) for argument in command] for command in commands]
    if ranks == 0:
        assert [main(text) for text in texts] == [0] * len(texts)
        return
    outcome = Job(ranks, [SEVERAL, json.dumps(texts)]).wait()
    assert outcome.code == 0, outcome.err


def bits(path: Path) -> tuple[bytes, bytes]:
    """The cameras and points of a file or store."""
    problem = daba.load(path)
    return problem.cameras.tobytes(), problem.points.tobytes()


def read_history(path: Path) -> list[dict[str, Any]]:
    """The iterations of a history, without what may differ between two runs."""
    entries = json.loads(path.read_text())["iterations"]
    return [{k: v for k, v in entry.items() if k not in TIMES} for entry in entries]


def scene(cameras: int = 40, points: int = 300, seed: int = 0) -> Problem:
    options = daba.SceneOptions(scene="city", cameras=cameras, points=points, seed=seed)
    return daba.generate(options).start


def constrained(problem: Problem, devices: int = 8) -> Problem:
    """Something of everything: intrinsics shared by devices 0 and 1, by 1 and 5, by 2 and 3, and
    within device 4; fixed variables; priors."""
    device = make_partition(problem, devices).camera_device
    shared = 100 + np.arange(problem.num_cameras, dtype=np.int32)
    shared[np.isin(device, [2, 3])] = 7
    shared[device == 0] = 3
    shared[device == 5] = 9
    ones = np.flatnonzero(device == 1)
    shared[ones] = np.where(np.arange(len(ones)) % 2, 3, 9)
    shared[device == 4] = 1
    random = np.random.default_rng(0)
    free = random.random((problem.num_cameras, 9)) < 0.9
    free[:, 6:] = True
    centers = problem.centers + 0.1 * random.normal(size=problem.centers.shape)
    seen = random.permutation(problem.num_points)[:40]
    priors = Priors(
        Targets.make(np.arange(20), centers[:20], sigma=0.1, loss=daba.Huber(1.0)),
        Targets.make([0, 5, 9], problem.intrinsics[:3], sigma=0.05),
        Targets.make(seen, problem.points[seen], sigma=0.2),
    )
    return replace(
        problem,
        focal=np.full(problem.num_cameras, 850.0),
        shared=shared,
        free_cameras=free,
        free_points=random.random(problem.num_points) < 0.9,
        priors=priors,
    ).validated()


def side_by_side(a: Problem, b: Problem) -> Problem:
    """One problem of two scenes that have nothing in common."""
    join = np.concatenate
    return Problem(
        cameras=join([a.cameras, b.cameras]),
        points=join([a.points, b.points]),
        camera_index=join([a.camera_index, b.camera_index + np.int32(a.num_cameras)]),
        point_index=join([a.point_index, b.point_index + np.int32(a.num_points)]),
        u=join([a.u, b.u]),
        weights=join([a.weights, b.weights]),
        focal=join([a.focal, b.focal]),
        name="two scenes",
    ).validated()


def checkpoints(folder: Path) -> list[str]:
    """Names of the complete checkpoints."""
    return sorted(path.name for path in folder.glob("iteration-*"))


def flip(path: Path, at: int = -1) -> None:
    """Damage one byte of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)
