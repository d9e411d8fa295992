"""However a job ends, all its processes end, and what was saved is whole."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from jobs import (
    SOON,
    Job,
    Outcome,
    bits,
    checkpoints,
    flip,
    needs_mpi,
    read_history,
    run,
    run_all,
    scene,
    start,
)
from places import HELPERS

import daba
from daba.io.store.writing import save

pytestmark = [needs_mpi, pytest.mark.usefixtures("compiled")]

RAISING = HELPERS / "raising.py"


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A problem that is solved long enough to be stopped meanwhile."""
    path = tmp_path_factory.mktemp("endings") / "scene.npz"
    daba.save(scene(60, 3000), path)
    return path


def endless(problem: Path, folder: Path) -> list[str]:
    return [
        "solve", f"{problem}", "--devices", "4", "--method", "daba", "--quiet",
        "--iterations", "1000000",
        "--function-tolerance", "0", "--checkpoint", f"{folder}/saved", "--checkpoint-every", "5",
        "--output", f"{folder}/solution.npz", "--history", f"{folder}/history.json",
    ]  # fmt: skip


def stop(job: Job, folder: Path, pid: int, number: signal.Signals) -> Outcome:
    """Send a signal once there are two checkpoints."""
    job.wait_until(lambda: len(checkpoints(folder / "saved")) == 2)
    os.kill(pid, number)
    outcome = job.wait()
    assert outcome.seconds < SOON
    return outcome


def check_resumed(problem: Path, folder: Path) -> None:
    """From the latest checkpoint on, a solve is as one that was never stopped."""
    done = int(checkpoints(folder / "saved")[-1].removeprefix("iteration-"))
    both = [
        "solve", problem, "--devices", 4, "--method", "daba", "--threads", 1, "--quiet",
        "--iterations", done + 2,
        "--function-tolerance", 0,
    ]  # fmt: skip
    names = ("resumed", "whole")
    outputs = [["--output", folder / f"{n}.npz", "--history", folder / f"{n}.json"] for n in names]
    run_all(0, [[*both, "--resume", folder / "saved", *outputs[0]], [*both, *outputs[1]]])
    assert bits(folder / "resumed.npz") == bits(folder / "whole.npz")
    assert read_history(folder / "resumed.json") == read_history(folder / "whole.json")


@pytest.mark.parametrize(
    ("ranks", "number", "code"),
    [
        (0, signal.SIGINT, 130),
        (0, signal.SIGTERM, 143),
        (2, signal.SIGUSR1, 138),  # mpiexec passes it on to all its processes
    ],
)
def test_a_stopped_solve_saves_and_writes_what_it_reached(
    ranks: int, number: signal.Signals, code: int, problem: Path, tmp_path: Path
) -> None:
    job = start(ranks, *endless(problem, tmp_path))
    outcome = stop(job, tmp_path, job.process.pid, number)
    assert outcome.code == code, outcome.err
    assert "daba: error" not in outcome.err
    check_written(problem, tmp_path)
    check_resumed(problem, tmp_path)


def test_one_process_that_is_terminated_stops_all(problem: Path, tmp_path: Path) -> None:
    """As batch systems do it, which signal processes rather than mpiexec."""
    job = start(2, *endless(problem, tmp_path))
    job.wait_until(lambda: len(checkpoints(tmp_path / "saved")) == 2)
    outcome = stop(job, tmp_path, job.pid_of(1), signal.SIGTERM)
    assert outcome.code == 143, outcome.err
    assert "daba: error" not in outcome.err
    check_written(problem, tmp_path)


def check_written(problem: Path, folder: Path) -> None:
    """The solution is that of the last entry of the history and of the last checkpoint."""
    last = read_history(folder / "history.json")[-1]
    assert daba.load(folder / "solution.npz").objective() == pytest.approx(last["objective"])
    assert last["objective"] < daba.load(problem).objective()
    assert checkpoints(folder / "saved")[-1] == f"iteration-{last['iteration']:08d}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_was_saved_outlives_mpiexec(
    number: signal.Signals, problem: Path, tmp_path: Path
) -> None:
    """Open MPI's mpiexec kills all processes a quarter of a second after either signal, too soon
    for a large problem to be saved once more, and exits with 1."""
    job = start(2, *endless(problem, tmp_path))
    outcome = stop(job, tmp_path, job.process.pid, number)
    assert outcome.code == 1
    assert not any(path.suffix == ".npz" for path in tmp_path.glob(".*"))
    check_resumed(problem, tmp_path)


def test_a_killed_process_ends_all_and_what_was_saved_is_whole(
    problem: Path, tmp_path: Path
) -> None:
    job = start(3, *endless(problem, tmp_path))
    job.wait_until(lambda: len(checkpoints(tmp_path / "saved")) == 2)
    ranks = [job.pid_of(rank) for rank in range(3)]
    outcome = stop(job, tmp_path, ranks[1], signal.SIGKILL)
    assert outcome.code == 137, outcome.err
    wait_for_end(ranks)
    assert not (tmp_path / "solution.npz").exists()
    check_resumed(problem, tmp_path)


def wait_for_end(pids: list[int]) -> None:
    limit = time.monotonic() + SOON
    while any(map(is_running, pids)):
        assert time.monotonic() < limit
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_damaged_shard_is_told_by_who_reads_it_and_ends_all(tmp_path: Path) -> None:
    save(scene(), tmp_path / "scene.daba", 8)
    file = tmp_path / "scene.daba" / "device-0007" / "intra-u.npy"
    flip(file)
    outcome = run(3, "solve", tmp_path / "scene.daba", "--output", tmp_path / "s.daba", "--quiet")
    assert outcome.code == 2
    assert outcome.seconds < SOON
    told = [line for line in outcome.err.splitlines() if line.startswith("daba")]
    assert len(told) == 1
    assert told[0].startswith("daba: error on rank 2: ")
    assert str(file) in told[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scene.daba"]


def test_a_mistake_on_one_process_ends_all(problem: Path) -> None:
    outcome = Job(
        2, [RAISING, "solve", problem, "--devices", 4, "--method", "daba", "--quiet"]
    ).wait()
    assert outcome.code == 1
    assert outcome.seconds < SOON
    assert "ZeroDivisionError: a mistake made on purpose" in outcome.err
    assert "daba: error on rank 1: this is a bug in daba" in outcome.err
    assert outcome.err.count("daba: error") == 1


def test_an_error_that_all_processes_meet_is_told_once(problem: Path, tmp_path: Path) -> None:
    outcome = run(3, "solve", problem, "--devices", 2)
    assert outcome.code == 2
    assert outcome.err.count("daba: error") == 1
    assert "daba: error: 3 processes for 2 devices: every process needs a device" in outcome.err
    outcome = run(2, "solve", problem, "--divices", 2)
    assert outcome.code == 2
    assert outcome.err.count("no option --divices; did you mean --devices?") == 1


def test_one_process_talks_for_all(problem: Path) -> None:
    for command in (("--help",), ("solve", "--help")):
        outcome = run(2, *command)
        assert outcome.code == 0
        assert outcome.err == ""
        assert outcome.out.count("usage: daba") == 1
    outcome = run(2, "solve", problem, "--devices", 4, "--method", "daba", "--iterations", 2)
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out.count("60 cameras, 3,000 points") == 2  # at the start, and in the result
    assert outcome.out.count("reached the limit of 2 iterations") == 1


def test_two_jobs_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    save(scene(), tmp_path / "scene.daba", 4)
    (tmp_path / "saved").mkdir()

    def command(name: str, *options: str) -> list[str | Path]:
        return [
            "solve", tmp_path / "scene.daba", "--quiet", "--iterations", "6", *options,
            "--output", tmp_path / f"{name}.daba", "--history", tmp_path / f"{name}.json",
        ]  # fmt: skip

    options = {"sweep": [], "none": ["--refine", "none"]}
    jobs = [
        start(2, *command(name, *more, "--checkpoint", f"{tmp_path}/saved/{name}",
                          "--checkpoint-every", "2"))
        for name, more in options.items()
    ]  # fmt: skip
    for job in jobs:
        outcome = job.wait()
        assert outcome.code == 0, outcome.err
    run_all(0, [command(f"{name}-alone", *more) for name, more in options.items()])
    for name in options:
        assert bits(tmp_path / f"{name}.daba") == bits(tmp_path / f"{name}-alone.daba")
        histories = [read_history(tmp_path / f"{n}.json") for n in (name, f"{name}-alone")]
        assert histories[0] == histories[1]
        assert checkpoints(tmp_path / "saved" / name)[-1] == "iteration-00000006"
    assert not list(tmp_path.glob(".*"))
