"""The same bits for 1, 2 and 4 threads; and how many there may be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from scene_text import scene

from daba.backends.cpu import threads
from daba.backends.cpu.threads import MOST, Pool, most_threads
from daba.core.errors import DabaError

THREADS = [1, 2, 4]
RUNS: dict[str, dict[str, object]] = {
    "daba, paper": {"method": "daba", "devices": 5, "refine": "none"},
    "daba, points, pcg": {
        "method": "daba", "devices": 5, "refine": "points", "linear_solver": "pcg",
    },
    "daba, sweep, restarts": {
        "method": "daba", "devices": 5, "refine": "sweep", "restart_ratio": 1.0, "eta": 1.0,
        "momentum_clip": 1e6,
    },
    "duba": {"devices": 3, "method": "duba", "refine": "sweep"},
    "lm, direct": {"method": "lm", "linear_solver": "direct"},
    "lm, pcg": {"method": "lm", "linear_solver": "pcg"},
    "shared, daba": {"method": "daba", "devices": 5, "linear_solver": "direct"},
    "shared, lm": {"method": "lm", "linear_solver": "pcg"},
    "lm, devices": {"method": "lm", "devices": 5},
}  # fmt: skip
SCRIPT = """
import dataclasses, hashlib, json, sys
import daba
runs, threads = json.loads(sys.argv[1])
scene = daba.SceneOptions(cameras=40, points=6000, rotation_error=1.0, outliers=0.02)
plain = daba.generate(scene).start
shared = dataclasses.replace(plain, focal=plain.focal * 0.0 + 850.0)  # a start with d = (1, 0, 0)
shared = daba.constrain(shared, share_intrinsics="all", intrinsics_prior=0.1, fix="gauge")
found = {}
for name, options in runs.items():
    start = shared if name.startswith("shared") else plain
    found[name] = []
    for count in threads:
        loss = daba.Huber(10.0)
        result = daba.solve(start, threads=count, iterations=6, loss=loss, **options)
        bits = result.problem.cameras.tobytes() + result.problem.points.tobytes()
        history = [(i.objective, i.restarts, i.pcg_iterations, i.lm_retries, i.rms_pixels)
                   for i in result.history]
        found[name].append([hashlib.sha256(bits).hexdigest(), history])
print(json.dumps(found))
"""

Found = dict[str, list[list[object]]]


@pytest.fixture(scope="module")
def found(compiled: None) -> Found:
    """Every run with every number of threads, in a process that may use 4."""
    source = str(ROOT / "src")
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "NUMBA_NUM_THREADS": "4", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([RUNS, THREADS])],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result: Found = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("run", RUNS)
def test_the_result_does_not_depend_on_the_number_of_threads(run: str, found: Found) -> None:
    one, two, four = found[run]
    assert one == two
    assert one == four


def test_the_runs_do_exercise_what_they_should(found: Found) -> None:
    def total(run: str, column: int) -> float:
        return sum(row[column] for row in found[run][0][1])  # type: ignore[attr-defined]

    assert total("daba, sweep, restarts", 1) > 0
    assert total("lm, pcg", 2) > 10
    assert total("lm, direct", 2) == 0
    assert len({str(found[run][0][0]) for run in RUNS}) == len(RUNS)


MORE = (
    scene(cameras=6, points=60)
    + """
import os, sys

more = (os.cpu_count() or 1) + 1
for method in sys.argv[1:]:
    for threads in (more, 1, None):
        daba.solve(problem, method=method, threads=threads, linear_solver="direct", iterations=1)
"""
)


@pytest.mark.parametrize("methods", [("lm", "daba"), ("daba", "lm")])
def test_more_threads_than_cores_may_be_asked_for(compiled: None, methods: tuple[str, str]) -> None:
    """By those who run kernels without Numba and with it, in either order."""
    environment = {k: v for k, v in os.environ.items() if k != MOST}
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", MORE, *methods], env={**environment, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


IDLE = """
import os, time
import numpy
import daba

def running():
    threads = [open(f"/proc/self/task/{t}/stat").read() for t in os.listdir("/proc/self/task")]
    return sum(line.rpartition(")")[2].split()[0] == "R" for line in threads)

while running() > 1:  # threads of NumPy's BLAS begin by spinning
    time.sleep(0.05)
problem = daba.generate(daba.SceneOptions(cameras=40, points=6000)).start
daba.save(problem, "problem.txt")
assert running() == 1, "saving"
problem = daba.load("problem.txt", intrinsics="standard")
assert running() == 1, "loading"
daba.solve(problem, iterations=1)
time.sleep(0.01)  # they spin for some microseconds
assert running() == 1, "solving"
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc here")
def test_no_thread_of_blas_spins_beside_a_solve(compiled: None, tmp_path: Path) -> None:
    """It would have the core that the next solve needs."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", IDLE], env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("told", ["many", "0", "-1", "1.5"])
def test_a_number_of_threads_that_is_none_is_refused(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MOST, told)
    with pytest.raises(DabaError, match=f"{MOST} is '{told}'"):
        most_threads()


@pytest.mark.usefixtures("compiled")
def test_a_fork_of_a_process_that_has_solved() -> None:
    """OpenMP does nothing there, and a result would be made of nothing."""
    script = f"""
import os
import daba
from daba.core.errors import DabaError
{scene(cameras=12, points=800)}
daba.solve(problem, iterations=2, threads=2)
if os.fork() == 0:
    try:
        daba.solve(problem, iterations=2, threads=2)
    except DabaError as error:
        print("REFUSED", error, flush=True)
    os._exit(0)
os.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert "REFUSED this process was forked from one that had solved already" in done.stdout
    assert "OpenMP" not in done.stderr


class Claiming:
    """A kernel of a `concurrent` function, in Python: `work` on each task, after a pause."""

    def __init__(self, work: Callable[[int], None], pause: float = 0.0) -> None:
        self.work, self.pause, self.lock = work, pause, threading.Lock()

    def __call__(self, claimed: Any, done: Any, all_tasks: int, at_once: int, turns: int) -> None:
        def claim() -> int:
            with self.lock:
                claimed[0] += at_once
                return int(claimed[0]) - at_once

        while (lo := claim()) < all_tasks:
            for task in range(lo, min(lo + at_once, all_tasks)):
                time.sleep(self.pause)
                self.work(task)
            with self.lock:
                done[0] += min(at_once, all_tasks - lo)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_task_is_done_once_before_the_pool_returns(count: int) -> None:
    pool = Pool(count)
    try:
        for tasks in (*range(20), 100):  # one after the other: who comes late finds the next
            done: list[int] = []
            pool.run(Claiming(done.append, 1e-4), tasks)
            assert sorted(done) == list(range(tasks))
    finally:
        pool.close()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be placed here")
def test_workers_begin_on_other_cores_and_may_go_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, placed = os.sched_getaffinity(0), []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: placed.append(set(cores)))
    monkeypatch.setattr(threads, "usable_cores", lambda: mine | {0, 1})
    monkeypatch.setattr(threads, "_core", lambda: 1)
    pool = Pool(2)
    try:
        pool.run(Claiming(lambda task: None, 1e-3), 20)
    finally:
        pool.close()
    assert placed == [(mine | {0, 1}) - {1}, mine | {0, 1}]
    placed.clear()
    threads._leave(-1)  # where nobody can tell
    assert not placed


def test_the_core_of_a_thread_is_one_that_it_may_run_on() -> None:
    assert threads._core() in threads.usable_cores() | {-1}


@pytest.mark.parametrize("fails", ["a helper", "the caller"])
def test_a_task_that_fails_ends_the_run_and_not_the_pool(fails: str) -> None:
    caller, failed = threading.current_thread(), threading.Event()
    finished: list[int] = []

    def work(task: int) -> None:
        if (threading.current_thread() is caller) == (fails == "the caller"):
            failed.set()
            raise MemoryError(f"task {task}")
        failed.wait(10.0)  # so that the other gets something to do
        time.sleep(0.01)
        finished.append(task)

    pool = Pool(2)
    try:
        with pytest.raises(MemoryError, match="task"):
            pool.run(Claiming(work), 10)
        count = len(finished)
        time.sleep(0.05)
        assert len(finished) == count  # nobody is still at it
        done: list[int] = []
        pool.run(Claiming(done.append), 10)
        assert sorted(done) == list(range(10))
    finally:
        pool.close()
